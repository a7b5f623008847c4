/* patcher/rules/rules_clipping.c - rules about max_grad_norm: empty, off, negative. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <math.h>

#include "base/size.h"

static bool is_null(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_line(context, key);

    return entry && node_is_null(entry->value);
}

static void rule_empty_clip(struct rule_context *context)
{
    bool deepspeed = context->plan->external && rule_entry(context, "deepspeed");

    if (!is_null(context, "max_grad_norm"))
        return;
    rule_propose(
        context,
        &(struct finding) {
            .rule = "TS401",
            .severity = deepspeed ? SEVERITY_ERROR : SEVERITY_WARNING,
            .apply = APPLY_SAFE,
            .message = "an empty max_grad_norm turns clipping off here, means 1.0 in "
                       "Axolotl, and fails in DeepSpeed",
            .note =
                "0.0 means off everywhere; it does not avoid the loss scaler's error" },
        "max_grad_norm", "0.0", NULL);
}

static void rule_clipping_off(struct rule_context *context)
{
    if (context->plan->external &&
        (rule_uses_fused_adamw(context) || rule_is_set(context, "deepspeed")))
        return; /* the optimizer, or DeepSpeed, unscales on its own: TS408 */
    if (!rule_entry(context, "max_grad_norm") ||
        context->plan->request.max_grad_norm != 0 || !rule_requests_fp16(context) ||
        rule_is_policy(context, POLICY_NOCLIP))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS402",
            .severity = SEVERITY_WARNING,
            .message = "clipping is off with fp16: gradients are still unscaled, so this "
                       "does not avoid the loss scaler's error",
            .note =
                context->plan->external
                    ? "max_grad_norm: 1.0 is the default; without clipping the Trainer "
                      "logs no grad_norm"
                    : "max_grad_norm: 1.0 is the default; grad_norm is logged in both "
                      "cases" },
        "max_grad_norm");
}

static void rule_negative_clip(struct rule_context *context)
{
    const double norm = context->plan->request.max_grad_norm;

    if (!(norm < 0) && !isnan(norm))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS403",
                    .severity = SEVERITY_ERROR,
                    .message = isnan(norm) ? "max_grad_norm is not a number: every "
                                             "gradient would become NaN"
                                           : "a negative max_grad_norm reverses every "
                                             "gradient: the loss would rise",
                    .note = "0.0 turns clipping off; the default is 1.0" },
                "max_grad_norm");
}

static void rule_policy_noclip(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS404",
        .severity = SEVERITY_WARNING,
        .apply = APPLY_SAFE,
        .message =
            "policy noclip: large gradients are applied unclipped, and float16 weights "
            "still raise the loss scaler's error",
        .note = "PyTorch's fused AdamW raises no error, but steps in float16",
    };

    if (!rule_is_policy(context, POLICY_NOCLIP) || is_null(context, "max_grad_norm"))
        return; /* TS401 writes a zero first */
    if (context->plan->request.max_grad_norm == 0)
        rule_report(context, &finding, "max_grad_norm");
    else
        rule_propose(context, &finding, "max_grad_norm", "0.0", "fp16");
}

static const struct rule rows[] = {
    { .id = "TS401",
      .title = "empty max_grad_norm",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_empty_clip,
      .explain =
          "An empty value turns clipping off in Hugging Face and LLaMA-Factory, means "
          "1.0 in Axolotl, and raises a TypeError in DeepSpeed. 0.0 means off "
          "everywhere, so the patch writes that.\n\n"
          "If the value was removed to avoid `Attempting to unscale FP16 gradients`: "
          "that does not help (TS105). Restore 1.0.",
      .source = "transformers trainer.py; deepspeed/runtime/engine.py" },
    { .id = "TS402",
      .title = "clipping off with fp16",
      .severity = SEVERITY_WARNING,
      .run = rule_clipping_off,
      .explain =
          "Gradients are unscaled before the step whether or not they are clipped, so "
          "turning clipping off avoids no error. Without clipping, one bad batch can "
          "move the weights by any amount. A native run logs grad_norm in both cases, "
          "so you can see what clipping would do; the Trainer of an external job logs "
          "it only if it clips. With a fused AdamW or DeepSpeed, which unscale on their "
          "own, the rule does not apply (TS408).",
      .source = "torch/amp/grad_scaler.py: step" },
    { .id = "TS403",
      .title = "negative max_grad_norm",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_negative_clip,
      .explain =
          "Gradients are multiplied by max_grad_norm / norm. A negative value reverses "
          "them, and the loss rises. 0.0 turns clipping off; the default is 1.0.",
      .source = "torchtitan PR #4295" },
    { .id = "TS404",
      .title = "policy noclip turns clipping off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_policy_noclip,
      .explain =
          "A known report recommends this. It avoids the loss scaler's error only with "
          "PyTorch's fused AdamW, which unscales inside its kernel; float16 weights are "
          "then trained with Adam in float16 (TS108). With float32 weights, which a "
          "native run always has, clipping does no harm and costs nothing.",
      .source = "a user report; torch/amp/grad_scaler.py: step" },
};

const struct rules rules_clipping = { rows, TS_COUNT(rows) };
