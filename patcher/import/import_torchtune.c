/*
 * patcher/import/import_torchtune.c - a torchtune file as a job.
 *
 * What its keys mean: pytorch/torchtune at bd2a0fc7, recipes (which keys are read, and
 * what they are where they are not given), torchtune/models (adapters, lengths), training
 * (formats, schedules).  A recipe is Python that is named on the command line; the file
 * tells which by what it has.
 */
#include "config.h"

#include "patcher/import/import_parts.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/scalar.h"

#define NOT_HERE "is not done here, only stages sft, pt, distill and dpo of text"

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

/* What is not given means this, and a job's own default is another. */
static const struct import_copy default_values[] = {
    { "1", "per_device_train_batch_size", NULL },
    { "1", "num_train_epochs", NULL },
    { "false", "gradient_checkpointing", "on in a job, if nothing is said" },
    { "1", "logging_steps", NULL },
    { "epoch", "save_strategy", "torchtune saves after each epoch" },
    { "true", "dataloader_drop_last", "as torchtune's loader does" },
};

static const struct import_group groups[] = {
    { IMPORT_IDLE, "PyTorch's compiler: speed, not results", "compile" },
    { IMPORT_IDLE, "the job has this program's own log, metrics.jsonl and report",
      "metric_logger log_level log_peak_memory_stats profiler debug_logging_enabled "
      "debug_num_samples_per_step name" },
    { IMPORT_IDLE, "how several GPUs share the work; here trainspool: {ranks: N} does",
      "fsdp* custom_sharded_layers tensor_parallel* data_parallel* context_parallel* "
      "memory_efficient_fsdp_wrap use_distributed_state_dict ac_mode ac_option" },
    { IMPORT_IDLE, "memory of PyTorch, which has no part in this",
      "enable_activation_offloading activation_offloading_use_streams low_cpu_ram "
      "enable_async_checkpointing optimizer_in_bwd cudnn_deterministic_mode" },
    { IMPORT_IDLE, "an adapter is always saved alone, beside its base",
      "save_adapter_weights_only" },
    { IMPORT_IDLE, "config.json and tokenizer.json of the model say it", "tokenizer" },
    { IMPORT_IDLE, "other keys of the file say it, where it is used", "base_model_path" },
    { IMPORT_IDLE, "samples are laid one after another, without padding", "collate_fn" },
    { IMPORT_IDLE, "cross-entropy over the target tokens of a step, as here", "loss" },
    { IMPORT_IDLE, "data is loaded by the program itself", "dataloader" },
    { IMPORT_DIFFERS, "tokens are never added to a model here",
      "resize_token_embeddings" },
    { IMPORT_DIFFERS,
      "float8 is an experiment here too: fp8: true, on devices from 8.9 on",
      "enable_fp8_training fp8_recipe_name" },
    { IMPORT_DIFFERS, "the model is trained without imitating the quantised one",
      "quantizer fake_quant_after_n_steps" },
    { IMPORT_DIFFERS, "dropping layers and leaving early are not done here",
      "early_exit_loss layer_dropout" },
};

/* The longest sample of a family's builders, and the template of its tokenizer. */
static const struct family {
    const char *name;
    long longest;
    const char *template_name; /* NULL: none here */
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

/* Longer samples are rare, and each costs memory whether there are any or not. */
#define LONGEST_TAKEN 4096

/* "torchtune.models.llama3_2.lora_llama3_2_1b": the last word. */
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

/* ---- what cannot be a job ---- */

static bool has_word(const struct importing *im, const char *path, const char *word)
{
    const struct entry *entry = import_find(im, path);

    return entry && strstr(node_value(entry->value)->text, word);
}

/* Losses on pairs of answers that stage dpo has, and where their beta is:
 * torchtune/rlhf/loss/dpo.py. */
static const struct pair_loss {
    const char *component, *here, *beta;
} pair_losses[] = {
    { "DPOLoss", "sigmoid", "loss.beta" },
    { "RSOLoss", "hinge", "loss.gamma" },
};

/* NULL: the file has another. */
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

/* Each of these says what the recipe is for. */
static bool refuse_kinds(struct importing *im)
{
    static const struct kind kinds[] = {
        { "tasks", "", "this is an evaluation, and trains nothing", ERROR_DATA },
        { "prompt", "", "this generates text, and trains nothing", ERROR_DATA },
        { "reward_checkpointer", "", "training on rewards", ERROR_JOB },
        { "policy_model", "", "training on rewards", ERROR_JOB },
        { "orchestration", "", "training on rewards", ERROR_JOB },
        { "loss._component_", "GRPO", "training on rewards", ERROR_JOB },
        { "dataset._component_", "multimodal", "training on images", ERROR_JOB },
        { "collate_fn", "images", "training on images", ERROR_JOB },
        { "model._component_", "vision", "training on images", ERROR_JOB },
    };
    static const struct kind others[] = {
        /* than those of pair_losses */
        { "ref_checkpointer", "", "training on preferences or rewards", ERROR_JOB },
        { "loss._component_", "rlhf", "training on preferences or rewards", ERROR_JOB },
    };

    if (!refuse_any(im, kinds, TS_COUNT(kinds)) ||
        (!pair_loss_of(im) && !refuse_any(im, others, TS_COUNT(others))))
        return false;
    if (import_find(im, "optimizer") && import_find(im, "model"))
        return true;
    if (import_find(im, "quantizer"))
        return import_refuse(im, ERROR_DATA, import_find(im, "quantizer")->key,
                             "quantizer: this quantises a model, and trains nothing");
    return import_refuse(im, ERROR_DATA, im->source->root,
                         "there is no model with an optimizer: this file of torchtune "
                         "trains nothing");
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
        import_left(im, key, IMPORT_DIFFERS,
                    "only *.safetensors are read: save_pretrained of transformers "
                    "writes them of other files");
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
                      "%s is missing: which model is trained?", path);
        return;
    }
    import_set(im, to, without_slash(im->arena, folder), NULL);
    import_took(im, path, to);
    import_files(im, checkpointer);
    for (size_t i = 0; i < TS_COUNT(idle); i++)
        import_left(im, arena_printf(im->arena, "%s.%s", checkpointer, idle[i]),
                    IMPORT_IDLE,
                    "the model's folder, output_dir and resume_from_checkpoint say it");
}

/* torchtune's names of layers, as Hugging Face's files have them. */
static const struct layer {
    const char *name, *hub;
    const char *fused; /* in those of Phi-3 and Phi-4 */
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

/* Is a name one of those with commas between? */
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

/* Which layers of torchtune's share an adapter, and which have one unasked. */
static void tell_fused(struct importing *im, const char *asked, const char *names)
{
    const char *others = "";

    for (size_t i = 0; i < TS_COUNT(layers); i++)
        if (strcmp(layers[i].fused, "qkv_proj") == 0 && !is_listed(asked, layers[i].name))
            others = arena_printf(im->arena, "%s%s%s", others, *others ? " and " : "",
                                  layers[i].name);
    if (is_listed(names, "qkv_proj"))
        import_remark(im, "lora_target",
                      "q_proj, k_proj and v_proj are one layer in this model's files, "
                      "qkv_proj: they share one adapter%s%s%s",
                      *others ? ", " : "", others,
                      *others ? " too, which torchtune leaves without one" : "");
    if (is_listed(names, "gate_up_proj"))
        import_remark(im, "lora_target",
                      "gate_proj and up_proj are one layer there, gate_up_proj: they "
                      "share one adapter");
}

static void import_targets(struct importing *im)
{
    const struct entry *entry = import_find(im, "model.lora_attn_modules");
    const struct node *list = entry ? node_value(entry->value) : NULL;
    const char *asked = "", *names = "";
    bool fused = is_phi(im);

    for (size_t i = 0; list && list->kind == NODE_LIST && i < list->count; i++) {
        const char *name = import_text(im, list->items[i]);

        if (!name)
            return;
        asked = and_layer(im->arena, asked, name);
        names = and_layer(im->arena, names, hub_layer(name, fused));
    }
    import_took(im, "model.lora_attn_modules", "lora_target");
    for (size_t i = 0; i < TS_COUNT(layers); i++)
        if (layers[i].is_mlp && import_is_true(im, "model.apply_lora_to_mlp"))
            names = and_layer(im->arena, names, hub_layer(layers[i].name, fused));
    import_took(im, "model.apply_lora_to_mlp", "lora_target");
    if (import_is_true(im, "model.apply_lora_to_output"))
        import_left(im, "model.apply_lora_to_output", IMPORT_DIFFERS,
                    "the output layer gets no adapter here; additional_target: lm_head "
                    "trains it whole");
    import_left(im, "model.apply_lora_to_output", IMPORT_IDLE, "off");
    import_set(im, "lora_target", *names ? names : "all",
               *names ? NULL : "torchtune was not told which");
    if (fused)
        tell_fused(im, asked, names);
}

static void import_lora(struct importing *im, bool is_quantised)
{
    import_set(im, "finetuning_type", "lora", NULL);
    if (is_quantised)
        import_set(im, "quantization_bit", "4",
                   "torchao's NF4 there: as many bits, scales rounded otherwise");
    import_copies(im, lora_copies, TS_COUNT(lora_copies));
    import_preset(im, "lora_rank", "8", NULL);
    import_preset(im, "lora_alpha", "16", "torchtune's preset, whatever the rank");
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
                           : "config.json and tokenizer.json of the model say it" });
}

static void import_teacher(struct importing *im)
{
    static const struct loss {
        const char *word, *beta;
    } losses[] = { { "ForwardKL", "0.0" }, { "ReverseKL", "1.0" } };
    const char *kd = import_torchtune_component(im, "kd_loss");

    import_set(im, "stage", "distill", NULL);
    import_checkpointer(im, "teacher_checkpointer", "teacher_model_name_or_path");
    import_preset(im, "kd_ratio", "0.5", "torchtune's preset");
    for (size_t i = 0; i < TS_COUNT(losses); i++)
        if (strncmp(kd, losses[i].word, strlen(losses[i].word)) == 0) {
            import_set(im, "kd_beta", losses[i].beta, kd);
            import_took(im, "kd_loss", "kd_beta");
        }
    import_left(im, "kd_loss", IMPORT_DIFFERS,
                "look at kd_beta: 0 is forward KL, 1 reverse, between them JSD");
    import_left(im, "teacher_model", IMPORT_IDLE,
                "config.json and tokenizer.json of the model say it");
}

/* The model that is trained, as it begins, is what a job takes where it names none. */
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
                    "the model itself is the reference where a job names none");
    import_checkpointer(im, "ref_checkpointer", "ref_model");
    if (is_same)
        import_set_yaml(im, "ref_model", NULL, NULL);
}

/* Stage dpo has none. */
static void leave_dropout(struct importing *im)
{
    bool is_on = import_number(im, "model.lora_dropout", 0) > 0;

    import_left(im, "model.lora_dropout", is_on ? IMPORT_DIFFERS : IMPORT_IDLE,
                is_on ? "dropout is off where answers are held against a reference"
                      : "off");
}

/* Where nothing is said, beta is 0.1 there and here. */
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

/* dtype is that of weights, gradients and moments: recipes,
 * full_finetune_single_device. */
static void import_precision(struct importing *im)
{
    const char *dtype = import_get(im, "dtype");

    if (dtype && (strcmp(dtype, "bf16") == 0 || strcmp(dtype, "bfloat16") == 0)) {
        import_set(im, "pure_bf16", "true", NULL);
        import_remark(im, "pure_bf16",
                      "dtype: bf16 in torchtune is the format of the trained weights "
                      "and moments too; bf16: true instead keeps those in float32, "
                      "which is more exact and takes 8 bytes more for each of them");
        import_took(im, "dtype", "pure_bf16");
    } else if (dtype && (strcmp(dtype, "fp32") == 0 || strcmp(dtype, "float32") == 0)) {
        import_set(im, "bf16", "false", "dtype: fp32");
        import_took(im, "dtype", "bf16");
    } else if (dtype) {
        import_refuse(
            im, ERROR_JOB, import_find(im, "dtype")->value,
            "dtype: %s is no format that torchtune trains in; bf16 and fp32 are", dtype);
    }
    if (has_word(im, "device", "cpu")) {
        import_set(im, "use_cpu", "true", NULL);
        import_took(im, "device", "use_cpu");
    }
    import_left(im, "device", IMPORT_IDLE, "a GPU is taken where there is one");
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
        import_remark(im, "cutoff_len",
                      "torchtune cuts nothing off here (tokenizer.max_seq_len is "
                      "empty); if there are longer samples, raise it%s%s",
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
                "on each GPU: with N of them write trainspool: {ranks: N}, and a step "
                "has N times as many samples");
            return;
        }
}

/* ---- arguments ---- */

/* Of components, where the job loses nothing with them. */
static const struct argument {
    const char *path, *why;
} idle_arguments[] = {
    { "loss.num_output_chunks", "memory of PyTorch, which has no part in this" },
    { "loss.ignore_index", "what is not learnt is marked in a way of this program's" },
    { "loss.mask_ignored_tokens", "what is not learnt costs no time anyway" },
    { "loss.tp_enabled", "how several GPUs share the work" },
    { "lr_scheduler.num_training_steps", "the recipe counts the steps itself" },
    { "lr_scheduler.last_epoch", "the recipe counts the steps itself" },
};

/* Whatever stands beside a _component_ is an argument of it, whether a recipe knows it or
 * not: torchtune/config/_instantiate.py. */
static void note_arguments(struct importing *im, const char *path)
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
                        "torchtune hands it to %s; the job has nothing in its place",
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
        note_arguments(im, components[i]);
}

bool import_torchtune(struct importing *im)
{
    if (!refuse_kinds(im))
        return false;
    if (pair_loss_of(im))
        leave_dropout(im);
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
