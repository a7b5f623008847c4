/* patcher/rules/rules_checkpointing.c - gradient checkpointing: conflicting keys,
 * offloading without it, reentrant checkpointing of a frozen model. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/schema/scalar.h"

static void rule_offloading_without_checkpointing(struct rule_context *context)
{
    static const char *const names[] = { "activation_offloading",
                                         "enable_activation_offloading" };

    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (rule_is_true(context, names[i]) && !context->plan->gradient_checkpointing)
            rule_report(context,
                        &(struct finding) {
                            .rule = "TS311",
                            .severity = SEVERITY_ERROR,
                            .message = arena_printf(
                                context->arena,
                                "%s moves the activations that checkpointing keeps, but "
                                "checkpointing is off",
                                names[i]),
                            .note = "set gradient_checkpointing: true" },
                        names[i]);
}

static bool read_bool(const struct rule_context *context, const char *key, bool *value)
{
    const struct entry *entry = rule_entry(context, key);

    return entry && scalar_bool(entry->value, value) != SCALAR_WRONG;
}

static void rule_checkpointing_conflict(struct rule_context *context)
{
    bool on, off;

    if (!read_bool(context, "gradient_checkpointing", &on) ||
        !read_bool(context, "disable_gradient_checkpointing", &off) || on != off)
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS303",
            .severity = SEVERITY_ERROR,
            .message = arena_printf(context->arena,
                                    "gradient_checkpointing and "
                                    "disable_gradient_checkpointing are both %s: one of "
                                    "them is wrong",
                                    on ? "true" : "false"),
            .note = "keep one of them; without either, checkpointing is on" },
        "disable_gradient_checkpointing");
}

/* use_reentrant from the job, or the version's default; false if neither is known. */
static bool is_reentrant(const struct rule_context *context)
{
    const struct entry *kwargs = rule_entry(context, "gradient_checkpointing_kwargs");
    const struct node *map = kwargs ? node_value(kwargs->value) : NULL;
    const struct entry *entry =
        map && map->kind == NODE_MAP ? node_find(map, "use_reentrant") : NULL;
    bool value;

    if (entry && scalar_bool(entry->value, &value) != SCALAR_WRONG)
        return value;
    return rule_version_below(context, PACKAGE_TRANSFORMERS, "5.0.0.dev0");
}

static void rule_reentrant_checkpointing(struct rule_context *context)
{
    const struct entry *method = rule_entry(context, "finetuning_type");

    if (!method || !plan_adapts(context->plan) || rule_is_llamafactory(context) ||
        !rule_entry(context, "gradient_checkpointing") ||
        !context->plan->gradient_checkpointing || !is_reentrant(context))
        return;
    rule_report(context,
                &(struct finding) {
                    .rule = "TS312",
                    .severity = SEVERITY_WARNING,
                    .message =
                        "reentrant checkpointing drops the gradients of adapters if no "
                        "input of a block requires one, as in a frozen base model",
                    .note = "set gradient_checkpointing_kwargs: {use_reentrant: false}, "
                            "or call model.enable_input_require_grads() in the script" },
                "gradient_checkpointing");
}

static const struct rule rows[] = {
    { .id = "TS303",
      .title = "contradictory checkpointing keys",
      .severity = SEVERITY_ERROR,
      .run = rule_checkpointing_conflict,
      .explain =
          "gradient_checkpointing is Hugging Face's key (default: off), "
          "disable_gradient_checkpointing LLaMA-Factory's (default: on). Without "
          "either, checkpointing is on in a native run. Keep the one you mean. Neither "
          "is related to the loss scaler's error.",
      .source = "LLaMA-Factory model_args.py; TrainingArguments" },
    { .id = "TS311",
      .title = "activation offloading without checkpointing",
      .severity = SEVERITY_ERROR,
      .run = rule_offloading_without_checkpointing,
      .explain =
          "Offloading moves the activations that checkpointing keeps, one per layer, to "
          "the host's memory while they are not needed. Without checkpointing every "
          "activation would have to be moved out and back, so torchtune and Axolotl "
          "reject the combination. Turn checkpointing on, or offloading off. A native "
          "run does not support offloading; checkpointing alone is usually enough.",
      .source = "torchtune recipes; Axolotl schemas/validation.py" },
    { .id = "TS312",
      .title = "reentrant checkpointing with frozen inputs",
      .severity = SEVERITY_WARNING,
      .target = RULE_EXTERNAL,
      .run = rule_reentrant_checkpointing,
      .explain =
          "With use_reentrant: true, the default before transformers 5, PyTorch's "
          "checkpoint runs a block without recording it and calls backward only if an "
          "input requires a gradient. With LoRA the embedding is frozen and no input "
          "does: the adapters get no gradient and the loss does not fall, or backward "
          "raises `element 0 of tensors does not require grad`.\n\n"
          "Set gradient_checkpointing_kwargs: {use_reentrant: false}, or call "
          "model.enable_input_require_grads() before training. LLaMA-Factory and "
          "Axolotl do one of these automatically, so the rule applies to other scripts "
          "only.",
      .source = "torch.utils.checkpoint; transformers modeling_utils.py, "
                "gradient_checkpointing_enable, v4.57 and v5.0" },
};

const struct rules rules_checkpointing = { rows, TS_COUNT(rows) };
