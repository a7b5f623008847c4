/* patcher/rules/rules_clipping.c - max_grad_norm: empty, off, negative, or off by policy. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <math.h>

#include "base/size.h"

/* ---- Clipping ---- */

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
                       "Axolotl, and stops DeepSpeed",
            .note =
                "0.0 says off everywhere; it is no cure for the loss scaler's error" },
        "max_grad_norm", "0.0", NULL);
}

static void rule_clipping_off(struct rule_context *context)
{
    if (context->plan->external &&
        (rule_uses_fused_adamw(context) || rule_is_set(context, "deepspeed")))
        return; /* the optimizer, or DeepSpeed, unscales by itself: TS408 */
    if (!rule_entry(context, "max_grad_norm") ||
        context->plan->request.max_grad_norm != 0 || !rule_requests_fp16(context) ||
        rule_is_policy(context, POLICY_NOCLIP))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS402",
            .severity = SEVERITY_WARNING,
            .message = "clipping is off with fp16: gradients are unscaled all the same, "
                       "so this avoids no error of the loss scaler",
            .note =
                context->plan->external
                    ? "max_grad_norm: 1.0 is the preset; without clipping the Trainer "
                      "logs no grad_norm"
                    : "max_grad_norm: 1.0 is the preset; grad_norm is logged either way" },
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
                    .message = isnan(norm) ? "max_grad_norm is no number: every gradient "
                                             "would become NaN"
                                           : "a negative max_grad_norm reverses every "
                                             "gradient: the loss would rise",
                    .note = "0.0 turns clipping off, 1.0 is the preset" },
                "max_grad_norm");
}

static void rule_policy_noclip(struct rule_context *context)
{
    struct finding finding = {
        .rule = "TS404",
        .severity = SEVERITY_WARNING,
        .apply = APPLY_SAFE,
        .message =
            "policy noclip: a large gradient is stepped as it is; a float16 weight "
            "raises the loss scaler's error with and without clipping",
        .note = "unless optim is a fused AdamW of torch, which then steps in float16",
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
      .title = "max_grad_norm is empty",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_empty_clip,
      .explain =
          "Empty means off for Hugging Face and LLaMA-Factory, 1.0 for Axolotl, and a "
          "TypeError for DeepSpeed. 0.0 means off everywhere, so that is written.\n\n"
          "If it was emptied against `Attempting to unscale FP16 gradients`: it does "
          "not help (TS105). Put 1.0 back.",
      .source = "transformers trainer.py; deepspeed/runtime/engine.py" },
    { .id = "TS402",
      .title = "clipping is off with fp16",
      .severity = SEVERITY_WARNING,
      .run = rule_clipping_off,
      .explain =
          "Gradients are unscaled before the step whether they are clipped or not, so "
          "this avoids nothing. Without clipping one bad batch moves the weights as far "
          "as it likes. grad_norm is logged here either way, so you can see what "
          "clipping would do; the Trainer of another program logs it only where it "
          "clips. With a fused AdamW or DeepSpeed, which unscale by themselves, nothing "
          "is said here (TS408).",
      .source = "torch/amp/grad_scaler.py: step" },
    { .id = "TS403",
      .title = "max_grad_norm is negative",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_negative_clip,
      .explain =
          "Gradients are multiplied by max_grad_norm / norm. A negative one turns them "
          "round, and the training climbs. 0.0 is off, 1.0 the preset.",
      .source = "torchtitan PR #4295" },
    { .id = "TS404",
      .title = "policy noclip turns clipping off",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_policy_noclip,
      .explain =
          "The recipe of a known report. It avoids the loss scaler's error only with a "
          "fused AdamW of torch, which unscales inside its kernel, and then float16 "
          "weights are trained by float16 Adam (TS108). With float32 weights, which a "
          "native run always has, clipping does no harm and costs nothing.",
      .source = "the first report; torch/amp/grad_scaler.py: step" },
};

const struct rules rules_clipping = { rows, TS_COUNT(rows) };
