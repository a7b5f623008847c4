/* train/model/shapes_check.c - whether method, targets and model of a run are compatible. */
#include "config.h"

#include "train/model/shapes.h"

#include <string.h>

#include "train/model/adapter_methods.h"
#include "train/model/cross_layers.h"
#include "train/model/optimizer_table.h"
#include "train/model/shapes_internal.h"

static bool has_submodule(const struct architecture *a, const char *name, size_t len)
{
    for (enum module i = 0; i < MODULES; i++)
        if (architecture_is_under(a, i, name, len))
            return true;
    return false;
}

static bool reject_submodule(const struct architecture *a, const char *name, size_t len,
                             struct error *err)
{
    struct text known;

    text_init(&known, 0);
    for (enum module i = 0; i < MODULES; i++) {
        const char *path = a->paths[i];
        size_t first = path ? strcspn(path, ".") : 0, before = 0;

        while (before < i && !architecture_is_under(a, before, path, first))
            before++;
        if (path && module_in_block(i) && before == i)
            text_addf(&known, "%s%.*s", known.len ? ", " : "", (int)first, path);
    }
    error_set(err, ERROR_JOB,
              "freeze_trainable_modules must name modules "
              "of a layer, not \"%.*s\"; a layer has %s",
              (int)len, name, known.data);
    text_clear(&known);
    return false;
}

/* The layers that LLaMA Pro has added are as many in each part of the model. */
static bool check_expansion(const struct plan *plan, const struct model_config *config,
                            struct error *err)
{
    int64_t added = plan->freeze_trainable_layers;
    size_t layers = model_config_numbered(config);

    if (plan->method != METHOD_FREEZE)
        return error_set(err, ERROR_JOB,
                         "use_llama_pro requires finetuning_type: freeze, not %s",
                         plan_method_name(plan));
    return (added > 0 && layers % (size_t)added == 0) ||
           error_set(
               err, ERROR_JOB,
               "freeze_trainable_layers must divide the %zu layers of the model with "
               "use_llama_pro, not be %lld",
               layers, (long long)added);
}

/* LLaMA-Factory also rejects unknown names; a valid name is the first part of a module's
 * path. */
static bool check_freeze(const struct plan *plan, const struct architecture *a,
                         struct error *err)
{
    const char *at = plan->freeze_trainable_modules;

    if (plan->freeze_trainable_layers == 0)
        return error_set(err, ERROR_JOB,
                         "freeze_trainable_layers must not "
                         "be 0: nothing would be trained");
    while (at && *at && strcmp(at, "all") != 0) {
        size_t skip = strspn(at, ", "), len = strcspn(at + skip, ", ");

        if (len > 0 && !has_submodule(a, at + skip, len))
            return reject_submodule(a, at + skip, len, err);
        at += skip + len;
    }
    return true;
}

/* LLaMA-Factory (hparams/finetuning_args.py, train/trainer_utils.py) also rejects both. */
static bool check_projections(const struct plan *plan, struct error *err)
{
    const char *name = optimizer_name(plan->optimizer);

    if (plan_adapts(plan))
        return error_set(err, ERROR_JOB,
                         "use_%s requires finetuning_type: full or freeze, not lora, "
                         "whose gradients are small already",
                         name);
    return optimizer_first_name(plan->optim) == 0 ||
           error_set(err, ERROR_JOB, "use_%s requires optim: adamw_torch, not %s", name,
                     optimizer_name(plan->optim));
}

static bool check_average(const struct plan *plan, struct error *err)
{
    const char *name = optimizer_name(plan->optimizer);

    if (plan_ranks(plan) > 1)
        return error_set(err, ERROR_JOB,
                         "optim: %s cannot be combined with several ranks, which would "
                         "have to gather averaged weights",
                         name);
    if (plan->schedule == SCHEDULE_REDUCE_ON_PLATEAU)
        return error_set(err, ERROR_JOB,
                         "optim: %s requires learning rates that are known in advance, "
                         "such as lr_scheduler_type: constant, not reduce_lr_on_plateau",
                         name);
    return plan->precision.trainable == FORMAT_FP32 ||
           error_set(err, ERROR_JOB,
                     "optim: %s requires float32 weights, as with bf16: true: a 16-bit "
                     "average would not change in late steps",
                     name);
}

static bool check_plan(const struct plan *plan, const struct architecture *a,
                       struct error *err)
{
    if (plan_adapts(plan) && plan->train_from_scratch)
        return error_set(
            err, ERROR_JOB,
            "train_from_scratch requires finetuning_type: full or freeze, not lora: the "
            "weights are random, so there is nothing to adapt yet");
    if (!plan_adapts(plan) && plan->adapter_name_or_path)
        return error_set(
            err, ERROR_JOB,
            "adapter_name_or_path requires finetuning_type: lora or oft; remove it, or merge "
            "the adapter first (export_dir)");
    if (optimizer_projects(plan) && !plan->external && !check_projections(plan, err))
        return false;
    if (optimizer_of(plan)->averages && !plan->external && !check_average(plan, err))
        return false;
    if (optimizer_of(plan)->whole && plan_ranks(plan) > 1 && !plan->external)
        return error_set(err, ERROR_JOB,
                         "%s%s cannot be combined with several ranks, which divide the "
                         "weights that it updates together",
                         optimizer_has_key(plan->optimizer) ? "use_" : "optim: ",
                         optimizer_name(plan->optimizer));
    if (a->experts.counts_uncorrected && plan->moe_aux_loss_coef > 0 && !plan->external)
        return error_set(
            err, ERROR_JOB,
            "moe_aux_loss_coef is not supported for model_type %s, whose load "
            "balancing loss counts other experts than those chosen; remove it",
            a->model_type);
    return plan->method != METHOD_FREEZE || check_freeze(plan, a, err);
}

/* Quantized weights in files are neither trained nor merged into. In a run that only
 * generates, or that another program executes, the rest of the plan does not matter. */
static bool check_base(const struct plan *plan, const struct model_config *config,
                       struct error *err)
{
    bool lora = plan_adapts(plan);

    if (!config->quantized.enabled || plan->generation.alone || plan->external)
        return true;
    if (!lora)
        return error_set(err, ERROR_JOB,
                         "finetuning_type must be lora or oft: the model's files have "
                         "quantized weights, which cannot be trained");
    if (plan->create_new_adapter && plan->adapter_name_or_path)
        return error_set(
            err, ERROR_JOB,
            "create_new_adapter: cannot merge an adapter into a model whose files "
            "have quantized weights; continue training that adapter");
    return !plan->export_dir ||
           error_set(err, ERROR_JOB,
                     "export_dir: cannot merge an adapter into a model "
                     "whose files have quantized weights; remove it, and "
                     "merge into the model that they were made from");
}

/* A module that is trained as a whole must have 16-bit weights in the files. */
static bool check_saved(const struct model_config *config, const struct lora *lora,
                        struct error *err)
{
    for (enum module i = 0; config->quantized.enabled && i < MODULES; i++)
        if (lora->saved[i] && module_in_block(i) && module_is_linear(i))
            return error_set(err, ERROR_JOB,
                             "additional_target %s: the model's files have it "
                             "quantized, which cannot be trained; adapt it (lora_target)",
                             architecture_leaf(config->architecture, i));
    return true;
}

/* Return whether the plan only generates and has no separate adapters: an adapter that is
 * not trained is merged into the weights, if they allow it. */
static bool only_generates(const struct plan *plan, const struct model_config *config)
{
    bool keeps_adapter = plan->adapter_name_or_path && shapes_is_quantized(plan, config);

    return plan->generation.alone && !keeps_adapter;
}

/* Names of layers also match modules that the architecture has, but no block of this
 * model. */
static void drop_absent(const struct model_config *config, struct lora *lora)
{
    for (enum module i = 0; i < MODULES; i++) {
        bool exists = false, on = false;

        for (size_t l = 0; l < config->layers; l++) {
            const bool has = model_config_has(config, i, l);

            exists = exists || has;
            on = on || (has && lora_is_on(lora, i, l));
        }
        lora->adapted[i] = on;
        lora->saved[i] = lora->saved[i] && exists;
    }
}

/* Their layers of keys and values read other rows than the rest of the model. */
static bool check_cross(const struct model_config *config, const struct lora *lora,
                        struct error *err)
{
    if (!config->crosses || (!lora->dora && !lora->rotation.on))
        return true;
    return error_set(err, ERROR_JOB,
                     "%s is not supported with images for a model with cross-attention; "
                     "train it with finetuning_type: lora%s",
                     lora->dora ? "use_dora" : "finetuning_type: oft",
                     lora->dora ? " alone" : "");
}

bool shapes_check(const struct plan *plan, const struct model_config *config,
                  struct lora *lora, struct error *err)
{
    const struct architecture *a = config->architecture;

    *lora = (struct lora) { 0 };
    if (!check_base(plan, config, err) || !check_plan(plan, a, err) ||
        (plan->use_llama_pro && !plan->generation.alone && !plan->external &&
         !check_expansion(plan, config, err)) ||
        !(only_generates(plan, config) || lora_read(plan, config, lora, err)))
        return false;
    drop_absent(config, lora);
    if (!check_saved(config, lora, err) || !check_cross(config, lora, err) ||
        !adapter_methods_check(plan, config, lora, err))
        return false;
    if (config->tied && lora->saved[MODULE_EMBED] && plan->adapter_name_or_path &&
        !plan->create_new_adapter)
        /* an adapter's file has both, but they are one parameter */
        lora->saved[MODULE_HEAD] = false;
    return !config->tied || !lora->saved[MODULE_HEAD] ||
           error_set(err, ERROR_JOB,
                     "additional_target %s: the head of "
                     "this model is its %s; use that name",
                     architecture_leaf(a, MODULE_HEAD),
                     architecture_leaf(a, MODULE_EMBED));
}

bool shapes_check_pissa(const struct shapes_builder *m, struct error *err)
{
    const struct lora *lora = &m->out->lora;
    const struct shape_parameter *least = NULL;
    size_t values = lora->rank;

    for (size_t i = 0; lora->pissa && i < m->out->count; i++) {
        const struct shape_parameter *p = &m->out->parameters[i];
        size_t side = p->part == PART_LORA_A   ? p->cols
                      : p->part == PART_LORA_B ? p->rows
                                               : SIZE_MAX;

        if (side < values) {
            least = p;
            values = side;
        }
    }
    return !least || m->plan->external ||
           error_set(err, ERROR_JOB,
                     "lora_rank must be at most %zu with pissa_init, the singular values "
                     "of %s, not %zu; or name other modules as lora_target",
                     values, architecture_leaf(m->config->architecture, least->module),
                     lora->rank);
}
