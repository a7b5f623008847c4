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

/* "bfloat16", "torch.bfloat16", "bf16"; *prefix is the part before the name. */
static bool is_bfloat16(const char *text, const char **prefix)
{
    bool torch = strncasecmp(text, "torch.", 6) == 0;

    *prefix = torch ? "torch." : "";
    text += torch ? 6 : 0;
    return strcasecmp(text, "bfloat16") == 0 || strcasecmp(text, "bf16") == 0;
}

static void check_compute_dtype(struct rule_context *context, const struct entry *entry)
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
                      .message = "4-bit weights would be computed in bfloat16, which "
                                 "this device can only emulate",
                      .note = "the weights stay in 4 bits" },
                  entry, arena_printf(context->arena, "%sfloat16", prefix));
}

/* Check the key at the top level, and in the map that configures BitsAndBytesConfig. */
static void rule_4bit_compute_dtype(struct rule_context *context)
{
    const struct entry *map = rule_entry(context, "quantization_config");

    if (!rule_lacks_bf16(context))
        return;
    check_compute_dtype(context, rule_entry(context, compute_key));
    if (map && node_value(map->value)->kind == NODE_MAP)
        check_compute_dtype(context, node_find(node_value(map->value), compute_key));
}

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
                         "norms of a quantized model would be computed in 16 bits; "
                         "LLaMA-Factory recommends upcast_layernorm",
                     .note = "this costs a few kB" },
                 "upcast_layernorm", "true", "quantization_bit");
}

static const struct rule rows[] = {
    { .id = "TS120",
      .title = "4-bit weights computed in bfloat16 on a device without it",
      .severity = SEVERITY_WARNING,
      .apply = APPLY_SAFE,
      .run = rule_4bit_compute_dtype,
      .explain =
          "4-bit is only a storage format: each matmul first converts the weights to "
          "bnb_4bit_compute_dtype. Below compute capability 8.0 bfloat16 is emulated, "
          "which is slow and lacks kernels (TS102). The patch replaces it with float16, "
          "which such a card can multiply.\n\n"
          "The rule checks the top level of the file and quantization_config; a "
          "`torch.` prefix is kept. A native run computes in the format that fp16 and "
          "bf16 select, so the rule applies to target: external.",
      .source =
          "NVIDIA CUDA GPUs (compute capabilities); TransformerEngine support matrix; "
          "docs/precision.md; pytorch PR #148322" },
    { .id = "TS123",
      .title = "quantized training without upcast_layernorm",
      .severity = SEVERITY_INFO,
      .apply = APPLY_UNSAFE,
      .target = RULE_EXTERNAL,
      .run = rule_upcast_layernorm,
      .explain =
          "Norms sum squares over a whole row and have few weights. On quantized models "
          "LLaMA-Factory computes them in the 16-bit format of the other layers unless "
          "upcast_layernorm: true is given, and recommends the key in a warning at "
          "startup. float32 norms cost a few kB and almost no time. `--unsafe` adds the "
          "key.\n\n"
          "The rule applies only to target: external: a native run always computes "
          "norms in float32.",
      .source = "LLaMA-Factory, hparams/parser.py (\"We recommend enable "
                "`upcast_layernorm` in quantized training\")" },
    { .id = "TS611",
      .title = "load_in_8bit or load_in_4bit",
      .severity = SEVERITY_ERROR,
      .explain =
          "Axolotl and TRL use these keys for a base model quantized by bitsandbytes. "
          "LLaMA-Factory uses quantization_bit: 8 or 4 (and quantization_type, "
          "double_quantization). Nothing is edited: a quantized base also decides what "
          "can be trained (adapters only) and which format the weights are converted to "
          "for compute.\n\n"
          "A native run supports quantization_bit: 4, not 8. A float16 or bfloat16 base "
          "under LoRA needs 2 bytes per weight instead of 1 or 0.5: `trainspool plan` "
          "shows whether that fits. In a job of another program the finding is a warning, "
          "because a script may read these keys. To convert a whole Axolotl file, use `trainspool "
          "import`.",
      .source =
          "axolotl schemas/config.py; trl ModelConfig; LLaMA-Factory model_args.py" },
};

const struct rules rules_quantized = { rows, TS_COUNT(rows) };
