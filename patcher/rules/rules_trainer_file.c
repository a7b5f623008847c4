/* patcher/rules/rules_trainer_file.c - number formats that files of Axolotl, torchtune and
 * Lightning ask for (trainer_file.h). */
#include "config.h"

#include "patcher/rules/trainer_file.h"

#include <string.h>

#include "base/size.h"
#include "patcher/rules/rules_context.h"
#include "patcher/schema/scalar.h"

static struct finding *report(struct rule_context *context, const struct finding *finding,
                              const struct entry *entry)
{
    const struct proposal to = rule_proposal(context);

    return entry ? propose_remark(&to, finding, entry)
                 : rule_report(context, finding, NULL);
}

/* Propose a value, if one is given. */
static void propose(struct rule_context *context, const struct finding *finding,
                    const struct entry *entry, const char *value)
{
    const struct proposal to = rule_proposal(context);

    if (entry && value)
        propose_value(&to, finding, entry, value);
    else
        report(context, finding, entry);
}

/* ---- TS815: the card lacks the format ---- */

/* What a trainer says about bf16 on a card without it.  All of them ask
 * torch.cuda.is_bf16_supported, which counts emulation since torch 2.4. */
static const struct lacking {
    enum trainer trainer;
    const char *says;
} lacking[] = {
    /* transformers, training_args.py */
    { TRAINER_AXOLOTL, "Your setup doesn't support bf16/gpu" },
    /* training/precision.py, get_dtype */
    { TRAINER_TORCHTUNE,
      "bf16 precision was requested but not available on this hardware" },
    /* torch/amp/autocast_mode.py */
    { TRAINER_LIGHTNING, "Current CUDA Device does not support bfloat16" },
};

/* Return whether samples are packed, which few attention implementations keep apart. */
static bool packs(const struct rule_context *context)
{
    const struct entry *entry = trainer_file_entry(context, "sample_packing");
    bool on = false;

    return entry && scalar_bool(entry->value, &on) != SCALAR_WRONG && on;
}

static struct finding lacking_finding(const struct rule_context *context,
                                      const struct trainer_formats *formats,
                                      const struct lacking *row)
{
    bool stops = rule_version_below(context, PACKAGE_TORCH, "2.4.0.dev0");
    bool emulates = rule_version_at_least(context, PACKAGE_TORCH, "2.4.0.dev0");

    return (struct finding) {
        .rule = "TS815",
        .severity = stops ? SEVERITY_ERROR : SEVERITY_WARNING,
        .apply = APPLY_SAFE,
        .because = rule_device_text(context),
        .message =
            arena_printf(context->arena, "%s: this device has no bf16", formats->request),
        .note = stops      ? arena_printf(context->arena, "the run stops: %s", row->says)
                : emulates ? "PyTorch emulates it, slowly, since torch 2.4"
                           : arena_printf(context->arena,
                                          "PyTorch emulates it, slowly, since torch 2.4; "
                                          "before, the run stops: %s",
                                          row->says)
    };
}

/* Ask for fp16 instead: `auto` means emulated bf16, too.  Without an adapter the weights
 * would be float16 (TS816). */
static void report_axolotl(struct rule_context *context, struct finding *finding,
                           const struct trainer_formats *formats)
{
    const struct entry *bfloat16 = trainer_file_entry(context, "bfloat16");
    const struct proposal to = rule_proposal(context);
    bool on = false;

    if (formats->trained != FORMAT_FP32) {
        report(context, finding, formats->entry);
        return;
    }
    finding->group = rule_group(context);
    if (bfloat16 && scalar_bool(bfloat16->value, &on) != SCALAR_WRONG && on)
        propose_value(&to, finding, bfloat16, "false");
    rule_propose(context, finding, "bf16", "false", "fp16");
    rule_propose(context, finding, "fp16", "true", "bf16");
}

static void check_bf16(struct rule_context *context,
                       const struct trainer_formats *formats)
{
    if (!rule_lacks_bf16(context) ||
        (formats->weights != FORMAT_BF16 && formats->autocast != FORMAT_BF16))
        return;
    for (size_t i = 0; i < TS_COUNT(lacking); i++) {
        struct finding finding;

        if (lacking[i].trainer != context->view->trainer)
            continue;
        finding = lacking_finding(context, formats, &lacking[i]);
        if (context->view->trainer == TRAINER_AXOLOTL) {
            report_axolotl(context, &finding, formats);
            continue;
        }
        if (context->view->trainer == TRAINER_TORCHTUNE)
            finding.apply = APPLY_UNSAFE; /* float32 takes twice the memory */
        propose(context, &finding, formats->entry,
                context->view->trainer == TRAINER_TORCHTUNE ? "fp32"
                : formats->weights == FORMAT_FP32           ? "16-mixed"
                                                            : NULL);
    }
}

/* Keys that need a compute capability. */
static const struct needed {
    enum trainer trainer;
    const char *key, *value; /* value: NULL: a boolean */
    int capability;
    const char *fitting; /* the value for other cards, or NULL */
    const char *what;
} needed[] = {
    /* transformers, training_args.py */
    { TRAINER_AXOLOTL, "tf32", NULL, 80, "false",
      "the Trainer stops: --tf32 requires Ampere or a newer GPU arch" },
    /* AxolotlConfigWCapabilities */
    { TRAINER_AXOLOTL, "fp8", NULL, 89, "false",
      "Axolotl stops: fp8 requested, but fp8 is not supported on this GPU" },
    /* flash_attn's kernels; the key selects version 2 */
    { TRAINER_AXOLOTL, "flash_attention", NULL, 80, "false",
      "flash_attn stops: FlashAttention only supports Ampere GPUs or newer" },
    { TRAINER_AXOLOTL, "attn_implementation", "flash_attention_2", 80, "sdpa",
      "flash_attn stops: FlashAttention only supports Ampere GPUs or newer" },
    { TRAINER_AXOLOTL, "attn_implementation", "flash_attention_3", 90, "sdpa",
      "FlashAttention 3 has kernels for compute capability 9.0 and higher" },
    /* TransformerEngine, support matrix */
    { TRAINER_LIGHTNING, "trainer.precision", "transformer-engine", 89, "bf16-mixed",
      "TransformerEngine has fp8 for compute capability 8.9 and higher" },
    { TRAINER_LIGHTNING, "trainer.precision", "transformer-engine-float16", 89,
      "16-mixed", "TransformerEngine has fp8 for compute capability 8.9 and higher" },
};

static bool asks_for(const struct entry *entry, const struct needed *row)
{
    bool on = false;

    if (row->value)
        return strcmp(node_value(entry->value)->text, row->value) == 0;
    return scalar_bool(entry->value, &on) != SCALAR_WRONG && on;
}

/* Axolotl, utils/schemas/enums.py, ATTN_IMPLS_SUPPORTING_PACKING: of the kernels for older
 * cards, sdpa and eager do not keep packed samples apart. */
static const char *value_for(const struct rule_context *context, const struct needed *row)
{
    if (strstr(row->key, "att") && packs(context))
        return NULL;
    return rule_lacks_bf16(context) && strcmp(row->fitting, "bf16-mixed") == 0
               ? "16-mixed"
               : row->fitting;
}

static void check_needed(struct rule_context *context, const struct needed *row)
{
    const struct entry *entry = row->trainer == context->view->trainer
                                    ? trainer_file_entry(context, row->key)
                                    : NULL;
    const char *value;

    if (!entry || !rule_on_gpu(context) || rule_capability(context) >= row->capability ||
        !asks_for(entry, row))
        return;
    value = value_for(context, row);
    propose(context,
            &(struct finding) {
                .rule = "TS815",
                .severity = SEVERITY_ERROR,
                .apply = APPLY_SAFE,
                .because = rule_device_text(context),
                .message = arena_printf(
                    context->arena, "%s: %s requires compute capability %d.%d or higher",
                    row->key, node_value(entry->value)->text, row->capability / 10,
                    row->capability % 10),
                .note = value ? row->what
                              : arena_printf(context->arena,
                                             "%s; xformers or flex_attention keep packed "
                                             "samples apart, too",
                                             row->what) },
            entry, value);
}

static void rule_card_lacks(struct rule_context *context)
{
    const struct trainer_formats formats = trainer_file_formats(context);

    if (formats.known)
        check_bf16(context, &formats);
    for (size_t i = 0; i < TS_COUNT(needed); i++)
        check_needed(context, &needed[i]);
}

/* ---- TS816: 16-bit weights ---- */

/* Axolotl's utils/schemas/validation.py names this error in a comment; PyTorch,
 * torch/amp/grad_scaler.py, raises it. */
static void report_scaled(struct rule_context *context,
                          const struct trainer_formats *formats)
{
    report(context,
           &(struct finding) {
               .rule = "TS816",
               .severity = SEVERITY_ERROR,
               .apply = APPLY_MANUAL,
               .because = formats->automatic ? rule_device_text(context) : NULL,
               .message = arena_printf(
                   context->arena,
                   "%s trains float16 weights under a loss scaler, which stops at the "
                   "first step: Attempting to unscale FP16 gradients",
                   formats->request),
               .note = "train an adapter, use DeepSpeed or FSDP, or set bf16 and fp16 to "
                       "false for float32" },
           formats->entry);
}

static void report_unscaled(struct rule_context *context,
                            const struct trainer_formats *formats)
{
    report(context,
           &(struct finding) {
               .rule = "TS816",
               .severity = SEVERITY_WARNING,
               .apply = APPLY_MANUAL,
               .message = arena_printf(
                   context->arena,
                   "%s trains float16 weights without a loss scale: gradients below 3e-8 "
                   "become 0, and updates below 1/4096 of a weight are lost",
                   formats->request),
               .note = context->view->trainer == TRAINER_LIGHTNING
                           ? "16-mixed keeps float32 weights and scales the loss"
                           : NULL },
           formats->entry);
}

static void rule_trains_16bit(struct rule_context *context)
{
    const struct trainer_formats formats = trainer_file_formats(context);

    if (!formats.known || formats.trained != FORMAT_FP16 ||
        context->view->trainer == TRAINER_TORCHTUNE) /* TS812 */
        return;
    if (formats.scaled)
        report_scaled(context, &formats);
    else
        report_unscaled(context, &formats);
}

static const struct rule rows[] = {
    { .id = "TS815",
      .title = "format that the card lacks, in another trainer's file",
      .severity = SEVERITY_ERROR,
      .apply = APPLY_SAFE,
      .target = RULE_EXTERNAL,
      .run = rule_card_lacks,
      .explain =
          "With `--target axolotl`, `torchtune` or `lightning`, trainspool reads the "
          "number formats of that trainer's own file: bf16, fp16, tf32, fp8 and the "
          "attention kernel of Axolotl, dtype of torchtune, trainer.precision of "
          "Lightning. This rule reports a format or kernel that the device does not "
          "have.\n\n"
          "Each trainer asks torch.cuda.is_bf16_supported(), which counts emulation since "
          "torch 2.4. So bf16, and `bf16: auto` of Axolotl, stop or select fp16 with an "
          "older torch, and are slow with a newer one.\n\n"
          "The patch writes what fits: `bf16: false` with `fp16: true` for adapters of "
          "Axolotl; `precision: 16-mixed` for Lightning; with `--unsafe`, `dtype: fp32` "
          "for torchtune, whose recipes refuse fp16. Nothing is edited where float16 "
          "weights would be trained.",
      .source = "transformers training_args.py; Axolotl utils/config and utils/schemas "
                "0.5.2 to 0.21.0; torchtune training/precision.py 0.1 to 0.6.1; "
                "Lightning fabric/plugins/precision 2.0 to 2.6" },
    { .id = "TS816",
      .title = "float16 weights, trained by another trainer",
      .severity = SEVERITY_ERROR,
      .target = RULE_EXTERNAL,
      .run = rule_trains_16bit,
      .explain =
          "Axolotl loads the model in the format of the computation. Where it trains all "
          "weights with fp16, or before torch 2.4 with `bf16: auto` on a device without "
          "bf16, they are float16, and PyTorch's scaler stops at their gradients: `Attempting to "
          "unscale FP16 gradients`. Adapters, DeepSpeed and FSDP have float32 copies. "
          "`float16: true`, and `precision: 16-true` of Lightning, train float16 weights "
          "without a loss scale, which loses small gradients and small updates.",
      .source = "Axolotl loaders/model.py and utils/schemas/validation.py, whose comment "
                "names the error; PyTorch torch/amp/grad_scaler.py; Lightning "
                "plugins/precision/half.py" },
};

const struct rules rules_trainer_file = { rows, TS_COUNT(rows) };
