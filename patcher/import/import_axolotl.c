/*
 * patcher/import/import_axolotl.c - convert an Axolotl file to a job.
 *
 * Meaning and defaults of its keys: axolotl-ai-cloud/axolotl at 067b021c,
 * src/axolotl/utils/schemas (names, defaults), utils/config (derived settings) and
 * core/builders (arguments of the trainer).
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

#define UNSUPPORTED \
    "is not supported; supported stages are sft, pt, distill, dpo, kto, grpo and rm"

/* Keys with the same meaning under another name or the same name. */
static const struct import_copy copies[] = {
    { "lora_model_dir", "adapter_name_or_path", NULL },
    { "sequence_len", "cutoff_len", NULL },
    { "train_on_inputs", "train_on_prompt", NULL },
    { "dataloader_drop_last", "dataloader_drop_last", NULL },
    { "micro_batch_size", "per_device_train_batch_size", NULL },
    { "num_epochs", "num_train_epochs", NULL },
    { "max_steps", "max_steps", NULL },
    { "learning_rate", "learning_rate", NULL },
    { "weight_decay", "weight_decay", NULL },
    { "adam_beta1", "adam_beta1", NULL },
    { "adam_beta2", "adam_beta2", NULL },
    { "adam_epsilon", "adam_epsilon", NULL },
    { "max_grad_norm", "max_grad_norm", NULL },
    { "seed", "seed", NULL },
    { "neftune_noise_alpha", "neftune_noise_alpha", NULL },
    { "output_dir", "output_dir", NULL },
    { "logging_steps", "logging_steps", NULL },
    { "save_total_limit", "save_total_limit", NULL },
    { "save_only_model", "save_only_model", NULL },
    { "resume_from_checkpoint", "resume_from_checkpoint", NULL },
    { "default_system_message", "default_system", NULL },
    { "curriculum_sampling", "disable_shuffling",
      "keeps the order of the data, as in Axolotl" },
};

/* The same, for LoRA only. */
static const struct import_copy lora_copies[] = {
    { "lora_r", "lora_rank", NULL },
    { "lora_alpha", "lora_alpha", NULL },
    { "lora_dropout", "lora_dropout", NULL },
    { "lora_target_parameters", "lora_target_parameters", NULL },
    { "lora_modules_to_save", "additional_target", NULL },
    { "peft_use_rslora", "use_rslora", NULL },
    { "peft_use_dora", "use_dora", NULL },
    { "loraplus_lr_ratio", "loraplus_lr_ratio", NULL },
};

/* Axolotl's defaults where they differ from those of a job. */
static const struct import_copy default_values[] = {
    { "512", "cutoff_len", "Axolotl's default" },
    { "1", "num_train_epochs", "Axolotl's default" },
    { "1", "per_device_train_batch_size", "Axolotl's default" },
    { "false", "gradient_checkpointing", "Axolotl's default; a job's default is true" },
    { "cosine", "lr_scheduler_type", "Axolotl's default" },
    { "10", "logging_steps",
      "Axolotl: every 0.5 % of the steps, but at least every 10 steps" },
    { "4", "save_total_limit", "Axolotl's default" },
};

/* ---- unsupported kinds of training ---- */

static bool refuse_if_on(struct importing *im, const char *key, const char *what)
{
    const struct entry *entry = import_find(im, key);

    if (!entry || import_is_off(entry->value))
        return true;
    return import_refuse(im, ERROR_JOB, entry->value, "%s: %s " UNSUPPORTED, key, what);
}

static bool refuse_kinds(struct importing *im)
{
    static const char *const kinds[][2] = {
        { "process_reward_model", "training a reward model" },
        { "diffusion", "training a diffusion model" },
    };
    const struct entry *type = import_find(im, "model_type");

    for (size_t i = 0; i < TS_COUNT(kinds); i++)
        if (!refuse_if_on(im, kinds[i][0], kinds[i][1]))
            return false;
    if (type && strstr(type->value->text, "SequenceClassification") &&
        !import_is_true(im, "reward_model"))
        return import_refuse(im, ERROR_JOB, type->value,
                             "model_type: training a classifier " UNSUPPORTED);
    return import_axolotl_media(im);
}

/* ---- model and method ---- */

static void import_model(struct importing *im)
{
    const char *model = import_get(im, "base_model");
    const char *revision = import_get(im, "revision_of_model");
    const char *const others[] = { "base_model_config", "tokenizer_config" };

    if (!import_copy(im, "base_model", "model_name_or_path", NULL) || !model)
        return;
    if (model[0] != '/' && model[0] != '.')
        import_remark(
            im, "model_name_or_path",
            "trainspool downloads nothing: this must be a folder next to the job with "
            "the model's config.json, weights and tokenizer%s%s",
            revision ? " of revision " : "", revision ? revision : "");
    import_mark_carried(im, "revision_of_model", "model_name_or_path");
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        const char *other = import_get(im, others[i]);

        if (other && strcmp(other, model) == 0)
            import_mark_dropped(im, others[i], IMPORT_IDLE, "same as the model's folder");
        else if (other)
            import_mark_dropped(im, others[i], IMPORT_DIFFERS,
                                "config and tokenizer are read from the model's folder");
    }
}

/* Import layers by name or by a pattern, or all layers. */
static void import_targets(struct importing *im)
{
    const struct entry *modules = import_find(im, "lora_target_modules");
    const char *names = modules ? import_joined(im, modules->value) : NULL;
    bool is_all = import_is_true(im, "lora_target_linear") ||
                  (names && strcmp(names, "all-linear") == 0);

    if (is_all) {
        import_set(im, "lora_target", "all", NULL);
        if (import_is_true(im, "lora_target_linear"))
            import_mark_carried(im, "lora_target_linear", "lora_target");
        else
            import_mark_carried(im, "lora_target_modules", "lora_target");
        import_mark_dropped(im, "lora_target_modules", IMPORT_IDLE,
                            "all linear layers are trained anyway");
    } else if (names) {
        import_copy(im, "lora_target_modules", "lora_target", NULL);
    } else if (import_value(im, "lora_target_parameters")) {
        import_set_yaml(im, "lora_target", "[]", "Axolotl's file names parameters only");
        import_mark_dropped(im, "lora_target_modules", IMPORT_IDLE, "empty");
    } else {
        import_set(im, "lora_target", "all", "Axolotl's file does not name layers");
        import_mark_dropped(im, "lora_target_modules", IMPORT_IDLE, "empty");
    }
}

/* PEFT's other initializations differ only in the start of the adapters. */
static void import_initialization(struct importing *im)
{
    static const char key[] = "peft_init_lora_weights";
    const char *value = import_get(im, key);

    if (!value || strcmp(value, "pissa") != 0)
        return;
    import_set(im, "pissa_init", "true", NULL);
    import_mark_carried(im, key, "pissa_init");
}

/* What Mxfp4Config reads, trainspool reads, too, and always dequantizes it. */
static void import_mxfp4(struct importing *im)
{
    static const char key[] = "model_quantization_config";
    static const char why[] = "files in MXFP4 are always dequantized";
    const char *value = import_get(im, key);

    if (!value || strcmp(value, "Mxfp4Config") != 0)
        return;
    import_mark_dropped(im, key, IMPORT_IDLE, why);
    import_mark_dropped(im, "model_quantization_config_kwargs", IMPORT_IDLE, why);
}

/* Axolotl's BitsAndBytesConfig has nf4 and double quantization, which are also the
 * defaults of a job. */
static void import_quantization(struct importing *im, bool is_lora)
{
    if (is_lora && import_is_true(im, "load_in_4bit")) {
        import_set(im, "quantization_bit", "4", NULL);
        import_mark_carried(im, "load_in_4bit", "quantization_bit");
        import_mark_dropped(
            im, "bnb_config_kwargs", IMPORT_DIFFERS,
            "4-bit weights are nf4 with double quantization, the default in Axolotl too; "
            "double_quantization: false turns that off");
    } else if (import_is_true(im, "load_in_4bit")) {
        import_mark_dropped(
            im, "load_in_4bit", IMPORT_DIFFERS,
            "quantized weights cannot be trained: 4 bits require adapter: qlora");
    }
    if (import_is_true(im, "load_in_8bit"))
        import_mark_dropped(
            im, "load_in_8bit", IMPORT_DIFFERS,
            "frozen weights take 16 bits, or 4 with quantization_bit; 8 bits are not "
            "supported; run trainspool plan to see whether they fit");
    if (!import_find_written(im, "load_in_8bit") &&
        !import_find_written(im, "load_in_4bit"))
        return;
    import_mark_dropped(im, "load_in_8bit", IMPORT_IDLE, "off");
    import_mark_dropped(im, "load_in_4bit", IMPORT_IDLE, "off");
}

static bool import_method(struct importing *im)
{
    const char *adapter = import_get(im, "adapter");
    bool is_lora =
        adapter && (strcmp(adapter, "lora") == 0 || strcmp(adapter, "qlora") == 0);

    if (adapter && !is_lora && *adapter)
        return import_refuse(
            im, ERROR_JOB, import_find(im, "adapter")->value,
            "adapter: %s is not supported; use lora, qlora, or no adapter", adapter);
    import_set(im, "finetuning_type", is_lora ? "lora" : "full", NULL);
    import_mark_carried(im, "adapter", "finetuning_type");
    import_mxfp4(im);
    import_quantization(im, is_lora);
    if (is_lora) {
        import_copies(im, lora_copies, TS_COUNT(lora_copies));
        import_targets(im);
        import_initialization(im);
    }
    for (size_t i = 0; !is_lora && i < TS_COUNT(lora_copies); i++)
        import_mark_dropped(im, lora_copies[i].from, IMPORT_IDLE,
                            "no adapter is trained");
    import_mark_dropped(im, "lora_target_modules", IMPORT_IDLE, "no adapter is trained");
    import_mark_dropped(im, "lora_target_linear", IMPORT_IDLE,
                        is_lora ? "off" : "no adapter is trained");
    return !import_failed(im);
}

/* ---- precision and memory ---- */

static void import_16_bit(struct importing *im, const char *key, const char *to,
                          const char *note)
{
    import_set(im, to, "true", note);
    import_mark_carried(im, key, to);
}

/* Return whether the device decides on bf16, which is also Axolotl's default. */
static bool device_chooses_bf16(struct importing *im)
{
    const char *requested = import_get(im, "bf16");

    return !import_find_written(im, "bf16") ||
           (requested && strcmp(requested, "auto") == 0);
}

/* Without bf16, a job falls back to fp16, and so does Axolotl unless float16 is true or
 * fp16 is false.  (fp16: true would have taken precedence over bf16: auto.) */
static void report_fallback(struct importing *im)
{
    bool is_float16 = import_is_true(im, "float16");
    const char *why =
        is_float16
            ? "on a GPU without bf16, Axolotl uses pure float16; this job uses fp16 "
              "there, with trained weights in float32 and a loss scale"
            : "on a GPU without bf16, Axolotl uses float32, because fp16 is false; this "
              "job uses fp16 there, unless you set bf16: false";

    import_remark(im, "bf16", "%s", why);
    import_mark_dropped(im, is_float16 ? "float16" : "fp16", IMPORT_DIFFERS, "%s", why);
}

static const char *import_auto(struct importing *im)
{
    bool is_given = import_find_written(im, "bf16");
    bool is_other = import_find(im, "fp16") || import_is_true(im, "float16");

    import_set(im, "bf16", "auto",
               is_other ? "bf16 if the device supports it, as in Axolotl"
               : is_given
                   ? "bf16 if the device supports it, otherwise fp16, as in Axolotl"
                   : "Axolotl's default");
    if (is_other)
        report_fallback(im);
    import_mark_carried(im, "bf16", "bf16");
    return is_given ? "bf16" : "bf16 (auto by default)";
}

/* Choose in the same order as Axolotl: utils/config, resolve_dtype.  Return the key that
 * decides the format, for messages; NULL: none, which is float32. */
static const char *choose_precision(struct importing *im)
{
    const char *requested = import_get(im, "bf16");

    if (import_is_true(im, "bf16") || (requested && strcmp(requested, "full") == 0)) {
        import_16_bit(im, "bf16", "bf16", NULL);
        return "bf16";
    }
    if (import_is_true(im, "bfloat16")) {
        import_16_bit(
            im, "bfloat16", "bf16",
            "bfloat16 in Axolotl means bf16: true; trained weights stay in float32");
        return "bfloat16";
    }
    if (import_is_true(im, "fp16")) {
        import_16_bit(
            im, "fp16", "fp16",
            device_chooses_bf16(im)
                ? "on all devices, as in Axolotl 0.9.1 and later; earlier versions used "
                  "bf16 where supported"
                : NULL);
        return "fp16";
    }
    if (device_chooses_bf16(im))
        return import_auto(im);
    if (import_is_true(im, "float16")) {
        import_16_bit(im, "float16", "fp16",
                      "float16 in Axolotl: without a float32 copy and a loss scale");
        return "float16";
    }
    return NULL;
}

static void import_precision(struct importing *im)
{
    static const char *const keys[] = { "bf16", "fp16", "bfloat16", "float16",
                                        "float32" };
    const char *winner = choose_precision(im);
    const char *why = winner ? arena_printf(im->arena, "%s takes precedence", winner)
                             : "float32 is used anyway if bf16 and fp16 are off";
    bool is_full = !import_find(im, "adapter");

    for (size_t i = 0; i < TS_COUNT(keys); i++)
        import_mark_idle(im, keys[i], why);
    if (is_full && import_value(im, "bf16"))
        import_remark(
            im, "bf16",
            "trained weights and moments are in float32; on one GPU, Axolotl keeps them "
            "in bfloat16, as pure_bf16: true does");
    if (import_is_true(im, "tf32") || import_find(im, "tf32"))
        import_copy(im, "tf32", "tf32", NULL);
}

/* unsloth meant offload until c0a0c753, May 2025. */
static bool is_offload(const char *requested)
{
    static const char *const words[] = { "offload", "offload_disk", "unsloth" };

    for (size_t i = 0; requested && i < TS_COUNT(words); i++)
        if (strcmp(requested, words[i]) == 0)
            return true;
    return false;
}

static void import_checkpointing(struct importing *im)
{
    const char *requested = import_get(im, "gradient_checkpointing");

    if (is_offload(requested)) {
        import_set(
            im, "gradient_checkpointing", "true",
            arena_printf(
                im->arena,
                "%s in Axolotl; a job keeps checkpointed activations on the device",
                requested));
        import_mark_carried(im, "gradient_checkpointing", "gradient_checkpointing");
    } else if (requested) {
        import_copy(im, "gradient_checkpointing", "gradient_checkpointing", NULL);
    }
    if (import_is_true(im, "activation_offloading") &&
        !import_is_true(im, "gradient_checkpointing"))
        import_set(im, "gradient_checkpointing", "true",
                   "Axolotl offloads activations; this job recomputes them");
}

/* ---- optimizer and schedule ---- */

/* Its own names of optimizers: utils/schemas/enums.py, core/builders/base.py. */
static const struct {
    const char *name, *optim;
} optimizers[] = {
    { "lion_pytorch", "lion" },
    { "ao_adamw_8bit", "adamw_torch_8bit" },
    { "ao_adamw_4bit", "adamw_torch_4bit" },
};

static void import_optimizer(struct importing *im)
{
    const char *name = import_get(im, "optimizer");

    if (!name)
        return;
    for (size_t i = 0; i < TS_COUNT(optimizers); i++)
        if (strcmp(name, optimizers[i].name) == 0) {
            import_set(im, "optim", optimizers[i].optim, NULL);
            import_mark_carried(im, "optimizer", "optim");
            return;
        }
    if (strcmp(name, "muon") == 0) { /* Moonlight's, as LLaMA-Factory's */
        import_set(im, "use_muon", "true", NULL);
        import_mark_carried(im, "optimizer", "use_muon");
        return;
    }
    if (import_is_valid(im, "optim", name)) {
        import_copy(im, "optimizer", "optim", NULL);
        return;
    }
    import_set(im, "optim", "adamw_torch",
               "Axolotl's file has another optimizer: see below");
    import_mark_dropped(
        im, "optimizer", IMPORT_DIFFERS,
        "%s is not supported, and AdamW requires a different learning rate", name);
}

/* Axolotl's cosine schedule with a minimum: core/trainers/mixins/scheduler.py. */
static void import_min_lr(struct importing *im)
{
    double floor = import_number(im, "cosine_min_lr_ratio", 0);
    const char *kind = import_value(im, "lr_scheduler_type");
    bool is_cosine = !kind || strcmp(kind, "cosine") == 0;

    if (floor > 0 && is_cosine) {
        import_set(im, "lr_scheduler_type", "cosine_with_min_lr", NULL);
        import_set_yaml(
            im, "lr_scheduler_kwargs",
            arena_printf(im->arena, "{min_lr_rate: %s}", scalar_print(floor, im->arena)),
            "cosine_min_lr_ratio");
        import_mark_carried(im, "cosine_min_lr_ratio", "lr_scheduler_kwargs");
    } else {
        import_mark_dropped(im, "cosine_min_lr_ratio", IMPORT_IDLE,
                            floor > 0 ? "only for the cosine schedule" : "off");
    }
    if (import_number(im, "cosine_constant_lr_ratio", 0) > 0)
        import_mark_dropped(im, "cosine_constant_lr_ratio", IMPORT_DIFFERS,
                            "the learning rate decays until the last step");
    else
        import_mark_dropped(im, "cosine_constant_lr_ratio", IMPORT_IDLE, "off");
}

static const char *member(struct importing *im, const struct node *map, size_t at)
{
    const char *key = import_text(im, map->entries[at].key);
    const char *value = import_text(im, map->entries[at].value);

    if (!key || !value)
        return "";
    return arena_printf(im->arena, "%s%s: %s", at ? ", " : "",
                        import_yaml_inside(im->arena, key),
                        import_yaml_inside(im->arena, value));
}

static void import_schedule_kwargs(struct importing *im)
{
    const struct entry *entry = import_find(im, "lr_scheduler_kwargs");
    const struct node *map = entry ? node_value(entry->value) : NULL;
    const char *yaml = "";

    if (import_value(im, "lr_scheduler_kwargs"))
        import_mark_dropped(im, "lr_scheduler_kwargs", IMPORT_IDLE,
                            "cosine_min_lr_ratio takes precedence");
    if (!map || import_has_outcome(im, entry))
        return;
    if (map->kind != NODE_MAP) {
        import_refuse(im, ERROR_DATA, map, "lr_scheduler_kwargs must be a map");
        return;
    }
    for (size_t i = 0; i < map->count && !import_failed(im); i++)
        yaml = arena_printf(im->arena, "%s%s", yaml, member(im, map, i));
    if (map->count > 0)
        import_set_yaml(im, "lr_scheduler_kwargs", arena_printf(im->arena, "{%s}", yaml),
                        NULL);
    import_mark_carried(im, "lr_scheduler_kwargs", "lr_scheduler_kwargs");
}

static void import_warmup(struct importing *im)
{
    double steps = import_number(im, "warmup_steps", -1);

    if (steps > 0 && steps < 1) {
        import_set(im, "warmup_ratio", scalar_print(steps, im->arena),
                   "warmup_steps in the file: a value below 1 is a ratio");
        import_mark_carried(im, "warmup_steps", "warmup_ratio");
    } else if (steps >= 0) {
        import_copy(im, "warmup_steps", "warmup_steps", NULL);
    } else if (import_find(im, "warmup_ratio")) {
        import_copy(im, "warmup_ratio", "warmup_ratio", NULL);
    }
    if (steps >= 0)
        import_mark_dropped(im, "warmup_ratio", IMPORT_IDLE,
                            "warmup_steps takes precedence");
    if (!import_value(im, "warmup_steps") && !import_value(im, "warmup_ratio"))
        import_set(im, "warmup_ratio", "0.03",
                   "Axolotl's default, which is at most 100 steps");
}

static void import_schedule(struct importing *im)
{
    const char *name = import_get(im, "lr_scheduler");

    if (name && import_is_valid(im, "lr_scheduler_type", name)) {
        import_copy(im, "lr_scheduler", "lr_scheduler_type", NULL);
    } else if (name) {
        import_set(im, "lr_scheduler_type", "cosine",
                   "Axolotl's file has another schedule: see below");
        import_mark_dropped(im, "lr_scheduler", IMPORT_DIFFERS, "%s is not supported",
                            name);
    }
    import_min_lr(im);
    import_schedule_kwargs(im);
    import_warmup(im);
    if (import_find_written(im, "max_grad_norm") && !import_find(im, "max_grad_norm")) {
        import_set(im, "max_grad_norm", "1.0", "empty in Axolotl means 1.0");
        import_mark_carried(im, "max_grad_norm", "max_grad_norm");
    }
    if (import_find(im, "adam_eps"))
        import_mark_dropped(im, "adam_eps", IMPORT_DIFFERS,
                            "not a key of Axolotl; its name is adam_epsilon");
}

/* Keys that Axolotl refuses together (schemas/validation.py).  The job has the first. */
static const struct exclusive {
    const char *key, *other;
    const char *unless; /* the value of `other` that is allowed, or NULL */
} exclusives[] = {
    { "warmup_steps", "warmup_ratio", NULL },
    { "gradient_accumulation_steps", "batch_size", NULL },
    { "save_steps", "saves_per_epoch", NULL },
    { "save_steps", "save_strategy", "steps" },
    { "eval_steps", "evals_per_epoch", NULL },
    { "eval_steps", "eval_strategy", "steps" },
    { "evals_per_epoch", "eval_strategy", "steps" },
    { "test_datasets", "val_set_size", NULL },
    { "loraplus_lr_ratio", "lr_groups", NULL },
    { "neftune_noise_alpha", "noisy_embedding_alpha", NULL },
};

static bool is_on(const struct importing *im, const char *key)
{
    const struct entry *entry = import_find(im, key);

    return entry && !import_is_off(entry->value);
}

/* Say that Axolotl does not run the file either. */
static void import_exclusives(struct importing *im)
{
    for (size_t i = 0; i < TS_COUNT(exclusives); i++) {
        const struct exclusive *row = &exclusives[i];

        if (!is_on(im, row->key) || !is_on(im, row->other) ||
            (row->unless && text_equal(import_get(im, row->other), row->unless)))
            continue;
        import_mark_dropped(im, row->other, IMPORT_DIFFERS,
                            "Axolotl refuses a file with both %s and %s, so it does not "
                            "run there either; %s is kept",
                            row->key, row->other, row->key);
    }
}

bool import_axolotl(struct importing *im)
{
    if (!import_find(im, "base_model"))
        return import_refuse(im, ERROR_DATA, im->source->root,
                             "base_model is missing: this Axolotl file trains nothing");
    if (!refuse_kinds(im))
        return false;
    import_exclusives(im);
    import_model(im);
    import_axolotl_preference(im);
    import_axolotl_loss(im);
    if (import_failed(im) || !import_method(im))
        return false;
    import_axolotl_data(im);
    import_axolotl_media_template(im);
    import_precision(im);
    import_checkpointing(im);
    import_axolotl_batch(im);
    import_optimizer(im);
    import_schedule(im);
    import_axolotl_saving(im);
    import_axolotl_tokens(im);
    import_copies(im, copies, TS_COUNT(copies));
    for (size_t i = 0; i < TS_COUNT(default_values); i++)
        import_set_default(im, default_values[i].to, default_values[i].from,
                           default_values[i].note);
    import_groups(im, import_axolotl_groups, import_axolotl_group_count);
    return !import_failed(im);
}
