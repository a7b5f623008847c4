/* patcher/rules_scaler.c - the loss scale, and what stays of Adam without one. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "patcher/schema/scalar.h"
#include "precision/format.h"
#include "train/model/optimizer_table.h"

void rule_idle_scale(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_entry(context, "loss_scale");

    if (!entry || rule_ends_in_fp16(context) ||
        context->plan->request.loss_scaling == CHOICE_NO ||
        (context->plan->request.loss_scaling == CHOICE_AUTO &&
         strcmp(node_value(entry->value)->text, "dynamic") != 0)) /* TS705 */
        return;
    propose_removal(&to,
                    &(struct finding) { .rule = "TS112",
                                        .severity = SEVERITY_WARNING,
                                        .apply = APPLY_UNSAFE,
                                        .because = rule_device(context),
                                        .message =
                                            "loss_scale has no use without fp16: bf16 "
                                            "and float32 reach as far as gradients do",
                                        .note = "the line is commented out" },
                    entry);
}

void rule_scale_off(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;
    bool off = request->loss_scaling == CHOICE_NO ||
               (request->loss_scaling == CHOICE_YES && request->loss_scale == 1);

    if (!off || !rule_ends_in_fp16(context) || rule_is_policy(context, POLICY_NOSCALER) ||
        rule_is_policy(context, POLICY_FP32))
        return;
    rule_set(context,
             &(struct finding) { .rule = "TS113",
                                 .severity = SEVERITY_WARNING,
                                 .apply = APPLY_UNSAFE,
                                 .message =
                                     "fp16 without a loss scale: gradients below 6e-8 "
                                     "become zero" },
             "loss_scale", "dynamic", NULL);
}

/* ---- Policy noscaler ---- */

static void without_fp16(struct rule_context *context)
{
    rule_set(context,
             &(struct finding) {
                 .rule = "TS126",
                 .severity = SEVERITY_WARNING,
                 .apply = APPLY_SAFE,
                 .message = "policy noscaler: with fp16 the Trainer always makes a "
                            "scaler, which stops at float16 weights; without, they are "
                            "stepped as they are",
                 .note = "with lr 2e-5 a weight of 0.1 never moves" },
             "fp16", "false", NULL);
}

void rule_policy_noscaler(struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    if (!rule_is_policy(context, POLICY_NOSCALER) || !rule_half_trainables(context) ||
        request->fp16 != CHOICE_YES)
        return;
    if (context->plan->external)
        without_fp16(context);
    else if (request->loss_scaling != CHOICE_NO)
        rule_set(context,
                 &(struct finding) {
                     .rule = "TS126",
                     .severity = SEVERITY_WARNING,
                     .apply = APPLY_SAFE,
                     .message =
                         "policy noscaler: float16 weights are stepped without a loss "
                         "scale; with lr 2e-5 a weight of 0.1 never moves" },
                 "loss_scale", "none", "fp16");
}

void rule_epsilon(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct proposal to = rule_proposal(context);
    const struct entry *entry = rule_entry(context, "adam_epsilon");

    if (!rule_is_policy(context, POLICY_NOSCALER) || !rule_half_trainables(context) ||
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
                           "adam_epsilon %s is below the smallest float16, 6e-8: where "
                           "the second moment underflows too, a step divides by zero or "
                           "grows far beyond the learning rate",
                           scalar_print(plan->adam_epsilon, context->arena)),
                       .note = "1.0e-5 to 1.0e-4, or another policy" },
                   entry ? entry : rule_block_entry(context, "policy"));
}
