/*
 * patcher/import/import_torchtune.c - convert a torchtune file to a job.
 *
 * Meaning of its keys: pytorch/torchtune at bd2a0fc7, recipes (keys and defaults),
 * torchtune/models (adapters, lengths), training (formats, schedules).  A recipe is
 * Python code named on the command line; the keys of the file show which one it is.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

#define UNSUPPORTED \
    "is not supported; supported stages are sft, pt, distill, dpo, kto and grpo"

/* torchtune/dev/grpo/rewards.py, dev/rl/rewards.py */
#define REWARDS                                                                           \
    "the rewards of this recipe are functions in Python, which are not supported; a job " \
    "with stage: grpo has the rewards answer, format, pattern and length, which `man "    \
    "trainspool-job` describes under REINFORCEMENT"

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

/* ---- unsupported kinds of training ---- */

static bool has_word(const struct importing *im, const char *path, const char *word)
{
    const struct entry *entry = import_find(im, path);

    return entry && strstr(node_value(entry->value)->text, word);
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
            return import_refuse(
                im, kinds[i].code, entry->key, "%s: %s%s", kinds[i].key, kinds[i].what,
                kinds[i].code == ERROR_JOB && !strstr(kinds[i].what, "not supported")
                    ? " " UNSUPPORTED
                    : "");
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
        { "orchestration", "", REWARDS, ERROR_JOB },
        { "loss._component_", "GRPO", REWARDS, ERROR_JOB },
    };
    static const struct kind of_images[] = {
        { "dataset._component_", "multimodal", "training on images", ERROR_JOB },
        { "collate_fn", "images", "training on images", ERROR_JOB },
        { "model._component_", "vision", "training on images", ERROR_JOB },
    };
    static const struct kind other_kinds[] = {
        /* unless stage dpo has the loss */
        { "ref_checkpointer", "", "training on preferences or rewards", ERROR_JOB },
        { "loss._component_", "rlhf", "training on preferences or rewards", ERROR_JOB },
    };

    if (!refuse_any(im, kinds, TS_COUNT(kinds)) ||
        (!import_torchtune_is_vision(im) &&
         !refuse_any(im, of_images, TS_COUNT(of_images))) ||
        (!import_torchtune_is_preference(im) &&
         !refuse_any(im, other_kinds, TS_COUNT(other_kinds))))
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

/* ---- precision and memory ---- */

/* dtype is the format of weights, gradients and moments: recipes,
 * full_finetune_single_device. */
static void import_precision(struct importing *im)
{
    const char *dtype = import_get(im, "dtype");
    const bool is_bf16 =
        dtype && (strcmp(dtype, "bf16") == 0 || strcmp(dtype, "bfloat16") == 0);

    if (is_bf16 && import_value(im, "freeze_vision_tower")) {
        import_set(im, "bf16", "true",
                   "dtype: bf16; a job that trains an encoder keeps what it trains in "
                   "float32, which is more accurate");
        import_mark_carried(im, "dtype", "bf16");
    } else if (is_bf16) {
        import_set(im, "pure_bf16", "true", NULL);
        import_remark(
            im, "pure_bf16",
            "dtype: bf16 in torchtune is also the format of trained weights and moments; "
            "bf16: true would keep those in float32, which is more accurate and takes 8 "
            "more bytes per weight");
        import_mark_carried(im, "dtype", "pure_bf16");
    } else if (dtype && (strcmp(dtype, "fp32") == 0 || strcmp(dtype, "float32") == 0)) {
        import_set(im, "bf16", "false", "dtype: fp32");
        import_mark_carried(im, "dtype", "bf16");
    } else if (dtype) {
        import_refuse(im, ERROR_JOB, import_find(im, "dtype")->value,
                      "dtype must be bf16 or fp32, not %s", dtype);
    }
    if (has_word(im, "device", "cpu")) {
        import_set(im, "use_cpu", "true", NULL);
        import_mark_carried(im, "device", "use_cpu");
    }
    import_mark_dropped(im, "device", IMPORT_IDLE, "a GPU is used if there is one");
}

static void report_multi_gpu(struct importing *im)
{
    static const char *const marks[] = { "fsdp_cpu_offload", "custom_sharded_layers",
                                         "tensor_parallel_dim", "data_parallel_shard_dim",
                                         "fsdp" };

    for (size_t i = 0; i < TS_COUNT(marks); i++)
        if (import_find_written(im, marks[i])) {
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

    if (!map || map->kind != NODE_MAP || import_has_outcome(im, entry))
        return;
    for (size_t i = 0; i < map->count; i++) {
        const char *key = map->entries[i].key->text;
        const char *name = arena_printf(im->arena, "%s.%s", path, key);

        if (node_is_null(map->entries[i].value))
            import_mark_dropped(im, name, IMPORT_IDLE, "empty");
        else if (strcmp(key, "_component_") != 0)
            import_mark_dropped(im, name, IMPORT_DIFFERS,
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
        import_mark_idle(im, idle_arguments[i].path, idle_arguments[i].why);
    for (size_t i = 0; i < TS_COUNT(components); i++)
        record_arguments(im, components[i]);
}

bool import_torchtune(struct importing *im)
{
    if (!refuse_kinds(im))
        return false;
    if (!import_torchtune_model(im))
        return false;
    import_torchtune_data(im);
    import_precision(im);
    import_torchtune_length(im);
    if (import_failed(im))
        return false;
    import_torchtune_training(im);
    report_multi_gpu(im);
    import_copies(im, copies, TS_COUNT(copies));
    for (size_t i = 0; i < TS_COUNT(default_values); i++)
        import_set_default(im, default_values[i].to, default_values[i].from,
                           default_values[i].note);
    import_arguments(im);
    import_groups(im, groups, TS_COUNT(groups));
    return !import_failed(im);
}
