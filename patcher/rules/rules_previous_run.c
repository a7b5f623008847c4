/* patcher/rules/rules_previous_run.c - rules about the log of the previous run. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* A norm this many times the median is not explained by variation between batches. */
static const double spike = 100, tight_clip = 0.5;

/* Return whether the previous run had the same formats; assumed if its text is
 * missing. */
static bool same_formats(const struct rule_context *context)
{
    const struct previous_text *text = previous_text(context->previous);
    const struct precision_request *previous = text ? &text->plan->request : NULL,
                                   *current = &context->plan->request;

    return !previous ||
           (previous->fp16 == current->fp16 && previous->bf16 == current->bf16 &&
            previous->model_dtype == current->model_dtype &&
            previous->pure_bf16 == current->pure_bf16);
}

/* Return whether nothing was changed that may have caused the problem. */
static bool same_settings(const struct rule_context *context)
{
    const struct previous_text *text = previous_text(context->previous);
    const struct plan *current = context->plan;

    return !text || (same_formats(context) &&
                     text->plan->learning_rate == current->learning_rate &&
                     text->plan->request.max_grad_norm == current->request.max_grad_norm);
}

/* An interrupted run that recovered resumes; one bad step is no reason to start from
 * scratch. */
static bool resumes_recovered_run(const struct rule_context *context,
                                  const struct previous_steps *steps)
{
    return steps->recovered &&
           (context->plan->resume_from_checkpoint || context->options->resume ||
            previous_state(context->previous)->resume);
}

static void propose_bf16(struct rule_context *context, struct finding *finding)
{
    finding->group = rule_group(context);
    if (!rule_propose(context, finding, "fp16", "false", NULL))
        return;
    finding->message = "use bf16 instead: it has the range of float32";
    finding->note = NULL;
    rule_propose(context, finding, "bf16", "true", "fp16");
}

static void propose_float32(struct rule_context *context, struct finding *finding)
{
    if (rule_is_policy(context, POLICY_FP32))
        finding->group = rule_group(context);
    if (!rule_propose(context, finding, "model_dtype", "float32", "fp16") ||
        !rule_is_policy(context, POLICY_FP32))
        return;
    finding->message = "policy fp32: nothing is computed in float16";
    finding->note = NULL;
    rule_propose(context, finding, "fp16", "false", NULL);
}

bool rule_fp16_failed_before(const struct rule_context *context)
{
    if (context->plan->request.fp16 != CHOICE_YES || !rule_base_is_float16(context) ||
        rule_trains_float16(context) || rule_is_policy(context, POLICY_NOSCALER) ||
        (rule_on_cpu(context) && !context->plan->external))
        return false;
    return previous_steps(context->previous)->trouble && same_formats(context);
}

static void rule_fp16_overflow_before(struct rule_context *context)
{
    const struct previous_steps *steps;
    struct finding finding = { .rule = "TS109",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_SAFE,
                               .note = "the base model then takes twice the memory" };

    if (!rule_fp16_failed_before(context))
        return;
    steps = previous_steps(context->previous);
    finding.message = arena_printf(context->arena,
                                   "the previous run, with a float16 model and fp16, had "
                                   "%s",
                                   steps->what);
    if (resumes_recovered_run(context, steps)) {
        finding.note = "it recovered; if it happens again, set model_dtype: float32";
        rule_report(context, &finding, "fp16");
    } else if (rule_capability(context) >= 80 && !rule_is_policy(context, POLICY_FP32)) {
        finding.note = "learning rate and clipping stay unchanged";
        propose_bf16(context, &finding);
    } else {
        propose_float32(context, &finding);
    }
}

static const char *describe(const struct rule_context *context,
                            const struct previous_steps *steps)
{
    if (steps->trouble)
        return arena_printf(context->arena, "the previous run had %s", steps->what);
    if (steps->median > 0 && steps->largest > spike * steps->median)
        return arena_printf(context->arena,
                            "the previous run had grad_norm %.4g at step %" PRId64
                            ", %.0f times the median %.4g",
                            steps->largest, steps->largest_step,
                            steps->largest / steps->median, steps->median);
    return NULL;
}

static void rule_unstable_before(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *message = describe(context, previous_steps(context->previous));
    struct finding finding = { .rule = "TS405",
                               .severity = SEVERITY_INFO,
                               .apply = APPLY_UNSAFE,
                               .message = message };
    double clip = plan->request.max_grad_norm;

    if (!message || !same_settings(context) || rule_fp16_failed_before(context))
        return; /* one change at a time: TS109 comes first */
    finding.note = arena_printf(
        context->arena, "alternatively, use a tenth of the learning rate, %s",
        arena_printf(context->arena, "%.6g", plan->learning_rate / 10));
    if ((clip > 0 && clip <= tight_clip) || rule_is_policy(context, POLICY_NOCLIP))
        rule_report(context, &finding, "max_grad_norm");
    else
        rule_propose(context, &finding, "max_grad_norm",
                     scalar_print(tight_clip, context->arena), "learning_rate");
}

static const struct rule rows[] = {
    { .id = "TS109",
      .title = "previous run diverged with a float16 model under fp16",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_fp16_overflow_before,
      .explain =
          "With float32 weights, fp16 compute keeps the sums between layers in float32. "
          "With a float16 model these sums are float16 too, and one value above 65504 "
          "becomes inf and then NaN in everything that follows. Models trained in bf16 "
          "have such values. With adapters no error is raised: the loss scaler skips "
          "every step, and a log that filters NaN shows a loss of exactly 0.0.\n\n"
          "If the log of the previous run shows this, the patch enables bf16 on devices "
          "that have it; elsewhere it stores the frozen model in float32, which takes "
          "twice its memory. Policy fp32 turns fp16 off as well. TS405 defines which "
          "log entries count. Only a previous run with the same formats counts, so the "
          "edit is made once; an interrupted run that had recovered is only reported.",
      .source =
          "transformers#10956, gemma_pytorch#24, ms-swift#1099; LLaMA-Factory#4202" },
    { .id = "TS405",
      .title = "previous run was unstable",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_unstable_before,
      .explain =
          "The log of the job's previous run (NAME.run/metrics.jsonl, or log_history of "
          "an external job's trainer_state.json) has a loss or norm that is NaN or inf, "
          "or a norm of more than 100 times the median. In the first case the run needs "
          "attention; in the second, one batch has the weight of a hundred others. "
          "Smaller steps solve both more often than another precision does. `--unsafe` "
          "writes max_grad_norm: 0.5. The other remedy, a tenth of the learning rate, is "
          "never written: the choice of the learning rate is yours.\n\n"
          "A dynamic loss scale is found by overflowing, so with fp16 an occasional NaN "
          "norm is normal: in the first ten steps, or a single one. It counts without a "
          "loss scale, three times in a row, or if more steps were skipped than the "
          "search for the scale explains. Once the learning rate, max_grad_norm or the "
          "precision differ from those of the previous run, the rule is silent: you have "
          "already reacted.",
      .source = "PyTorch clip_grad_norm_, amp GradScaler; precision/scaler.h" },
};

const struct rules rules_previous_run = { rows, TS_COUNT(rows) };
