/* patcher/rules/rules_heal.c - remedies for the problem that ended the last attempt. They
 * run only while a job is healed (runner/job/heal.h). */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>

#include "base/size.h"
#include "patcher/rules/memory_advice.h"
#include "patcher/rules/memory_case.h"
#include "patcher/schema/scalar.h"

/* Return the plan of the attempt that met the problem, or NULL. The text of each pass of
 * the patcher is compared with it, so that a remedy is applied once. */
static const struct plan *failed_plan(const struct rule_context *context,
                                      enum ailment ailment)
{
    const struct heal *heal = context->options->heal;
    const struct previous_text *text;

    if (!heal || (ailment != AILMENT_NONE && heal->ailment != ailment) ||
        !plan_trains(context->plan))
        return NULL;
    text = previous_text(context->previous);
    return text ? text->plan : NULL;
}

static const char *message(const struct rule_context *context)
{
    const struct heal *heal = context->options->heal;

    return arena_printf(
        context->arena, "the last attempt %s: %s",
        heal->ailment == AILMENT_MEMORY ? "ran out of memory" : "diverged", heal->what);
}

/* ---- Memory ---- */

static const char *count_text(const struct rule_context *context, int64_t count)
{
    return arena_printf(context->arena, "%" PRId64, count);
}

static void propose_batch(struct rule_context *context, const struct memory_fit *fit,
                          struct finding *finding)
{
    finding->rule = "TS315";
    finding->note = "learning rate and effective batch stay unchanged";
    if (!rule_propose(context, finding, "per_device_train_batch_size",
                      count_text(context, fit->batch), NULL))
        return;
    finding->message = "the effective batch stays the same";
    finding->because = finding->note = NULL;
    rule_propose(context, finding, "gradient_accumulation_steps",
                 count_text(context, fit->accumulation), "per_device_train_batch_size");
}

static void propose_checkpointing(struct rule_context *context, struct finding *finding)
{
    const char *key = memory_case_checkpointing_key(context);

    finding->rule = "TS316";
    finding->note = "each layer is computed twice, 20 to 30 % slower";
    rule_propose(context, finding, key, *key == 'd' ? "false" : "true",
                 "per_device_train_batch_size");
}

static const char *estimate_text(const struct rule_context *context,
                                 const struct memory_fit_case *request,
                                 const struct memory_fit *fit)
{
    struct memory_use before, after;

    if (!memory_fit_estimate(request, &(struct memory_fit) { 0 }, &before, NULL) ||
        !memory_fit_estimate(request, fit, &after, NULL))
        return NULL;
    return arena_printf(context->arena, "estimated %s instead of %s; it may use %s",
                        memory_advice_bytes(context, after.total),
                        memory_advice_bytes(context, before.total),
                        memory_advice_bytes(context, after.limit));
}

/* Return whether the job as it is in this pass would meet the problem again: memory ran
 * out with these settings, or the remedy of another problem takes too much of it. */
static bool is_too_large(const struct rule_context *context,
                         const struct memory_fit_case *request, const struct plan *failed)
{
    const struct plan *plan = context->plan;
    struct memory_use use;

    if (plan->per_device_train_batch_size != failed->per_device_train_batch_size ||
        plan->gradient_checkpointing != failed->gradient_checkpointing)
        return false;
    return context->options->heal->ailment == AILMENT_MEMORY ||
           (memory_fit_estimate(request, &(struct memory_fit) { 0 }, &use, NULL) &&
            !use.fits);
}

static void rule_memory_ran_out(struct rule_context *context)
{
    const struct plan *failed = failed_plan(context, AILMENT_NONE);
    struct finding finding = { .severity = SEVERITY_WARNING, .apply = APPLY_SAFE };
    struct memory_fit_case request;
    struct memory_fit fit;

    if (!failed || !memory_case_read(context, &request))
        return;
    /* an epoch of other batches would have other steps */
    request.kept.batch |= context->plan->dataloader_drop_last;
    if (!is_too_large(context, &request, failed) || !memory_fit_reduce(&request, &fit))
        return;
    finding.message = context->options->heal->ailment == AILMENT_MEMORY
                          ? message(context)
                          : "in float32 the job needs more memory";
    finding.because = estimate_text(context, &request, &fit);
    finding.group = rule_group(context);
    if (fit.checkpointing)
        propose_checkpointing(context, &finding);
    if (fit.checkpointing && fit.batch) {
        finding.message = "a smaller micro batch is needed as well";
        finding.because = NULL;
    }
    if (fit.batch)
        propose_batch(context, &fit, &finding);
}

/* ---- Divergence ---- */

/* Return whether the job of this pass computes as the attempt did that diverged. */
static bool same_mode(const struct rule_context *context, const struct plan *failed,
                      enum mode *mode)
{
    struct precision before, now;

    if (!context->device)
        return false;
    policy_decide(&failed->request, context->device, &before);
    policy_decide(&context->plan->request, context->device, &now);
    *mode = before.mode;
    return before.mode == now.mode;
}

static void replace_key(struct rule_context *context, struct finding *finding,
                        const char *from, const char *to)
{
    finding->group = rule_group(context);
    if (!rule_propose(context, finding, from, "false", NULL))
        return;
    finding->message = arena_printf(context->arena, "use %s instead", to);
    finding->because = finding->note = NULL;
    rule_propose(context, finding, to, "true", from);
}

/* Switch off every key that asks for 16 bits. */
static void propose_float32(struct rule_context *context, struct finding *finding)
{
    static const char *const keys[] = { "pure_bf16", "bf16", "fp16" };
    bool reported = false;

    finding->group = rule_group(context);
    finding->note = "compute in float32, which is slower";
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        if (!rule_is_set(context, keys[i]))
            continue;
        rule_propose(context, finding, keys[i], "false", NULL);
        if (!reported) {
            finding->message = "compute in float32";
            finding->because = finding->note = NULL;
        }
        reported = true;
    }
}

static void rule_precision_diverged(struct rule_context *context)
{
    const struct plan *failed = failed_plan(context, AILMENT_DIVERGED);
    struct finding finding = { .rule = "TS132",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_SAFE };
    enum mode mode;
    bool bf16;

    if (!failed || !same_mode(context, failed, &mode) || mode == MODE_FP32 ||
        mode == MODE_TF32)
        return;
    finding.message = message(context);
    finding.note = "learning rate and clipping stay unchanged";
    if (mode == MODE_BF16_PURE)
        replace_key(context, &finding, "pure_bf16", "bf16");
    else if ((mode == MODE_FP16_MIXED || mode == MODE_FP16_PURE) &&
             rule_knows_bf16(context, &bf16) && bf16)
        replace_key(context, &finding, "fp16", "bf16");
    else
        propose_float32(context, &finding);
}

static void rule_learning_rate_diverged(struct rule_context *context)
{
    const struct plan *failed = failed_plan(context, AILMENT_DIVERGED);
    struct finding finding = { .rule = "TS413",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_SAFE };
    enum mode mode;

    if (!failed || context->plan->healing != HEALING_BOLD ||
        !same_mode(context, failed, &mode) || (mode != MODE_FP32 && mode != MODE_TF32) ||
        context->plan->learning_rate != failed->learning_rate)
        return;
    finding.message = message(context);
    finding.note = "a tenth, because of heal: bold";
    rule_propose(context, &finding, "learning_rate",
                 scalar_print(failed->learning_rate / 10, context->arena), NULL);
}

static const struct rule rows[] = {
    { .id = "TS132",
      .title = "last attempt diverged in 16 bits",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .target = RULE_NATIVE,
      .run = rule_precision_diverged,
      .explain =
          "The rule runs only while a job is healed (trainspool.heal), after an attempt "
          "whose loss or gradients stayed NaN or inf for another reason than a loss scale "
          "that is still being found. One step is made at a time: fp16 -> bf16, which has "
          "the range of float32, where the device has it; bf16 weights (pure_bf16) -> "
          "float32 weights with bf16 compute; otherwise float32.\n\n"
          "The run then resumes from its last checkpoint that a good step followed. "
          "Weights and moments are widened exactly; the loss scale starts again.",
      .source = "trainspool-job(5), HEALING; precision/scaler.h" },
    { .id = "TS315",
      .title = "memory ran out: smaller micro batch",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .target = RULE_NATIVE,
      .run = rule_memory_ran_out,
      .explain =
          "The rule runs only while a job is healed (trainspool.heal), after an attempt "
          "that ran out of memory of the host or the device. The patch selects the largest "
          "divisor of per_device_train_batch_size, at most half of it, that fits by the "
          "estimate, and multiplies the accumulation by the same factor: each step takes "
          "the same samples, and its loss and gradients are the same except for rounding "
          "(with dropout, the random masks differ).\n\n"
          "If no divisor fits, or the batch must stay whole (its loss depends on it, "
          "dataloader_drop_last is true, or the job keeps the key), gradient checkpointing "
          "comes next (TS316), then both. Changes that would change the result, such as "
          "another optimizer or a shorter cutoff_len, are left to you.",
      .source = "patcher/rules/memory_fit.h; transformers PR #33281" },
    { .id = "TS316",
      .title = "memory ran out: gradient checkpointing",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .target = RULE_NATIVE,
      .explain =
          "The second remedy for a job that ran out of memory, if a smaller micro batch "
          "(TS315) is not possible or not enough: activations are discarded and computed "
          "again for the backward pass. The results stay the same; a step takes 20 to 30 % "
          "longer.",
      .source = "patcher/rules/memory_fit.h; arXiv 1604.06174" },
    { .id = "TS413",
      .title = "last attempt diverged in float32",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .target = RULE_NATIVE,
      .run = rule_learning_rate_diverged,
      .explain =
          "The rule runs only while a job with `heal: bold` is healed, after an attempt "
          "that diverged although it computed in float32: no other format is left to try. "
          "The patch divides the learning rate by ten and resumes from the last checkpoint "
          "that a good step followed. Without bold the job fails, because the choice of the "
          "learning rate is yours.",
      .source = "trainspool-job(5), HEALING; TS405" },
};

const struct rules rules_heal = { rows, TS_COUNT(rows) };
