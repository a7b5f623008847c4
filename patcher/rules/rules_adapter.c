/* patcher/rules/rules_adapter.c - TS725: adapters of a job that PEFT does not read completely. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "train/model/lora.h"

/* Return whether PEFT takes a module for the one of the experts that has the same name. */
static bool is_mistaken(const struct model_config *config, enum module module)
{
    static const enum module experts[] = { MODULE_EXPERT_GATE, MODULE_EXPERT_UP,
                                           MODULE_EXPERT_DOWN };
    const struct architecture *a = config->architecture;

    if (module_is_of_experts(module) || a->experts.unknown_to_peft)
        return module_is_of_experts(module) && a->experts.unknown_to_peft;
    for (size_t i = 0; !a->experts.only_tensors && i < TS_COUNT(experts); i++)
        if (a->paths[experts[i]] &&
            strcmp(architecture_leaf(a, experts[i]), architecture_leaf(a, module)) == 0)
            return true;
    return false;
}

static bool exists(const struct model_config *config, enum module module)
{
    for (size_t l = 0; l < config->layers; l++)
        if (model_config_has(config, module, l))
            return true;
    return false;
}

/* Set *names to the paths of adapted modules that PEFT loses; return whether there are any. */
static bool find_lost(const struct rule_context *context, const struct lora *lora,
                      const char **names)
{
    const struct model_config *config = context->model;
    const char *list = NULL;

    for (enum module i = 0; i < MODULES; i++)
        if (module_in_block(i) && lora->adapted[i] &&
            !(lora->joined && module_is_of_experts(i)) && is_mistaken(config, i) &&
            exists(config, i))
            list = arena_printf(context->arena, "%s%s%s", list ? list : "",
                                list ? ", " : "", config->architecture->paths[i]);
    *names = list;
    return list != NULL;
}

static void rule_lost_adapters(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    struct error ignored = { 0 };
    const char *names;
    struct lora lora;

    if (!context->model || !plan_adapts(plan) || plan_merges(plan) ||
        plan_only_evaluates(plan) || plan->export_dir ||
        !lora_read(plan, context->model, &lora, &ignored) ||
        !find_lost(context, &lora, &names))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS725",
            .severity = SEVERITY_INFO,
            .message = arena_printf(context->arena,
                                    "PEFT with transformers 5 will not load the adapters "
                                    "on %s, which it takes for those of experts",
                                    names),
            .note = "set export_dir to merge the adapter into a model, or lora_target to "
                    "other layers; trainspool itself reads the adapter completely" },
        rule_entry(context, "lora_target") ? "lora_target" : "model_name_or_path");
}

static const struct rule rows[] = {
    { .id = "TS725",
      .title = "adapter that PEFT does not read completely",
      .severity = SEVERITY_INFO,
      .target = RULE_NATIVE,
      .run = rule_lost_adapters,
      .explain =
          "transformers 5 has the matrices of all experts of a block in one parameter, and "
          "PEFT converts adapters when it loads them. It takes gate_proj, up_proj and "
          "down_proj for those of experts alone: the adapters on blocks without experts, "
          "and on experts that all tokens pass through, are lost without an error. So are "
          "those on the experts of Phi-3.5-MoE, whose names PEFT does not know. "
          "trainspool reads such an adapter completely, to train it further, to generate "
          "or to merge it (export_dir); a merged model has all of it in any program.",
      .source = "PEFT 0.21 utils/transformers_weight_conversion.py" },
};

const struct rules rules_adapter = { rows, TS_COUNT(rows) };
