/* patcher/rules_quantised.c - jobs whose frozen weights have 8 bits or less.  A native
 * run refuses them (TS707), so most of this is for target external. */
#include "config.h"

#include "patcher/rules_parts.h"

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
