/* patcher/rules_quantised.c - jobs whose frozen weights have 8 bits or less.  A native
 * run has 4 of bitsandbytes; most else is for target external. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <inttypes.h>
#include <string.h>
#include <strings.h>

static const char compute_key[] = "bnb_4bit_compute_dtype";

/* "bfloat16", "torch.bfloat16", "bf16"; *prefix: what stands before the name. */
static bool is_bfloat16(const char *text, const char **prefix)
{
    bool torch = strncasecmp(text, "torch.", 6) == 0;

    *prefix = torch ? "torch." : "";
    text += torch ? 6 : 0;
    return strcasecmp(text, "bfloat16") == 0 || strcasecmp(text, "bf16") == 0;
}

static void check_dtype(struct rule_context *context, const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);
    const struct node *value = entry ? node_value(entry->value) : NULL;
    const char *prefix;

    if (!value || value->kind != NODE_SCALAR || !is_bfloat16(value->text, &prefix))
        return;
    propose_value(&to,
                  &(struct finding) {
                      .rule = "TS120",
                      .severity = SEVERITY_WARNING,
                      .apply = APPLY_SAFE,
                      .key = compute_key,
                      .because = rule_device(context),
                      .message = "4-bit weights would be multiplied in bfloat16, which "
                                 "this device can only emulate",
                      .note = "the weights stay in 4 bits" },
                  entry, arena_printf(context->arena, "%sfloat16", prefix));
}

/* The key itself, or in the map that BitsAndBytesConfig is made from. */
void rule_4bit_dtype(struct rule_context *context)
{
    const struct entry *map = rule_entry(context, "quantization_config");

    if (!rule_lacks_bf16(context))
        return;
    check_dtype(context, rule_entry(context, compute_key));
    if (map && node_value(map->value)->kind == NODE_MAP)
        check_dtype(context, node_find(node_value(map->value), compute_key));
}

/* ---- TS707: what is not quantised here ---- */

static void refuse(struct rule_context *context, const char *key, const char *message,
                   const char *note)
{
    rule_tell(context,
              &(struct finding) { .rule = "TS707",
                                  .severity = SEVERITY_ERROR,
                                  .message = message,
                                  .note = note },
              key);
}

/* The word under a key; "" without one. */
static const char *word(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    const struct node *value = entry ? node_value(entry->value) : NULL;

    return value && value->kind == NODE_SCALAR ? value->text : "";
}

static void refuse_kind(struct rule_context *context)
{
    const char *method = word(context, "quantization_method");

    if (context->plan->quantization_bit != 4)
        refuse(context, "quantization_bit",
               arena_printf(context->arena,
                            "weights in %" PRId64 " bits are not done here, only in 4",
                            context->plan->quantization_bit),
               "write quantization_bit: 4, or take it out");
    if (*method && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        refuse(context, "quantization_method",
               "weights are quantised here as bitsandbytes does it, and no other way",
               "write quantization_method: bnb, or take it out");
    if (strcmp(word(context, "quantization_type"), "fp4") == 0)
        refuse(context, "quantization_type",
               "weights of 4 bits are nf4 here, and not fp4",
               "write quantization_type: nf4, or take it out");
}

/* ---- TS707: a base that has 4 bits in its files ---- */

static void remark(struct rule_context *context, const char *key, const char *message)
{
    if (rule_entry(context, key))
        rule_tell(context,
                  &(struct finding) { .rule = "TS707",
                                      .severity = SEVERITY_WARNING,
                                      .because = "quantization_config of the model",
                                      .message = message,
                                      .note =
                                          "the files decide, as in transformers: take "
                                          "it out" },
                  key);
}

/* What the job says otherwise. */
static void tell_differences(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    bool twice = context->model->quantised.twice;
    const char *method = word(context, "quantization_method");

    if (plan->quantization_bit != 4)
        remark(context, "quantization_bit",
               "the files of the model have its weights in 4 bits");
    if (*method && strcmp(method, "bnb") != 0 && strcmp(method, "bitsandbytes") != 0)
        remark(context, "quantization_method",
               "the files of the model have 4 bits of bitsandbytes");
    if (strcmp(word(context, "quantization_type"), "fp4") == 0)
        remark(context, "quantization_type", "the files of the model have nf4");
    if (plan->double_quantization != twice)
        remark(context, "double_quantization",
               twice
                   ? "the files of the model have the scales of their blocks in 8 bits"
                   : "the files of the model have the scales of their blocks in 32 bits");
}

/* Nothing is trained or merged into what is there in 4 bits alone; LLaMA-Factory refuses
 * the same (model/adapter.py, train/tuner.py). */
static void rule_4_bits_here(struct rule_context *context)
{
    static const char other[] = "name the model it was made from, in 16 bits";
    const struct plan *plan = context->plan;

    tell_differences(context);
    if (plan->method != METHOD_LORA)
        refuse(
            context,
            rule_entry(context, "finetuning_type") ? "finetuning_type"
                                                   : "model_name_or_path",
            "the files of the model have its weights in 4 bits, and such are not trained",
            arena_printf(context->arena, "write finetuning_type: lora, or %s", other));
    else if (plan->create_new_adapter && plan->adapter_name_or_path)
        refuse(context, "create_new_adapter",
               "an adapter is not merged into a model whose files have 4 bits",
               arena_printf(context->arena, "go on with that adapter, or %s", other));
    if (plan->export_dir)
        refuse(
            context, "export_dir",
            "an adapter is not merged into a model whose files have 4 bits",
            "take it out, and merge the adapter into the model it was made from, in 16 "
            "bits");
}

/* LLaMA-Factory, hparams/parser.py: _verify_model_args. */
void rule_quantised_here(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (rule_has_4_bits(context)) {
        rule_4_bits_here(context);
        return;
    }
    if (plan->quantization_bit == 0)
        return;
    refuse_kind(context);
    if (plan->method != METHOD_LORA)
        refuse(context, "quantization_bit",
               "weights that are trained are not quantised: quantization_bit goes with "
               "finetuning_type: lora alone",
               "take it out, or train with lora");
    else if (plan->create_new_adapter && plan->adapter_name_or_path)
        refuse(context, "create_new_adapter",
               "an adapter is not merged into a quantised model",
               "go on with that adapter, or merge it first: a job without "
               "quantization_bit, with export_dir");
}

void rule_quantised_norms(struct rule_context *context)
{
    if (!rule_entry(context, "quantization_bit") ||
        rule_is_true(context, "upcast_layernorm"))
        return;
    rule_set(context,
             &(struct finding) {
                 .rule = "TS123",
                 .severity = SEVERITY_INFO,
                 .apply = APPLY_UNSAFE,
                 .because = "quantization_bit is given",
                 .message = "norms of a quantised model would be computed in 16 bits; "
                            "LLaMA-Factory recommends upcast_layernorm",
                 .note = "a few kB" },
             "upcast_layernorm", "true", "quantization_bit");
}
