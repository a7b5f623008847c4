/*
 * patcher/import/import_v1_model.c - model, adapter and quantization of a LLaMA-Factory
 * v1 file.
 *
 * hiyouga/LlamaFactory at ff6d4d12, src/llamafactory/v1: config/model_args.py,
 * plugins/model_plugins/peft.py (LoraParams, FreezeParams) and quantization.py
 * (BnbParams).
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"

static const struct import_copy lora_copies[] = {
    { "peft_config.r", "lora_rank", NULL },
    { "peft_config.lora_alpha", "lora_alpha", NULL },
    { "peft_config.target_modules", "lora_target", NULL },
    { "peft_config.use_rslora", "use_rslora", NULL },
    { "peft_config.use_dora", "use_dora", NULL },
    { "peft_config.modules_to_save", "additional_target", NULL },
};

static const struct import_copy freeze_copies[] = {
    { "peft_config.freeze_trainable_layers", "freeze_trainable_layers", NULL },
    { "peft_config.freeze_trainable_modules", "freeze_trainable_modules", NULL },
};

static void import_name(struct importing *im)
{
    const char *model = import_get(im, "model");

    if (model) {
        import_copy(im, "model", "model_name_or_path", NULL);
    } else {
        model = "Qwen/Qwen3-4B-Instruct-2507";
        import_set(im, "model_name_or_path", model, "LLaMA-Factory v1's default");
    }
    if (model[0] != '/' && model[0] != '.')
        import_remark(im, "model_name_or_path",
                      "trainspool downloads nothing: this must be a folder next to the "
                      "job with the model's config.json, weights and tokenizer");
}

/* Copy what is given; a member that is empty is marked as such. */
static void import_members(struct importing *im, const struct import_copy *rows,
                           size_t count)
{
    for (size_t i = 0; i < count && !import_failed(im); i++)
        if (import_find_written(im, rows[i].from))
            import_copy(im, rows[i].from, rows[i].to, rows[i].note);
}

/* An adapter that training continues brings its own settings: load_adapter. */
static void import_adapter(struct importing *im)
{
    static const char path[] = "peft_config.adapter_name_or_path";
    const struct entry *adapter = import_find(im, path);
    const struct node *value = adapter ? node_value(adapter->value) : NULL;

    if (value && value->kind == NODE_LIST && value->count > 1) {
        import_refuse(im, ERROR_DATA, value,
                      "%s: training can continue from only one adapter, in LLaMA-Factory "
                      "v1 too",
                      path);
    } else if (value && import_joined(im, value)) {
        import_set(im, "adapter_name_or_path", import_joined(im, value), NULL);
        import_mark_carried(im, path, "adapter_name_or_path");
    }
    import_mark_idle(im, path, "empty");
}

static void import_dropout(struct importing *im)
{
    static const char path[] = "peft_config.lora_dropout";

    if (import_is_preference(im)) {
        import_mark_dropped(im, path, IMPORT_DIFFERS,
                            "stage dpo trains without dropout, so that the probabilities "
                            "of both models can be compared");
        return;
    }
    if (import_find(im, path))
        import_copy(im, path, "lora_dropout", NULL);
    import_set_default(im, "lora_dropout", "0.05", "LLaMA-Factory v1's default");
}

static void import_lora(struct importing *im)
{
    import_set(im, "finetuning_type", "lora", NULL);
    import_adapter(im);
    import_dropout(im);
    import_members(im, lora_copies, TS_COUNT(lora_copies));
    import_set_default(im, "lora_rank", "8", "LLaMA-Factory v1's default");
    import_set_default(im, "lora_alpha", "16", "LLaMA-Factory v1's default");
    for (size_t i = 0; i < 4; i++) {
        static const char *const exports[] = { "export_size", "export_hub_model_id",
                                               "infer_dtype", "export_legacy_format" };

        import_mark_dropped(im, arena_printf(im->arena, "peft_config.%s", exports[i]),
                            IMPORT_IDLE, "for merging adapters");
    }
}

static void import_freeze(struct importing *im)
{
    static const char extra[] = "peft_config.freeze_extra_modules";
    static const char cast[] = "peft_config.cast_trainable_params_to_fp32";
    const struct entry *entry = import_find(im, cast);

    import_set(im, "finetuning_type", "freeze", NULL);
    import_members(im, freeze_copies, TS_COUNT(freeze_copies));
    if (import_find(im, extra) && !import_is_off(import_find(im, extra)->value))
        import_mark_dropped(im, extra, IMPORT_DIFFERS,
                            "weights outside the layers stay frozen with "
                            "finetuning_type: freeze");
    import_mark_idle(im, extra, "empty");
    import_mark_dropped(
        im, cast, entry && import_is_off(entry->value) ? IMPORT_DIFFERS : IMPORT_IDLE,
        "trained weights are in float32 here");
}

static bool import_method(struct importing *im)
{
    const char *name = import_get(im, "peft_config.name");
    bool lora = text_equal(name, "lora");

    if (!import_find(im, "peft_config")) {
        import_set(im, "finetuning_type", "full", NULL);
        import_mark_dropped(im, "peft_config", IMPORT_IDLE, "empty");
        return true;
    }
    if (!name || (!lora && strcmp(name, "freeze") != 0))
        return import_refuse(im, ERROR_JOB, import_find(im, "peft_config")->value,
                             "peft_config.name must be lora or freeze%s%s",
                             name ? ", not " : "", name ? name : "");
    if (lora)
        import_lora(im);
    else
        import_freeze(im);
    import_mark_carried(im, "peft_config.name", "finetuning_type");
    return !import_failed(im);
}

/* nf4 with double quantization is the default there and here. */
static void import_4_bits(struct importing *im)
{
    const char *type = import_get(im, "quant_config.quantization_type");

    import_set(im, "quantization_bit", "4", NULL);
    import_mark_carried(im, "quant_config.quantization_bit", "quantization_bit");
    import_mark_carried(im, "quant_config.name", "quantization_bit");
    if (import_find(im, "quant_config.double_quantization"))
        import_copy(im, "quant_config.double_quantization", "double_quantization", NULL);
    if (type && strcmp(type, "nf4") != 0)
        import_mark_dropped(im, "quant_config.quantization_type", IMPORT_DIFFERS,
                            "4-bit weights are nf4");
    import_mark_dropped(im, "quant_config.quantization_type", IMPORT_IDLE,
                        "4-bit weights are nf4");
    import_mark_dropped(im, "quant_config.compute_dtype", IMPORT_IDLE,
                        "bf16 and fp16 determine the format of computing");
}

static void import_quantization(struct importing *im)
{
    static const char path[] = "quant_config";
    const char *bits = import_get(im, "quant_config.quantization_bit");
    const char *name = import_get(im, "quant_config.name");

    if (!import_find(im, path) || !bits)
        import_mark_dropped(im, path, IMPORT_IDLE,
                            import_find(im, path) ? "no number of bits: nothing is "
                                                    "quantized"
                                                  : "empty");
    else if (!text_equal(import_value(im, "finetuning_type"), "lora"))
        import_mark_dropped(im, path, IMPORT_DIFFERS,
                            "quantized weights cannot be trained: 4 bits require "
                            "peft_config with name: lora");
    else if (!text_equal(name, "bnb") && !text_equal(name, "auto"))
        import_mark_dropped(im, path, IMPORT_DIFFERS, "%s is not supported",
                            name ? name : "a method without a name");
    else if (strcmp(bits, "4") == 0)
        import_4_bits(im);
    else
        import_mark_dropped(im, path, IMPORT_DIFFERS,
                            "frozen weights take 16 bits, or 4 with quantization_bit; %s "
                            "bits are not supported; run trainspool plan to see whether "
                            "they fit",
                            bits);
}

bool import_v1_model(struct importing *im)
{
    import_name(im);
    if (import_failed(im) || !import_method(im))
        return false;
    import_quantization(im);
    return !import_failed(im);
}
