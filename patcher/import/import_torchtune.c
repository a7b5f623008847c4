/*
 * patcher/import/import_torchtune.c - convert a torchtune file to a job.
 *
 * Meaning of its keys: pytorch/torchtune at bd2a0fc7, recipes (keys and defaults),
 * torchtune/models (adapters, lengths), training (formats, schedules).  A recipe is
 * Python code named on the command line; the keys of the file show which one it is.
 */
#include "config.h"

#include "patcher/import/import_parts.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

#define NOT_HERE \
    "is not supported; a job is of stage sft, pt, distill or dpo and trains on text"

static const struct import_copy copies[] = {
    { "batch_size", "per_device_train_batch_size", NULL },
    { "gradient_accumulation_steps", "gradient_accumulation_steps", NULL },
    { "epochs", "num_train_epochs", NULL },
    { "seed", "seed", NULL },
    { "output_dir", "output_dir", NULL },
    { "log_every_n_steps", "logging_steps", NULL },
    { "enable_activation_checkpointing", "gradient_checkpointing", NULL },
    { "checkpointer.adapter_checkpoint", "adapter_name_or_path", NULL },
    { "checkpointer.keep_last_n_checkpoints", "save_total_limit", NULL },
    { "optimizer.lr", "learning_rate", NULL },
    { "optimizer.eps", "adam_epsilon", NULL },
    { "kd_ratio", "kd_ratio", NULL },
};

static const struct import_copy lora_copies[] = {
    { "model.lora_rank", "lora_rank", NULL },
    { "model.lora_alpha", "lora_alpha", NULL },
    { "model.lora_dropout", "lora_dropout", NULL },
};

/* torchtune's defaults where they differ from those of a job. */
static const struct import_copy default_values[] = {
    { "1", "per_device_train_batch_size", NULL },
    { "1", "num_train_epochs", NULL },
    { "false", "gradient_checkpointing", "torchtune's default; a job's default is true" },
    { "1", "logging_steps", NULL },
    { "epoch", "save_strategy", "torchtune saves after each epoch" },
    { "true", "dataloader_drop_last", "as in torchtune's loader" },
};

static const struct import_group groups[] = {
    { IMPORT_IDLE, "PyTorch's compiler changes speed, not results", "compile" },
    { IMPORT_IDLE, "trainspool has its own log, metrics.jsonl and report",
      "metric_logger log_level log_peak_memory_stats profiler debug_logging_enabled "
      "debug_num_samples_per_step name" },
    { IMPORT_IDLE, "multi-GPU settings; use trainspool: {ranks: N} instead",
      "fsdp* custom_sharded_layers tensor_parallel* data_parallel* context_parallel* "
      "memory_efficient_fsdp_wrap use_distributed_state_dict ac_mode ac_option" },
    { IMPORT_IDLE, "memory settings of PyTorch, which trainspool does not use",
      "enable_activation_offloading activation_offloading_use_streams low_cpu_ram "
      "enable_async_checkpointing optimizer_in_bwd cudnn_deterministic_mode" },
    { IMPORT_IDLE, "an adapter is always saved alone, without its base model",
      "save_adapter_weights_only" },
    { IMPORT_IDLE, "read from the model's config.json and tokenizer.json", "tokenizer" },
    { IMPORT_IDLE, "set by the keys that refer to it", "base_model_path" },
    { IMPORT_IDLE, "samples are packed without padding", "collate_fn" },
    { IMPORT_IDLE, "cross-entropy over the target tokens of a step, the same in a job",
      "loss" },
    { IMPORT_IDLE, "trainspool loads the data itself", "dataloader" },
    { IMPORT_DIFFERS, "trainspool never adds tokens to a model",
      "resize_token_embeddings" },
    { IMPORT_DIFFERS,
      "float8 is also experimental here: set fp8: true, on devices with compute "
      "capability 8.9 or higher",
      "enable_fp8_training fp8_recipe_name" },
    { IMPORT_DIFFERS, "training does not simulate quantization",
      "quantizer fake_quant_after_n_steps" },
    { IMPORT_DIFFERS, "dropping layers and early exit are not supported",
      "early_exit_loss layer_dropout" },
};

/* The longest sample of a model family, and the template of its tokenizer. */
static const struct family {
    const char *name;
    long longest;
    const char *template_name; /* NULL: not available */
} families[] = {
    { "llama2", 4096, "llama2" },     { "code_llama2", 16384, "llama2" },
    { "llama3", 8192, "llama3" },     { "llama3_1", 131072, "llama3" },
    { "llama3_2", 131072, "llama3" }, { "llama3_3", 131072, "llama3" },
    { "llama4", 1048576, NULL },      { "mistral", 32768, "mistral" },
    { "gemma", 8192, NULL },          { "gemma2", 8192, NULL },
    { "phi3", 4096, "phi" },          { "phi4", 16384, NULL },
    { "qwen2", 32768, "chatml" },     { "qwen2_5", 32768, "chatml" },
    { "qwen3", 32768, "chatml" },
};

/* Limit on the length taken from a family: longer samples are rare, but the memory is
 * reserved in any case. */
#define LONGEST_TAKEN 4096

/* Return the last word, as in "torchtune.models.llama3_2.lora_llama3_2_1b". */
static const char *last_word(const char *component)
{
    const char *dot = component ? strrchr(component, '.') : NULL;

    return dot ? dot + 1 : component ? component : "";
}

const char *import_torchtune_component(struct importing *im, const char *path)
{
    return last_word(import_get(im, arena_printf(im->arena, "%s._component_", path)));
}

static const struct family *family_of(struct importing *im)
{
    const char *model = import_get(im, "model._component_");

    for (size_t i = 0; model && i < TS_COUNT(families); i++)
        if (strstr(model, arena_printf(im->arena, ".%s.", families[i].name)))
            return &families[i];
    return NULL;
}

/* ---- unsupported kinds of training ---- */

static bool has_word(const struct importing *im, const char *path, const char *word)
{
    const struct entry *entry = import_find(im, path);

    return entry && strstr(node_value(entry->value)->text, word);
}

/* Preference losses that stage dpo has, and the position of their beta:
 * torchtune/rlhf/loss/dpo.py. */
static const struct pair_loss {
    const char *component, *here, *beta;
} pair_losses[] = {
    { "DPOLoss", "sigmoid", "loss.beta" },
    { "RSOLoss", "hinge", "loss.gamma" },
};

/* Find the file's loss in the table; NULL: another loss. */
static const struct pair_loss *pair_loss_of(struct importing *im)
{
    const char *component = import_torchtune_component(im, "loss");

    for (size_t i = 0; i < TS_COUNT(pair_losses); i++)
        if (strcmp(component, pair_losses[i].component) == 0)
            return &pair_losses[i];
    return NULL;
}

struct kind {
    const char *key, *word, *what;
    enum error_code code;
};

static bool refuse_any(struct importing *im, const struct kind *kinds, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct entry *entry = import_find(im, kinds[i].key);

        if (entry && (!kinds[i].word[0] || has_word(im, kinds[i].key, kinds[i].word)))
            return import_refuse(im, kinds[i].code, entry->key, "%s: %s%s", kinds[i].key,
                                 kinds[i].what,
                                 kinds[i].code == ERROR_JOB ? " " NOT_HERE : "");
    }
    return true;
}

/* The presence of each of these keys shows the purpose of the recipe. */
static bool refuse_kinds(struct importing *im)
{
    static const struct kind kinds[] = {
        { "tasks", "", "this evaluates a model and trains nothing", ERROR_DATA },
        { "prompt", "", "this generates text and trains nothing", ERROR_DATA },
        { "reward_checkpointer", "", "training on rewards", ERROR_JOB },
        { "policy_model", "", "training on rewards", ERROR_JOB },
        { "orchestration", "", "training on rewards", ERROR_JOB },
        { "loss._component_", "GRPO", "training on rewards", ERROR_JOB },
        { "dataset._component_", "multimodal", "training on images", ERROR_JOB },
        { "collate_fn", "images", "training on images", ERROR_JOB },
        { "model._component_", "vision", "training on images", ERROR_JOB },
    };
    static const struct kind without_adapter[] = {
        /* unless the loss is in pair_losses */
        { "ref_checkpointer", "", "training on preferences or rewards", ERROR_JOB },
        { "loss._component_", "rlhf", "training on preferences or rewards", ERROR_JOB },
    };

    if (!refuse_any(im, kinds, TS_COUNT(kinds)) ||
        (!pair_loss_of(im) &&
         !refuse_any(im, without_adapter, TS_COUNT(without_adapter))))
        return false;
    if (import_find(im, "optimizer") && import_find(im, "model"))
        return true;
    if (import_find(im, "quantizer"))
        return import_refuse(im, ERROR_DATA, import_find(im, "quantizer")->key,
                             "quantizer: this quantizes a model and trains nothing");
    return import_refuse(
        im, ERROR_DATA, im->source->root,
        "model or optimizer is missing: this torchtune file trains nothing");
}

/* ---- model and method ---- */

static const char *without_slash(struct arena *arena, const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    return arena_copy(arena, path, len);
}

static void import_files(struct importing *im, const char *checkpointer)
{
    const char *key = arena_printf(im->arena, "%s.checkpoint_files", checkpointer);
    const struct entry *files = import_find(im, key);
    const struct node *list = files ? node_value(files->value) : NULL;
    const struct node *first =
        list && list->kind == NODE_LIST && list->count > 0 ? list->items[0] : NULL;

    if (first && !strstr(node_value(first)->text, ".safetensors"))
        import_left(
            im, key, IMPORT_DIFFERS,
            "only *.safetensors are read; convert other files with save_pretrained of "
            "transformers");
    else
        import_left(im, key, IMPORT_IDLE, "all *.safetensors of the folder are read");
}

static void import_checkpointer(struct importing *im, const char *checkpointer,
                                const char *to)
{
    static const char *const idle[] = {
        "_component_",       "model_type",         "output_dir",
        "recipe_checkpoint", "safe_serialization", "should_load_recipe_state"
    };
    const char *path = arena_printf(im->arena, "%s.checkpoint_dir", checkpointer);
    const char *folder = import_get(im, path);

    if (!folder) {
        import_refuse(im, ERROR_DATA,
                      import_find(im, checkpointer) ? import_find(im, checkpointer)->key
                                                    : im->source->root,
                      "%s is missing: it must name the model's folder", path);
        return;
    }
    import_set(im, to, without_slash(im->arena, folder), NULL);
    import_took(im, path, to);
    import_files(im, checkpointer);
    for (size_t i = 0; i < TS_COUNT(idle); i++)
        import_left(im, arena_printf(im->arena, "%s.%s", checkpointer, idle[i]),
                    IMPORT_IDLE,
                    "set by the model's folder, output_dir and resume_from_checkpoint");
}

/* torchtune's names of layers, and those in Hugging Face's files. */
static const struct layer {
    const char *name, *hub;
    const char *fused; /* in the files of Phi-3 and Phi-4 */
    bool is_mlp;
} layers[] = {
    { "q_proj", "q_proj", "qkv_proj", false },
    { "k_proj", "k_proj", "qkv_proj", false },
    { "v_proj", "v_proj", "qkv_proj", false },
    { "output_proj", "o_proj", "o_proj", false },
    { "gate_proj", "gate_proj", "gate_up_proj", true },
    { "up_proj", "up_proj", "gate_up_proj", true },
    { "down_proj", "down_proj", "down_proj", true },
};

static bool is_phi(struct importing *im)
{
    const struct family *family = family_of(im);

    return family && strncmp(family->name, "phi", 3) == 0;
}

static const char *hub_layer(const char *name, bool fused)
{
    for (size_t i = 0; i < TS_COUNT(layers); i++)
        if (strcmp(layers[i].name, name) == 0)
            return fused ? layers[i].fused : layers[i].hub;
    return name;
}

/* Return whether a name is in a comma-separated list. */
static bool is_listed(const char *names, const char *name)
{
    while (*names) {
        size_t len = strcspn(names, ",");

        if (len == strlen(name) && strncmp(names, name, len) == 0)
            return true;
        names += len + (names[len] == ',');
    }
    return false;
}

static const char *and_layer(struct arena *arena, const char *names, const char *name)
{
    if (is_listed(names, name))
        return names;
    return arena_printf(arena, "%s%s%s", names, *names ? "," : "", name);
}

/* Report which of torchtune's layers share an adapter, and which get one that torchtune
 * does not give them. */
static void report_fused(struct importing *im, const char *requested, const char *names)
{
    const char *without_adapter = "";

    for (size_t i = 0; i < TS_COUNT(layers); i++)
        if (strcmp(layers[i].fused, "qkv_proj") == 0 &&
            !is_listed(requested, layers[i].name))
            without_adapter =
                arena_printf(im->arena, "%s%s%s", without_adapter,
                             *without_adapter ? " and " : "", layers[i].name);
    if (is_listed(names, "qkv_proj"))
        import_remark(im, "lora_target",
                      "q_proj, k_proj and v_proj are one layer in this model's files, "
                      "qkv_proj: they share one adapter%s%s%s",
                      *without_adapter ? "; torchtune leaves " : "", without_adapter,
                      *without_adapter ? " without one" : "");
    if (is_listed(names, "gate_up_proj"))
        import_remark(
            im, "lora_target",
            "gate_proj and up_proj are one layer in this model's files, gate_up_proj: "
            "they share one adapter");
}

static void import_targets(struct importing *im)
{
    const struct entry *entry = import_find(im, "model.lora_attn_modules");
    const struct node *list = entry ? node_value(entry->value) : NULL;
    const char *requested = "", *names = "";
    bool fused = is_phi(im);

    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++) {
        const char *name = import_text(im, list->items[i]);

        if (!name)
            return;
        requested = and_layer(im->arena, requested, name);
        names = and_layer(im->arena, names, hub_layer(name, fused));
    }
    import_took(im, "model.lora_attn_modules", "lora_target");
    for (size_t i = 0; i < TS_COUNT(layers); i++)
        if (layers[i].is_mlp && import_is_true(im, "model.apply_lora_to_mlp"))
            names = and_layer(im->arena, names, hub_layer(layers[i].name, fused));
    import_took(im, "model.apply_lora_to_mlp", "lora_target");
    if (import_is_true(im, "model.apply_lora_to_output"))
        import_left(
            im, "model.apply_lora_to_output", IMPORT_DIFFERS,
            "the output layer cannot have an adapter; additional_target: lm_head trains "
            "it completely");
    import_left(im, "model.apply_lora_to_output", IMPORT_IDLE, "off");
    import_set(im, "lora_target", *names ? names : "all",
               *names ? NULL : "torchtune's file does not name layers");
    if (fused)
        report_fused(im, requested, names);
}

static void import_lora(struct importing *im, bool is_quantised)
{
    import_set(im, "finetuning_type", "lora", NULL);
    if (is_quantised)
        import_set(
            im, "quantization_bit", "4",
            "torchao's NF4 in torchtune: 4 bits too, with different rounding of scales");
    import_copies(im, lora_copies, TS_COUNT(lora_copies));
    import_preset(im, "lora_rank", "8", NULL);
    import_preset(im, "lora_alpha", "16", "torchtune's default for any rank");
    import_targets(im);
    if (import_is_true(im, "model.use_dora"))
        import_left(im, "model.use_dora", IMPORT_DIFFERS, "plain LoRA is trained");
    if (import_is_true(im, "model.quantize_base"))
        import_took(im, "model.quantize_base", "quantization_bit");
}

static void import_model(struct importing *im)
{
    const char *model = import_torchtune_component(im, "model");
    bool is_quantised =
        strncmp(model, "qlora_", 6) == 0 || import_is_true(im, "model.quantize_base");
    bool is_lora = strncmp(model, "lora_", 5) == 0 || strncmp(model, "qlora_", 6) == 0 ||
                   import_find(im, "model.lora_attn_modules");
    const struct entry *entry = import_find(im, "model");
    const struct node *map = entry ? node_value(entry->value) : NULL;

    import_checkpointer(im, "checkpointer", "model_name_or_path");
    if (import_failed(im))
        return;
    if (is_lora)
        import_lora(im, is_quantised);
    else
        import_set(im, "finetuning_type", "full", NULL);
    import_took(im, "model._component_", "finetuning_type");
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        import_note(
            im, &map->entries[i],
            &(struct import_key) {
                .name = arena_printf(im->arena, "model.%s", map->entries[i].key->text),
                .fate = IMPORT_IDLE,
                .why = import_is_off(map->entries[i].value)
                           ? "off"
                           : "read from the model's config.json and tokenizer.json" });
}

static void import_teacher(struct importing *im)
{
    static const struct loss {
        const char *word, *beta;
    } losses[] = { { "ForwardKL", "0.0" }, { "ReverseKL", "1.0" } };
    const char *kd = import_torchtune_component(im, "kd_loss");

    import_set(im, "stage", "distill", NULL);
    import_checkpointer(im, "teacher_checkpointer", "teacher_model_name_or_path");
    import_preset(im, "kd_ratio", "0.5", "torchtune's default");
    for (size_t i = 0; i < TS_COUNT(losses); i++)
        if (strncmp(kd, losses[i].word, strlen(losses[i].word)) == 0) {
            import_set(im, "kd_beta", losses[i].beta, kd);
            import_took(im, "kd_loss", "kd_beta");
        }
    import_left(im, "kd_loss", IMPORT_DIFFERS,
                "see kd_beta: 0 is forward KL, 1 is reverse KL, values between are JSD");
    import_left(im, "teacher_model", IMPORT_IDLE,
                "read from the model's config.json and tokenizer.json");
}

/* A job without ref_model takes the initial state of the trained model. */
static void import_reference(struct importing *im)
{
    const char *model = import_get(im, "checkpointer.checkpoint_dir");
    const char *reference = import_get(im, "ref_checkpointer.checkpoint_dir");
    bool is_same =
        model && reference &&
        strcmp(without_slash(im->arena, model), without_slash(im->arena, reference)) == 0;

    if (!import_find(im, "ref_checkpointer"))
        return;
    if (is_same)
        import_left(im, "ref_checkpointer.checkpoint_dir", IMPORT_IDLE,
                    "the model itself is the default reference");
    import_checkpointer(im, "ref_checkpointer", "ref_model");
    if (is_same)
        import_set_yaml(im, "ref_model", NULL, NULL);
}

/* Report lora_dropout, which stage dpo does not use. */
static void report_dropout(struct importing *im)
{
    bool is_on = import_number(im, "model.lora_dropout", 0) > 0;

    import_left(im, "model.lora_dropout", is_on ? IMPORT_DIFFERS : IMPORT_IDLE,
                is_on ? "dropout is off in preference training" : "off");
}

/* beta defaults to 0.1 in torchtune and in a job. */
static void import_preference(struct importing *im, const struct pair_loss *loss)
{
    import_set(im, "stage", "dpo", NULL);
    import_set(im, "pref_loss", loss->here, loss->component);
    import_took(im, "loss._component_", "pref_loss");
    if (import_find(im, loss->beta))
        import_copy(im, loss->beta, "pref_beta", NULL);
    if (import_number(im, "loss.label_smoothing", 0) > 0)
        import_copy(im, "loss.label_smoothing", "dpo_label_smoothing", NULL);
    import_idle(im, "loss.label_smoothing", "off");
    import_took(im, "loss", "pref_loss");
    import_reference(im);
}

/* ---- precision and memory ---- */

/* dtype is the format of weights, gradients and moments: recipes,
 * full_finetune_single_device. */
static void import_precision(struct importing *im)
{
    const char *dtype = import_get(im, "dtype");

    if (dtype && (strcmp(dtype, "bf16") == 0 || strcmp(dtype, "bfloat16") == 0)) {
        import_set(im, "pure_bf16", "true", NULL);
        import_remark(
            im, "pure_bf16",
            "dtype: bf16 in torchtune is also the format of trained weights and moments; "
            "bf16: true would keep those in float32, which is more accurate and takes 8 "
            "more bytes per weight");
        import_took(im, "dtype", "pure_bf16");
    } else if (dtype && (strcmp(dtype, "fp32") == 0 || strcmp(dtype, "float32") == 0)) {
        import_set(im, "bf16", "false", "dtype: fp32");
        import_took(im, "dtype", "bf16");
    } else if (dtype) {
        import_refuse(im, ERROR_JOB, import_find(im, "dtype")->value,
                      "dtype must be bf16 or fp32, not %s", dtype);
    }
    if (has_word(im, "device", "cpu")) {
        import_set(im, "use_cpu", "true", NULL);
        import_took(im, "device", "use_cpu");
    }
    import_left(im, "device", IMPORT_IDLE, "a GPU is used if there is one");
}

/* ---- length ---- */

static void import_length(struct importing *im)
{
    const struct family *family = family_of(im);
    long longest = family ? family->longest : 0;

    if (import_copy(im, "tokenizer.max_seq_len", "cutoff_len", NULL))
        return;
    if (import_failed(im))
        return;
    import_set(im, "cutoff_len",
               longest > 0 && longest < LONGEST_TAKEN
                   ? arena_printf(im->arena, "%ld", longest)
                   : arena_printf(im->arena, "%d", LONGEST_TAKEN),
               NULL);
    if (longest == 0 || longest > LONGEST_TAKEN)
        import_remark(
            im, "cutoff_len",
            "torchtune does not truncate here (tokenizer.max_seq_len is empty); raise "
            "this value if samples are longer%s%s",
            longest ? ", up to " : "",
            longest ? arena_printf(im->arena, "%ld", longest) : "");
}

static void import_several(struct importing *im)
{
    static const char *const marks[] = { "fsdp_cpu_offload", "custom_sharded_layers",
                                         "tensor_parallel_dim", "data_parallel_shard_dim",
                                         "fsdp" };

    for (size_t i = 0; i < TS_COUNT(marks); i++)
        if (import_written(im, marks[i])) {
            import_remark(
                im, "per_device_train_batch_size",
                "per GPU: for N GPUs, add trainspool: {ranks: N}; a step then has N "
                "times as many samples");
            return;
        }
}

/* ---- arguments ---- */

/* Arguments of components that a job does not require. */
static const struct argument {
    const char *path, *why;
} idle_arguments[] = {
    { "loss.num_output_chunks",
      "memory settings of PyTorch, which trainspool does not use" },
    { "loss.ignore_index", "trainspool marks tokens without loss in its own way" },
    { "loss.mask_ignored_tokens", "tokens without loss take no time anyway" },
    { "loss.tp_enabled", "multi-GPU settings" },
    { "lr_scheduler.num_training_steps", "the recipe counts the steps itself" },
    { "lr_scheduler.last_epoch", "the recipe counts the steps itself" },
};

/* Every key next to a _component_ is passed to it as an argument, whether or not a recipe
 * knows it: torchtune/config/_instantiate.py. */
static void record_arguments(struct importing *im, const char *path)
{
    const struct entry *entry = import_find(im, path);
    const struct node *map = entry ? node_value(entry->value) : NULL;
    const char *component = import_torchtune_component(im, path);

    if (!map || map->kind != NODE_MAP || import_is_noted(im, entry))
        return;
    for (size_t i = 0; i < map->count; i++) {
        const char *key = map->entries[i].key->text;
        const char *name = arena_printf(im->arena, "%s.%s", path, key);

        if (node_is_null(map->entries[i].value))
            import_left(im, name, IMPORT_IDLE, "empty");
        else if (strcmp(key, "_component_") != 0)
            import_left(im, name, IMPORT_DIFFERS,
                        "torchtune passes it to %s; a job has no such setting",
                        *component ? component : path);
    }
}

static void import_arguments(struct importing *im)
{
    static const char *const components[] = {
        "optimizer",    "lr_scheduler",         "loss",
        "checkpointer", "teacher_checkpointer", "ref_checkpointer"
    };

    for (size_t i = 0; i < TS_COUNT(idle_arguments); i++)
        import_idle(im, idle_arguments[i].path, idle_arguments[i].why);
    for (size_t i = 0; i < TS_COUNT(components); i++)
        record_arguments(im, components[i]);
}

bool import_torchtune(struct importing *im)
{
    if (!refuse_kinds(im))
        return false;
    if (pair_loss_of(im))
        report_dropout(im);
    import_model(im);
    if (import_failed(im))
        return false;
    if (import_find(im, "teacher_checkpointer"))
        import_teacher(im);
    if (pair_loss_of(im))
        import_preference(im, pair_loss_of(im));
    import_torchtune_data(im);
    import_precision(im);
    import_length(im);
    if (import_failed(im))
        return false;
    import_torchtune_training(im);
    import_several(im);
    import_copies(im, copies, TS_COUNT(copies));
    for (size_t i = 0; i < TS_COUNT(default_values); i++)
        import_preset(im, default_values[i].to, default_values[i].from,
                      default_values[i].note);
    import_arguments(im);
    import_groups(im, groups, TS_COUNT(groups));
    return !import_failed(im);
}
