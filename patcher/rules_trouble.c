/* patcher/rules_trouble.c - what the log of the previous run says about the next one. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <inttypes.h>
#include <string.h>

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

static bool half_base(const struct rule_context *context)
{
    const struct precision_request *request = &context->plan->request;

    return request->model_dtype == DTYPE_FLOAT16 ||
           (request->model_dtype == DTYPE_AUTO && context->checkpoint == FORMAT_FP16);
}

/* An interrupted run that found its way again is not to begin anew for a blip. */
static bool goes_on(const struct rule_context *context,
                    const struct previous_steps *steps)
{
    return steps->recovered &&
           (context->plan->resume_from_checkpoint || context->options->resume ||
            previous_state(context->previous)->resume);
}

static void propose_bf16(struct rule_context *context, struct finding *finding)
{
    finding->group = rule_group(context);
    if (!rule_set(context, finding, "fp16", "false", NULL))
        return;
    finding->message = "bf16 in its place: it has the range of float32";
    finding->note = NULL;
    rule_set(context, finding, "bf16", "true", "fp16");
}

static void propose_float32(struct rule_context *context, struct finding *finding)
{
    if (rule_is_policy(context, POLICY_FP32))
        finding->group = rule_group(context);
    if (!rule_set(context, finding, "model_dtype", "float32", "fp16") ||
        !rule_is_policy(context, POLICY_FP32))
        return;
    finding->message = "policy fp32: nothing is computed in float16";
    finding->note = NULL;
    rule_set(context, finding, "fp16", "false", NULL);
}

bool rule_half_went_wrong(const struct rule_context *context)
{
    if (context->plan->request.fp16 != CHOICE_YES || !half_base(context) ||
        rule_half_trainables(context) || rule_is_policy(context, POLICY_NOSCALER) ||
        (rule_on_cpu(context) && !context->plan->external))
        return false;
    return previous_steps(context->previous)->trouble && same_formats(context);
}

void rule_trouble_in_half(struct rule_context *context)
{
    const struct previous_steps *steps;
    struct finding finding = { .rule = "TS109",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_SAFE,
                               .note = "the base model then takes twice the memory" };

    if (!rule_half_went_wrong(context))
        return;
    steps = previous_steps(context->previous);
    finding.message = arena_printf(context->arena,
                                   "the previous run, with a float16 model and fp16, "
                                   "had %s",
                                   steps->what);
    if (goes_on(context, steps)) {
        finding.note =
            "it went on well after it; if it comes again: model_dtype: float32";
        rule_tell(context, &finding, "fp16");
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

void rule_trouble_before(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *message = describe(context, previous_steps(context->previous));
    struct finding finding = { .rule = "TS405",
                               .severity = SEVERITY_INFO,
                               .apply = APPLY_UNSAFE,
                               .message = message };
    double clip = plan->request.max_grad_norm;

    if (!message || !same_course(context) || rule_half_went_wrong(context))
        return; /* one thing at a time: TS109 is first */
    finding.note = arena_printf(
        context->arena, "a tenth of the learning rate, %s, is the other thing to try",
        arena_printf(context->arena, "%.6g", plan->learning_rate / 10));
    if ((clip > 0 && clip <= tight_clip) || rule_is_policy(context, POLICY_NOCLIP))
        rule_tell(context, &finding, "max_grad_norm");
    else
        rule_set(context, &finding, "max_grad_norm",
                 scalar_print(tight_clip, context->arena), "learning_rate");
}
