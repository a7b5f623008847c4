/* patcher/rules/memory_case.c - what the rules about memory try changes on. */
#include "config.h"

#include "patcher/rules/memory_case.h"

#include "patcher/rules/external.h"
#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"

static bool keeps(const struct rule_context *context, const char *key)
{
    return propose_keeps(context->document, key, rule_line(context, key));
}

const char *memory_case_checkpointing_key(const struct rule_context *context)
{
    return rule_entry(context, "disable_gradient_checkpointing") &&
                   !rule_entry(context, "gradient_checkpointing")
               ? "disable_gradient_checkpointing"
               : "gradient_checkpointing";
}

/* Return whether a 16-bit base model would give the loss scaler weights that it
 * refuses. */
static bool narrow_base_stops(const struct rule_context *context)
{
    struct precision_request request = context->plan->request;
    struct stored_weights weights;

    request.model_dtype = DTYPE_FLOAT16;
    weights = stored_weights_of(context, &request);
    return stored_weights_stop_any_scaler(&weights);
}

static void read_kept(const struct rule_context *context, struct memory_fit_case *request)
{
    request->kept.checkpointing = keeps(context, memory_case_checkpointing_key(context));
    request->kept.batch = keeps(context, "per_device_train_batch_size") ||
                          keeps(context, "gradient_accumulation_steps");
    request->kept.frozen = keeps(context, "model_dtype") || narrow_base_stops(context);
    request->kept.eval_batch = keeps(context, "per_device_eval_batch_size") ||
                               context->plan->stage == STAGE_KTO; /* its loss depends */
}

bool memory_case_read(struct rule_context *context, struct memory_fit_case *request)
{
    const char *key;
    struct plan *plan = arena_alloc(context->arena, sizeof(*plan));

    *plan = *context->plan;
    *request = (struct memory_fit_case) { .plan = plan,
                                          .model = context->model,
                                          .device = context->device,
                                          .available = context->available,
                                          .data = context->options->data,
                                          .whole_batch =
                                              rule_loss_depends_on_batch(context, &key) };
    if (!request->model || !request->device || request->available == 0)
        return false;
    read_kept(context, request);
    plan->device = *request->device;
    if (plan->external)
        external_decide(context, plan);
    else
        policy_decide(&plan->request, &plan->device, &plan->precision);
    return true;
}
