/* train/model/adapter_methods.c - kinds of adapters, and what they do not go together
 * with. */
#include "config.h"

#include "train/model/adapter_methods.h"

#include <string.h>

#include "train/model/adapter_targets.h"
#include "train/model/encoder_adapters.h"
#include "train/model/optimizer_table.h"
#include "train/model/shapes.h"

static bool matches_experts(const struct architecture *a, const struct lora *lora,
                            const char *name)
{
    for (enum module i = 0; i < MODULES; i++)
        if (lora->adapted[i] && module_is_sparse(i) &&
            adapter_targets_match(a, i, name, strlen(name), true))
            return true;
    return false;
}

/* Add the names of the adapted modules that belong to no experts. */
static void add_others(const struct architecture *a, const struct lora *lora,
                       struct text *out)
{
    for (enum module i = 0; i < MODULES; i++) {
        const char *name = lora->adapted[i] ? architecture_leaf(a, i) : NULL;

        if (name && !matches_experts(a, lora, name))
            text_addf(out, "%s%s", out->len ? "," : ", such as ", name);
    }
}

/* DoRA, PiSSA and OFT are not implemented for the layers of blocks with experts. */
static bool check_experts(const struct plan *plan, const struct architecture *a,
                          const struct lora *lora, struct error *err)
{
    enum module i = 0;
    struct text others;

    while (i < MODULES && !(lora->adapted[i] && module_is_sparse(i)))
        i++;
    if (plan->external || i == MODULES)
        return true;
    text_init(&others, 0);
    add_others(a, lora, &others);
    error_set(
        err, ERROR_JOB,
        "%s: adapters of experts are not supported with it; %sname other modules as "
        "%s%s",
        lora->rotation.on ? "finetuning_type: oft"
        : lora->dora      ? "use_dora"
                          : "pissa_init",
        lora->joined ? "remove lora_target_parameters, and " : "",
        lora->rotation.on ? "oft_target" : "lora_target", others.len ? others.data : "");
    text_clear(&others);
    return false;
}

/* Such an optimizer updates B as PEFT has it, which is not how the model has it. */
static bool check_joined(const struct plan *plan, const struct lora *lora,
                         struct error *err)
{
    const struct optimizer *optimizer = optimizer_of(plan);

    return !lora->joined || plan->external || plan->generation.alone ||
           !optimizer->whole ||
           error_set(
               err, ERROR_JOB,
               "lora_target_parameters: an optimizer that updates whole matrices is "
               "not supported with it; use another optim, such as adamw_torch");
}

/* Norms read whole rows of weights, and the outputs that they scale in 16 bits or more. */
static bool check_dora(const struct plan *plan, const struct lora *lora,
                       struct error *err)
{
    if (!lora->dora || plan->external)
        return true;
    if (plan->precision.fp8)
        return error_set(err, ERROR_JOB,
                         "use_dora: matmuls in 8 bits (fp8) are not supported with it");
    return plan->zero_stage <= 2 || plan_ranks(plan) < 2 ||
           error_set(err, ERROR_JOB,
                     "use_dora: zero_stage must be at most 2 with it, not %d",
                     (int)plan->zero_stage);
}

/* The initial adapter is computed from whole matrices of the files, and taken out of
 * them. */
static bool check_pissa(const struct plan *plan, const struct model_config *config,
                        const struct lora *lora, struct error *err)
{
    if (!lora->pissa || plan->external)
        return true;
    if (config->quantized.enabled)
        return error_set(
            err, ERROR_JOB,
            "pissa_init: it requires weights of 16 or 32 bits, and the model's files are "
            "in %s; remove it, or name the model that they were made from",
            quantizer_name(config->quantized.by));
    if (shapes_is_quantized(plan, config))
        return error_set(
            err, ERROR_JOB,
            "pissa_init: it requires weights of 16 or 32 bits; remove it, or "
            "quantization_bit");
    if (plan_has_reference(plan) && !plan->preference.reference)
        return error_set(
            err, ERROR_JOB,
            "pissa_init: it takes the adapter's part out of the model, which "
            "is the reference, too; name it as ref_model");
    return plan->zero_stage <= 2 || plan_ranks(plan) < 2 ||
           error_set(err, ERROR_JOB,
                     "pissa_init: zero_stage must be at most 2 with it, not %d",
                     (int)plan->zero_stage);
}

/* PEFT rotates the inputs of torch.nn.Linear only; matmuls in 8 bits and gathered matrices
 * are not supported with it. */
static bool check_rotation(const struct plan *plan, const struct model_config *config,
                           const struct lora *lora, struct error *err)
{
    if (!lora->rotation.on || plan->external)
        return true;
    if (config->architecture->linear == STORED_COLUMNS)
        return error_set(
            err, ERROR_JOB,
            "finetuning_type: oft is not supported for model_type %s, whose "
            "layers are Conv1D: PEFT has no such adapters for them; use lora",
            config->architecture->model_type);
    if (plan->precision.fp8)
        return error_set(err, ERROR_JOB,
                         "finetuning_type: oft: matmuls in 8 bits (fp8) are not "
                         "supported with it");
    return plan->zero_stage <= 2 || plan_ranks(plan) < 2 ||
           error_set(err, ERROR_JOB,
                     "finetuning_type: oft: zero_stage must be at most 2 with it, not %d",
                     (int)plan->zero_stage);
}

/* The encoder has frozen weights of its own, in 16 or 32 bits, and computes each adapter alone. */
static bool check_encoder(const struct plan *plan, const struct lora *lora,
                          struct error *err)
{
    static const char key[] = "freeze_vision_tower: false";

    if (lora->encoder_count == 0 || plan->external)
        return true;
    if (plan_merges(plan))
        return encoder_adapters_can_merge(lora, plan->adapter_name_or_path, err);
    if (lora->dora || lora->pissa)
        return error_set(err, ERROR_JOB,
                         "%s: %s is not supported for adapters of an encoder; remove it",
                         key, lora->dora ? "use_dora" : "pissa_init");
    return !optimizer_of(plan)->whole ||
           error_set(err, ERROR_JOB,
                     "%s: an optimizer that updates whole matrices is not supported "
                     "with it; use another optim, such as adamw_torch",
                     key);
}

bool adapter_methods_check(const struct plan *plan, const struct model_config *config,
                           const struct lora *lora, struct error *err)
{
    if ((lora->dora || lora->pissa || lora->rotation.on) &&
        !check_experts(plan, config->architecture, lora, err))
        return false;
    return check_joined(plan, lora, err) && check_encoder(plan, lora, err) &&
           check_rotation(plan, config, lora, err) && check_dora(plan, lora, err) &&
           check_pissa(plan, config, lora, err);
}
