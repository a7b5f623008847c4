/* patcher/rules/fp16_need.c - derives what fp16: true requires from the weight formats that it
 * leads to. */
#include "config.h"

#include "patcher/rules/fp16_need.h"

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"
#include "patcher/rules/trl_quantized.h"

static const char *why_not(const struct rule_context *context,
                           const struct stored_weights *weights)
{
    if (rule_casts_quantized(context))
        return arena_printf(
            context->arena,
            "use TRL %s or earlier or a GPU with bf16, or set bf16: false and fp16: "
            "false: later versions cast trained weights next to quantized ones to "
            "bfloat16, and PyTorch's loss scaler has no bfloat16 kernel",
            trl_quantized_last(context));
    if (weights->parts[WEIGHTS_WHOLE] == weights->trained)
        return arena_printf(context->arena,
                            "cast the modules of %s to float32 in the script, or load "
                            "the model with dtype=torch.float32, and set fp16: true",
                            weights->whole_key);
    return weights->parts[WEIGHTS_ADAPTERS] == weights->trained
               ? "upgrade PEFT to 0.12 or later, keep autocast_adapter_dtype on, and set "
                 "fp16: true"
               : "load the model with dtype=torch.float32 in the script, and set fp16: "
                 "true";
}

static struct stored_weights with_fp16(const struct rule_context *context,
                                       enum dtype dtype)
{
    struct precision_request request = context->plan->request;

    request.fp16 = CHOICE_YES;
    request.bf16 = CHOICE_NO;
    request.pure_bf16 = false;
    request.model_dtype = dtype;
    return stored_weights_of(context, &request);
}

/* Return the condition for fp16 if an unknown version or unknown files decide. */
static const char *condition_of(const struct rule_context *context)
{
    if (rule_dtype_computes(context) && !versions_know(context->versions, PACKAGE_TRL))
        return arena_printf(context->arena,
                            "if TRL is later than %s, trained weights next to quantized "
                            "ones are bfloat16, and fp16's loss scaler stops the run",
                            trl_quantized_last(context));
    return versions_know(context->versions, PACKAGE_TRANSFORMERS)
               ? "if the model's files are in 16 bits, fp16 requires dtype=torch.float32 "
                 "in the script"
               : "if transformers is 5 or later, fp16 requires dtype=torch.float32 in the "
                 "script";
}

struct fp16_need fp16_need_of(const struct rule_context *context)
{
    struct fp16_need need = { .possible = true, .sure = true };
    bool line = rule_entry(context, "model_dtype") != NULL;
    enum dtype dtype = context->plan->request.model_dtype;
    struct stored_weights weights;

    if (line && rule_dtype_computes(context) && dtype == DTYPE_BFLOAT16)
        dtype = need.dtype = DTYPE_FLOAT16;
    weights = with_fp16(context, dtype);
    if (stored_weights_stop_any_scaler(&weights) && line &&
        !rule_dtype_computes(context)) {
        struct stored_weights wide = with_fp16(context, DTYPE_FLOAT32);

        if (!stored_weights_stop_any_scaler(&wide)) {
            need.dtype = DTYPE_FLOAT32;
            return need;
        }
    }
    need.possible = !stored_weights_stop_any_scaler(&weights);
    need.sure =
        weights.known || (!stored_weights_refuse(&weights, weights.trained) &&
                          !versions_know(context->versions, PACKAGE_TRANSFORMERS));
    if (!need.possible)
        need.remedy = why_not(context, &weights);
    else if (!need.sure)
        need.remedy = condition_of(context);
    return need;
}
