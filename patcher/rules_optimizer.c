/* patcher/rules_optimizer.c - how far and how long the learning rate goes, optimizers
 * that step inside the backward pass, and guards against numbers that are not finite. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

static const char *text_of(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);

    return entry ? node_value(entry->value)->text : NULL;
}

/* ---- TS406: the learning rate ---- */

static const struct rate {
    double far;
    const char *what, *usual;
} rates[][2] = {
    /* of stages alike; with LoRA */
    { { 1e-4, "training all weights", "1e-5 is usual, LoRA takes 1e-4" },
      { 1e-3, "LoRA", "1e-4 to 2e-4 is usual" } },
    { { 5e-5, "training all weights on preferences", "5e-7 is usual, LoRA takes 5e-6" },
      { 5e-5, "LoRA on preferences", "5e-6 is usual" } },
};

#define TINY_WIDE 512 /* models narrower than any that is fine-tuned want more */

/* The numbers are those of Adam on a pretrained language model. */
static bool is_usual(const struct rule_context *context)
{
    const char *optim = text_of(context, "optim");

    if (context->plan->train_from_scratch || rule_is_true(context, "use_muon") ||
        (context->model && context->model->hidden_size < TINY_WIDE))
        return false;
    return !optim || strstr(optim, "adam");
}

void rule_far_rate(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const struct rate *rate =
        &rates[plan->stage == STAGE_DPO][plan->method == METHOD_LORA];

    if (!(plan->learning_rate > rate->far && plan->learning_rate <= 1) ||
        !is_usual(context))
        return;
    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS406",
            .severity = SEVERITY_INFO,
            .message = arena_printf(
                context->arena, "learning_rate %s is far above what %s usually takes",
                scalar_print(plan->learning_rate, context->arena), rate->what),
            .note = rate->usual },
        "learning_rate");
}

/* ---- TS407: the warm-up ---- */

static void tell_of_warmup(struct rule_context *context, const char *key,
                           const char *message, const char *note)
{
    rule_tell(context,
              &(struct finding) { .rule = "TS407",
                                  .severity = SEVERITY_WARNING,
                                  .message = message,
                                  .note = note },
              key);
}

void rule_warmup(struct rule_context *context)
{
    double ratio = 0, steps = 0;
    bool has_ratio = !rule_version_from(context, PACKAGE_TRANSFORMERS, "5.15.0.dev0") &&
                     rule_number(context, "warmup_ratio", &ratio); /* else TS603 */

    rule_number(context, "warmup_steps", &steps);
    if (has_ratio && steps > 0)
        tell_of_warmup(
            context, "warmup_ratio",
            "warmup_ratio and warmup_steps are both given: transformers 4 goes by the "
            "steps, 5 by the ratio, and here a ratio above 0 counts",
            "keep one of them");
    if (ratio == 1)
        tell_of_warmup(context, "warmup_ratio",
                       "with warmup_ratio 1.0 the whole run is warm-up: learning_rate "
                       "is reached at the last step",
                       "moved to warmup_steps as it is, 1.0 would be one step");
    if (steps > 0 && steps < 1 &&
        !rule_version_from(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0"))
        tell_of_warmup(context, "warmup_steps",
                       "warmup_steps below 1 is a share of all steps here and since "
                       "transformers 5; before, it was an error or none at all",
                       "warmup_ratio says the same to older versions");
}

/* ---- TS411: a step inside the backward pass ---- */

/* Keys that switch it on, and what has to be on for them to count. */
static const struct in_backward {
    const char *key, *needs;
} in_backward[] = {
    { "optimizer_in_bwd", NULL },
    { "galore_layerwise", "use_galore" },
    { "apollo_layerwise", "use_apollo" },
};

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

/* The words of the job that ask for it, or NULL. */
static const char *asks_for_it(const struct rule_context *context)
{
    const char *optim = text_of(context, "optim");

    for (size_t i = 0; i < TS_COUNT(in_backward); i++)
        if (rule_is_true(context, in_backward[i].key) &&
            (!in_backward[i].needs || rule_is_true(context, in_backward[i].needs)))
            return in_backward[i].key;
    return optim && (ends_with(optim, "_layerwise") || ends_with(optim, "lomo"))
               ? arena_printf(context->arena, "optim: %s", optim)
               : NULL;
}

void rule_in_backward(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct finding finding = { .rule = "TS411", .severity = SEVERITY_ERROR };
    const char *what = asks_for_it(context);

    if (!what)
        return;
    finding.note = "an optimizer that steps after the backward pass can do both";
    if (plan->gradient_accumulation_steps > 1) {
        finding.message =
            arena_printf(context->arena,
                         "%s steps each weight during the backward pass, so gradients "
                         "of %lld micro-batches cannot add up",
                         what, (long long)plan->gradient_accumulation_steps);
        rule_tell(context, &finding, "gradient_accumulation_steps");
    }
    if (rule_entry(context, "max_grad_norm") && plan->request.max_grad_norm > 0) {
        finding.message = arena_printf(context->arena,
                                       "%s steps each weight during the backward pass, "
                                       "before the norm to clip to is known",
                                       what);
        rule_tell(context, &finding, "max_grad_norm");
    }
}

/* ---- TS412: guards against inf and NaN ---- */

/* Names under which other programs know one.  A native run always has it. */
static const char *const guards[] = {
    "check_for_nan_in_loss_and_grad", /* Megatron-LM */
    "check_grad_overflow",            /* DeepSpeed, of its bf16 block */
    "error_if_nonfinite",             /* torch.nn.utils.clip_grad_norm_ */
    "skip_nan_grad",                  /* NeMo */
};

void rule_guard_off(struct rule_context *context)
{
    if (rule_ends_in_fp16(context))
        return;
    for (size_t i = 0; i < TS_COUNT(guards); i++)
        if (rule_entry(context, guards[i]) && !rule_is_true(context, guards[i]))
            rule_set(context,
                     &(struct finding) {
                         .rule = "TS412",
                         .severity = SEVERITY_WARNING,
                         .apply = APPLY_UNSAFE,
                         .message = arena_printf(
                             context->arena,
                             "%s is off, and no loss scaler skips a step that is not "
                             "finite: one inf in a gradient makes every weight NaN",
                             guards[i]) },
                     guards[i], "true", NULL);
}
