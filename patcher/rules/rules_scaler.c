/* patcher/rules/rules_scaler.c - the loss scale, and Adam in float16 without one. */
#include "config.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "precision/format.h"
#include "train/model/optimizer_table.h"

static void rule_unused_loss_scale(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_entry(context, "loss_scale");

    if (!entry || rule_runs_fp16(context) ||
        context->plan->request.loss_scaling == CHOICE_NO ||
        (context->plan->request.loss_scaling == CHOICE_AUTO &&
         strcmp(node_value(entry->value)->text, "dynamic") != 0)) /* TS705 */
        return;
    propose_removal(&to,
                    &(struct finding) { .rule = "TS112",
                                        .severity = SEVERITY_WARNING,
                                        .apply = APPLY_UNSAFE,
                                        .because = rule_device_text(context),
                                        .message =
                                            "loss_scale has no effect without fp16: bf16 "
                                            "and float32 cover the range of gradients",
                                        .note = "the line is commented out" },
                    entry);
}

static void rule_loss_scale_off(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool off = request->loss_scaling == CHOICE_NO ||
               (request->loss_scaling == CHOICE_YES && request->loss_scale == 1);

    if (!off || !rule_runs_fp16(context) || rule_is_policy(context, POLICY_NOSCALER) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    rule_propose(
        context,
        &(struct finding) { .rule = "TS113",
                            .severity = SEVERITY_WARNING,
                            .apply = APPLY_UNSAFE,
                            .message = "fp16 without a loss scale: gradients below 6e-8 "
                                       "become zero" },
        "loss_scale", "dynamic", NULL);
}

static void propose_no_fp16(struct rule_context *context)
{
    rule_propose(context,
                 &(struct finding) {
                     .rule = "TS126",
                     .severity = SEVERITY_WARNING,
                     .apply = APPLY_SAFE,
                     .message =
                         "policy noscaler: with fp16 the Trainer always creates a "
                         "scaler, which refuses 16-bit weights; without fp16 they are "
                         "updated unscaled",
                     .note = "at a learning rate of 2e-5 a weight of 0.1 never changes" },
                 "fp16", "false", NULL);
}

static void rule_policy_noscaler(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    const struct stored_weights weights = stored_weights_now(context);

    if (!rule_is_policy(context, POLICY_NOSCALER) || request->fp16 != CHOICE_YES)
        return;
    if (context->plan->external) {
        if (stored_weights_stop_any_scaler(&weights))
            propose_no_fp16(context);
    } else if (rule_trains_float16(context) && request->loss_scaling != CHOICE_NO)
        rule_propose(
            context,
            &(struct finding) {
                .rule = "TS126",
                .severity = SEVERITY_WARNING,
                .apply = APPLY_SAFE,
                .message = "policy noscaler: float16 weights are updated without a loss "
                           "scale; at a learning rate of 2e-5 a weight of 0.1 never "
                           "changes" },
            "loss_scale", "none", "fp16");
}

static void rule_epsilon_underflow(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_entry(context, "adam_epsilon");

    if (!rule_is_policy(context, POLICY_NOSCALER) || !rule_trains_float16(context) ||
        plan->request.bf16 == CHOICE_YES || !optimizer_of(plan)->divides ||
        !(plan->adam_epsilon < format_info(FORMAT_FP16)->min_subnormal))
        return;
    propose_remark(&to,
                   &(struct finding) {
                       .rule = "TS122",
                       .severity = SEVERITY_WARNING,
                       .key = "adam_epsilon",
                       .message = arena_printf(
                           context->arena,
                           "adam_epsilon %s is below the smallest float16 value, 6e-8: "
                           "if the second moment underflows as well, a step divides by "
                           "zero or greatly exceeds the learning rate",
                           scalar_print(plan->adam_epsilon, context->arena)),
                       .note = "use 1.0e-5 to 1.0e-4, or another policy" },
                   entry ? entry : rule_block_entry(context, "policy"));
}

static const struct rule rows[] = {
    { .id = "TS112",
      .title = "loss_scale without fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_NATIVE,
      .run = rule_unused_loss_scale,
      .explain =
          "The loss scale moves gradients into the range of float16. bf16 and float32 "
          "reach down to 1e-38, so there is nothing to scale. `--unsafe` comments the "
          "line out.",
      .source = "Micikevicius et al., Mixed Precision Training, 2018" },
    { .id = "TS113",
      .title = "fp16 with the loss scale off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_UNSAFE,
      .target = RULE_NATIVE,
      .run = rule_loss_scale_off,
      .explain =
          "The smallest float16 value is 6e-8; many gradients are smaller and become "
          "zero. A dynamic scale starts at 65536, halves after an overflow (that step "
          "is skipped) and doubles after 2000 good steps. It costs nothing.",
      .source =
          "Micikevicius et al., Mixed Precision Training, 2018; torch.amp.GradScaler" },
    { .id = "TS122",
      .title = "adam_epsilon underflows in float16",
      .severity = SEVERITY_WARNING,
      .run = rule_epsilon_underflow,
      .explain =
          "Adam divides by the square root of its second moment plus epsilon. Under "
          "policy noscaler the moments are float16, whose smallest value is 6e-8: the "
          "default epsilon of 1e-8 rounds to 0, and so does the second moment of a "
          "gradient below about 0.005. PyTorch's step then divides by zero, and the "
          "weight is inf after the first step. A kernel that computes in float32, like "
          "that of a native run, does not divide by zero but loses the second moment "
          "between steps: after 1000 steps each update is 25 times the learning "
          "rate.\n\n"
          "An epsilon of 1e-5 to 1e-4 bounds the step and makes Adam behave almost like "
          "plain gradient descent for small gradients. It is better to leave the "
          "policy: with float32 weights the default is right.",
      .source = "AdamW in float16, emulated: docs/precision.md" },
    { .id = "TS126",
      .title = "policy noscaler trains float16 weights without a scaler",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_policy_noscaler,
      .explain =
          "A known report recommends this: the error disappears because gradients are no "
          "longer unscaled. What remains is Adam in float16, with the effects described "
          "in TS108. The policy exists to reproduce such a run, not to train well. "
          "Without the policy, TS105 fixes the job.\n\n"
          "In a native job the patch sets loss_scale to none. The Trainer of an external "
          "job creates a scaler whenever fp16 is true, so there the patch sets fp16 to "
          "false.",
      .source = "a user report (docs/precision.md)" },
};

const struct rules rules_scaler = { rows, TS_COUNT(rows) };
