/* patcher/rules_memory.c - whether the job fits, and the edits that make it fit. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "patcher/scalar.h"
#include "train/shapes.h"

/* What is changed, in this order, until it fits. */
struct remedy {
    bool checkpointing;
    int64_t batch, accumulation; /* 0: as they are */
};

/* The bytes of the job as it would run with the remedy; false where nobody can tell. */
static bool estimate(const struct rule_context *context, const struct remedy *remedy,
                     struct memory_use *use)
{
    struct plan plan = *context->plan;
    struct error ignored = { 0 };

    plan.device = *context->device;
    policy_decide(&plan.request, &plan.device, &plan.precision);
    plan.gradient_checkpointing |= remedy->checkpointing;
    if (remedy->batch)
        plan.per_device_train_batch_size = remedy->batch;
    if (!shapes_memory(&plan, context->model, 0, 0, use, &ignored))
        return false;
    memory_finish(use, context->available);
    return true;
}

static bool fits(const struct rule_context *context, const struct remedy *remedy)
{
    struct memory_use use;

    return estimate(context, remedy, &use) && use.fits;
}

/* The largest divisor of the batch that fits; accumulation grows by the same factor, so
 * that their product stays. */
static bool split_batch(const struct rule_context *context, struct remedy *remedy)
{
    int64_t batch = context->plan->per_device_train_batch_size;

    for (int64_t b = batch / 2; b >= 1; b--) {
        if (batch % b != 0)
            continue;
        remedy->batch = b;
        remedy->accumulation = context->plan->gradient_accumulation_steps * (batch / b);
        if (fits(context, remedy))
            return true;
    }
    return false;
}

static bool find_remedy(const struct rule_context *context, struct remedy *remedy)
{
    *remedy = (struct remedy) { .checkpointing = !context->plan->gradient_checkpointing };
    if (remedy->checkpointing && fits(context, remedy))
        return true;
    return split_batch(context, remedy);
}

static const char *sentence(const struct rule_context *context,
                            const struct memory_use *use)
{
    char total[16], limit[16];

    memory_text(use->total, total);
    memory_text(use->limit, limit);
    return arena_printf(context->arena, "the job needs about %s and may use %s", total,
                        limit);
}

static const char *number(const struct rule_context *context, int64_t value)
{
    return arena_printf(context->arena, "%lld", (long long)value);
}

static void propose_checkpointing(struct rule_context *context,
                                  const struct finding *base)
{
    const struct entry *entry = rule_entry(context, "disable_gradient_checkpointing");

    if (entry && !rule_entry(context, "gradient_checkpointing"))
        rule_set(context, base, "disable_gradient_checkpointing", "false", NULL);
    else
        rule_set(context, base, "gradient_checkpointing", "true",
                 "per_device_train_batch_size");
}

static void propose_batch(struct rule_context *context, const struct remedy *remedy,
                          const struct finding *base)
{
    struct finding finding = *base;

    if (!rule_set(context, &finding, "per_device_train_batch_size",
                  number(context, remedy->batch), NULL))
        return;
    finding.rule = "TS302";
    finding.message = "the effective batch stays the same";
    finding.note = NULL;
    rule_set(context, &finding, "gradient_accumulation_steps",
             number(context, remedy->accumulation), "per_device_train_batch_size");
}

static void propose_remedy(struct rule_context *context, const struct remedy *remedy,
                           const char *message)
{
    struct finding finding = { .rule = "TS301",
                               .severity = SEVERITY_WARNING,
                               .apply = APPLY_UNSAFE,
                               .message = message,
                               .note =
                                   "each layer is computed twice, 20 to 30 % slower" };

    if (remedy->checkpointing && remedy->batch)
        finding.group = rule_group(context);
    if (remedy->checkpointing)
        propose_checkpointing(context, &finding);
    if (!remedy->batch)
        return;
    if (!finding.group)
        finding.group = rule_group(context);
    if (remedy->checkpointing) {
        finding.rule = "TS302";
        finding.message = "with checkpointing a smaller micro batch is still needed";
    }
    finding.note = "learning rate and effective batch stay";
    propose_batch(context, remedy, &finding);
}

/* What is left to a person where no batch is small enough. */
static const char *last_resort(const struct rule_context *context,
                               const struct memory_use *use)
{
    const bool lora = context->plan->method == METHOD_LORA;
    char fixed[16];

    if (use->limit <= use->weights + use->gradients + use->optimizer) {
        memory_text(use->weights + use->gradients + use->optimizer, fixed);
        return arena_printf(
            context->arena, "weights, gradients and optimizer alone need %s: %s", fixed,
            lora ? "a smaller model, or another device"
                 : "finetuning_type: lora, a smaller model, or another device");
    }
    return lora ? "no batch is small enough: a shorter cutoff_len, a smaller model, or "
                  "another device"
                : "no batch is small enough: a shorter cutoff_len, finetuning_type: "
                  "lora, or another device";
}

void rule_memory(struct rule_context *context)
{
    const struct remedy none = { 0 };
    struct remedy remedy;
    struct memory_use use;

    if (!context->model || !context->device || context->available == 0 ||
        context->plan->external || !estimate(context, &none, &use) || use.fits)
        return;
    if (find_remedy(context, &remedy)) {
        propose_remedy(context, &remedy, sentence(context, &use));
        return;
    }
    rule_tell(context,
              &(struct finding) { .rule = "TS301",
                                  .severity = SEVERITY_ERROR,
                                  .message = sentence(context, &use),
                                  .note = last_resort(context, &use) },
              "per_device_train_batch_size");
}
