/*
 * patcher/rules/rules_quantized.c - jobs whose frozen weights have 8 bits or fewer.  A
 * native run supports the 4-bit format of bitsandbytes; most rules here apply to
 * external jobs.
 */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include <strings.h>

#include "base/size.h"

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
                      .because = rule_device_text(context),
                      .message = "4-bit weights would be multiplied in bfloat16, which "
                                 "this device can only emulate",
                      .note = "the weights stay in 4 bits" },
                  entry, arena_printf(context->arena, "%sfloat16", prefix));
}

/* The key itself, or in the map that BitsAndBytesConfig is made from. */
static void rule_4bit_compute_dtype(struct rule_context *context)
{
    const struct entry *map = rule_entry(context, "quantization_config");

    if (!rule_lacks_bf16(context))
        return;
    check_dtype(context, rule_entry(context, compute_key));
    if (map && node_value(map->value)->kind == NODE_MAP)
        check_dtype(context, node_find(node_value(map->value), compute_key));
}

/* ---- TS707: a base that has 4 bits in its files ---- */

static void rule_upcast_layernorm(struct rule_context *context)
{
    if (!rule_entry(context, "quantization_bit") ||
        rule_is_true(context, "upcast_layernorm"))
        return;
    rule_propose(context,
                 &(struct finding) {
                     .rule = "TS123",
                     .severity = SEVERITY_INFO,
                     .apply = APPLY_UNSAFE,
                     .because = "quantization_bit is given",
                     .message =
                         "norms of a quantised model would be computed in 16 bits; "
                         "LLaMA-Factory recommends upcast_layernorm",
                     .note = "a few kB" },
                 "upcast_layernorm", "true", "quantization_bit");
}

static const struct rule rows[] = {
    { .id = "TS120",
      .title = "4-bit weights multiplied in bfloat16 on a device that has none",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_4bit_compute_dtype,
      .explain =
          "4-bit weights are only stored so: each product first brings them to "
          "bnb_4bit_compute_dtype. Below compute capability 8.0 bfloat16 is emulated, "
          "which is slow and lacks kernels (TS102). float16 is what such a card can "
          "multiply.\n\n"
          "Looked for at the top of the file and in quantization_config; a `torch.` "
          "before the name stays. A native run multiplies in the format of fp16 and "
          "bf16, so this concerns target: external.",
      .source =
          "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; "
          "docs/precision.md; pytorch PR #148322" },
    { .id = "TS123",
      .title = "quantised training without upcast_layernorm",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_upcast_layernorm,
      .explain =
          "Norms are sums of squares over a whole row, and few weights. On quantised "
          "models LLaMA-Factory computes them in the 16-bit format of the rest unless "
          "upcast_layernorm: true is given, and recommends it in a warning at the "
          "start. float32 norms cost a few kB and almost no time.\n\n"
          "For target: external alone: a native run always computes norms in float32.",
      .source = "LLaMA-Factory, hparams/parser.py (\"We recommend enable "
                "`upcast_layernorm` in quantized training\")" },
    { .id = "TS611",
      .title = "load_in_8bit or load_in_4bit",
      .severity = SEVERITY_ERROR,
      .explain =
          "Axolotl's and TRL's words for a base model quantised by bitsandbytes. "
          "LLaMA-Factory says quantization_bit: 8 or 4 (and quantization_type, "
          "double_quantization). Nothing is edited: a quantised base also decides what "
          "may be trained (adapters only) and which compute type it unpacks to.\n\n"
          "trainspool does quantization_bit: 4 itself, 8 it does not. A float16 or "
          "bfloat16 base under LoRA needs 2 bytes a weight instead of 1 or 0.5: "
          "`trainspool plan` says whether that fits. A whole Axolotl file is better "
          "given to `trainspool import`.",
      .source =
          "axolotl schemas/config.py; trl ModelConfig; LLaMA-Factory model_args.py" },
};

const struct rules rules_quantized = { rows, TS_COUNT(rows) };
