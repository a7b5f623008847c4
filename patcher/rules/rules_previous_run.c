/* patcher/rules/rules_previous_run.c - what the log of the previous run implies for the next one. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <inttypes.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

/* A norm so many times the median is no noise of batches. */
static const double spike = 100, tight_clip = 0.5;

/* Did the previous run have the same formats?  Where its text is not there: so it
 * seems. */
static bool same_formats(const struct rule_context *context)
{
    const struct previous_text *text = previous_text(context->previous);
    const struct precision_request *was = text ? &text->plan->request : NULL,
                                   *now = &context->plan->request;

    return !was ||
           (was->fp16 == now->fp16 && was->bf16 == now->bf16 &&
            was->model_dtype == now->model_dtype && was->pure_bf16 == now->pure_bf16);
}

/* Has nothing been changed that the trouble may have come from? */
static bool same_course(const struct rule_context *context)
{
    const struct previous_text *text = previous_text(context->previous);
    const struct plan *now = context->plan;

    return !text ||
           (same_formats(context) && text->plan->learning_rate == now->learning_rate &&
            text->plan->request.max_grad_norm == now->request.max_grad_norm);
}

/* ---- TS109 ---- */

static bool base_is_float16(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    return request->model_dtype == DTYPE_FLOAT16 ||
           (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);
}

/* An interrupted run that found its way again is not to begin anew for a blip. */
static bool resumes_recovered(const struct rule_context *context,
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
    finding->message = "bf16 in its place: it has the range of float32";
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
    if (context->plan->request.fp16 != CHOICE_YES || !base_is_float16(context) ||
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
                                   "the previous run, with a float16 model and fp16, "
                                   "had %s",
                                   steps->what);
    if (resumes_recovered(context, steps)) {
        finding.note =
            "it went on well after it; if it comes again: model_dtype: float32";
        rule_report(context, &finding, "fp16");
    } else if (rule_capability(context) >= 80 && !rule_is_policy(context, POLICY_FP32)) {
        finding.note = "the learning rate and clipping stay as they are";
        propose_bf16(context, &finding);
    } else {
        propose_float32(context, &finding);
    }
}

/* ---- TS405 ---- */

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

    if (!message || !same_course(context) || rule_fp16_failed_before(context))
        return; /* one thing at a time: TS109 is first */
    finding.note = arena_printf(
        context->arena, "a tenth of the learning rate, %s, is the other thing to try",
        arena_printf(context->arena, "%.6g", plan->learning_rate / 10));
    if ((clip > 0 && clip <= tight_clip) || rule_is_policy(context, POLICY_NOCLIP))
        rule_report(context, &finding, "max_grad_norm");
    else
        rule_propose(context, &finding, "max_grad_norm",
                     scalar_print(tight_clip, context->arena), "learning_rate");
}

static const struct rule rows[] = {
    { .id = "TS109",
      .title = "a float16 model under fp16 went wrong in the previous run",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_fp16_overflow_before,
      .explain =
          "fp16 over float32 weights keeps the sums between layers in float32. Over a "
          "model that is itself float16 they are float16 too, and one value above 65504 "
          "becomes inf and then NaN in all that follows. Models trained in bf16 have "
          "such values. With adapters nothing is raised: the loss scaler skips every "
          "step, and a log that filters NaN shows a loss of exactly 0.0.\n\n"
          "So where the log of the previous run shows it, bf16 is chosen on devices "
          "that have it, and elsewhere the frozen model is kept in float32, which takes "
          "twice its memory. policy fp32 turns fp16 off as well. What counts as "
          "trouble: see TS405. Only a run with the same formats counts, so the edit is "
          "made once; a run that was interrupted and had found its way again is only "
          "told of.",
      .source =
          "transformers#10956, gemma_pytorch#24, ms-swift#1099; LLaMA-Factory#4202" },
    { .id = "TS405",
      .title = "the previous run's gradients went wrong",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .run = rule_unstable_before,
      .explain =
          "The log of the job's previous run (NAME.run/metrics.jsonl, or log_history of "
          "an external job's trainer_state.json) has a loss or norm that is NaN or inf, "
          "or a norm of more than 100 times the median. The first is a run to look at, "
          "the second a batch that pushes as much as a hundred others; both are mended "
          "by smaller steps more often than by another precision. `--unsafe` writes "
          "max_grad_norm: 0.5. A tenth of the learning rate is the other remedy, and is "
          "never written: the learning rate is yours.\n\n"
          "A loss scale is found by overflowing, so with fp16 a norm that is NaN now "
          "and then is no trouble: in the first ten steps, or alone. It counts without "
          "a loss scale, three times in a row, or where more steps were skipped than "
          "the search explains. Nothing is told once the learning rate, max_grad_norm "
          "or the precision differ from the previous run's: then you have acted.",
      .source = "PyTorch clip_grad_norm_, amp GradScaler; precision/scaler.h" },
};

const struct rules rules_previous_run = { rows, TS_COUNT(rows) };
