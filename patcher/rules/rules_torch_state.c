/* patcher/rules/rules_torch_state.c - checkpoints that transformers' Trainer resumes
 * from. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <string.h>

#include "base/size.h"
#include "train/checkpoint/torch_state.h"
#include "train/model/lora.h"
#include "train/model/optimizer_table.h"

static void report(struct rule_context *context, enum severity severity,
                   const char *message, const char *note, const char *key)
{
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS515", .severity = severity, .message = message, .note = note },
        key);
}

/* Return whether the adapter trains an embedding that is the head, too, under names that
 * PEFT does not tie: there, they are two matrices (EMBEDDING_LAYER_NAMES). */
static bool peft_splits_head(const struct rule_context *context)
{
    const struct model_config *model = context->model;
    struct error ignored = { 0 };
    struct lora lora;

    return model && model->tied &&
           strcmp(architecture_leaf(model->architecture, MODULE_HEAD), "lm_head") != 0 &&
           lora_read(context->plan, model, &lora, &ignored) && lora.saved[MODULE_EMBED];
}

static const char *refused_key(const struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (optimizer_has_key(plan->optimizer))
        return arena_printf(context->arena, "use_%s", optimizer_name(plan->optimizer));
    if (optimizer_torch_variant(plan->optim) == TORCH_OTHER)
        return "optim";
    return plan->schedule == SCHEDULE_REDUCE_ON_PLATEAU ? "lr_scheduler_type"
                                                        : "loraplus_lr_ratio";
}

static void rule_torch_state(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *key = refused_key(context);
    struct error why = { 0 };

    if (!plan->save_torch_state || plan->external)
        return;
    if (!torch_state_check(plan, &why))
        report(context, SEVERITY_ERROR, arena_strdup(context->arena, why.text),
               strcmp(key, "optim") == 0 && optimizer_first_name(plan->optim) == 0
                   ? "a native run computes AdamW of every name alike, so optim: "
                     "adamw_torch changes nothing in it"
                   : NULL,
               key);
    else if (context->model && context->model->experts > 0)
        report(context, SEVERITY_ERROR,
               "save_torch_state is not supported for a mixture of experts: in "
               "transformers, the matrices of all experts are one parameter",
               NULL, "model_name_or_path");
    else if (peft_splits_head(context))
        report(context, SEVERITY_ERROR,
               arena_printf(context->arena,
                            "additional_target cannot name the embedding for "
                            "save_torch_state: it is the head of this model, too, but "
                            "PEFT trains %s as a second matrix",
                            architecture_leaf(context->model->architecture, MODULE_HEAD)),
               NULL, "additional_target");
    else if (plan->save_only_model)
        report(context, SEVERITY_WARNING,
               "save_torch_state has no effect: save_only_model leaves every optimizer "
               "state out of the checkpoints",
               "set save_only_model: false", "save_only_model");
}

static const struct rule rows[] = {
    { .id = "TS515",
      .title = "save_torch_state cannot be written",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_torch_state,
      .explain =
          "trainspool.save_torch_state adds optimizer.pt, scheduler.pt and scaler.pt to "
          "each checkpoint, so that transformers' Trainer resumes from it. Their content "
          "depends on the optimizer that the Trainer makes of optim. For adamw_torch, "
          "adamw_torch_fused and sgd it is a class of torch.optim whose state is that of "
          "the run. Other names mean a class with another state (8-bit moments, one "
          "count of steps for all parameters), or one that newer versions removed, and "
          "LoRA+ has other groups of parameters: the Trainer would fail or "
          "continue with wrong moments. use_muon, use_adam_mini, use_galore and "
          "use_apollo are no optimizers of torch.optim either. So it would with an adapter of a GPT-NeoX model "
          "whose embedding is its head and is trained, too: PEFT makes two matrices of "
          "it.\n\n"
          "save_only_model omits optimizer states of every kind; together the keys are "
          "a warning.",
      .source = "transformers trainer.py, trainer_optimizer.py; torch.optim; "
                "LLaMA-Factory train/trainer_utils.py; PEFT utils/constants.py" },
};

const struct rules rules_torch_state = { rows, TS_COUNT(rows) };
