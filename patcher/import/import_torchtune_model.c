/* patcher/import/import_torchtune_model.c - model, method, teacher, reference and length
 * of a torchtune recipe. */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"

static const struct import_copy lora_copies[] = {
    { "model.lora_rank", "lora_rank", NULL },
    { "model.lora_alpha", "lora_alpha", NULL },
    { "model.lora_dropout", "lora_dropout", NULL },
    { "model.use_dora", "use_dora", NULL },
};

/* The longest sample of a model family. */
static const struct family {
    const char *name;
    long longest;
} families[] = {
    { "llama2", 4096 },     { "code_llama2", 16384 }, { "llama3", 8192 },
    { "llama3_1", 131072 }, { "llama3_2", 131072 },   { "llama3_3", 131072 },
    { "llama4", 1048576 },  { "mistral", 32768 },     { "gemma", 8192 },
    { "gemma2", 8192 },     { "phi3", 4096 },         { "phi4", 16384 },
    { "qwen2", 32768 },     { "qwen2_5", 32768 },     { "qwen3", 32768 },
};

/* Limit on the length taken from a family: longer samples are rare, but the memory is
 * reserved in any case. */
#define LENGTH_LIMIT 4096

static const struct family *family_of(struct importing *im)
{
    const char *model = import_get(im, "model._component_");

    for (size_t i = 0; model && i < TS_COUNT(families); i++)
        if (strstr(model, arena_printf(im->arena, ".%s.", families[i].name)))
            return &families[i];
    return NULL;
}

/* Preference losses that stage dpo has, and the position of their beta:
 * torchtune/rlhf/loss/dpo.py. */
static const struct pair_loss {
    const char *component, *pref_loss, *beta;
} pair_losses[] = {
    { "DPOLoss", "sigmoid", "loss.beta" },
    { "RSOLoss", "hinge", "loss.gamma" },
};

/* Find the loss of the recipe in the table; NULL: another loss. */
static const struct pair_loss *pair_loss_of(struct importing *im)
{
    const char *component = import_torchtune_component(im, "loss");

    for (size_t i = 0; i < TS_COUNT(pair_losses); i++)
        if (strcmp(component, pair_losses[i].component) == 0)
            return &pair_losses[i];
    return NULL;
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

    if (first && !strstr(node_value(first)->text, ".safetensors") &&
        !strstr(node_value(first)->text, "pytorch_model"))
        import_mark_dropped(
            im, key, IMPORT_DIFFERS,
            "only *.safetensors and pytorch_model*.bin are read; convert other files with "
            "save_pretrained of transformers");
    else
        import_mark_dropped(im, key, IMPORT_IDLE, "all weights of the folder are read");
}

/* Without output_dir at the top level, the checkpointer's is where the result goes
 * (training/checkpointing/_checkpointer.py). */
static void import_result_folder(struct importing *im, const char *checkpointer)
{
    const char *path = arena_printf(im->arena, "%s.output_dir", checkpointer);
    const char *folder = import_get(im, path);

    if (strcmp(checkpointer, "checkpointer") != 0 || !folder ||
        import_find(im, "output_dir"))
        return;
    import_set(im, "output_dir", without_slash(im->arena, folder), NULL);
    import_mark_carried(im, path, "output_dir");
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
    import_mark_carried(im, path, to);
    import_files(im, checkpointer);
    import_result_folder(im, checkpointer);
    for (size_t i = 0; i < TS_COUNT(idle); i++)
        import_mark_dropped(
            im, arena_printf(im->arena, "%s.%s", checkpointer, idle[i]), IMPORT_IDLE,
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
    import_mark_carried(im, "model.lora_attn_modules", "lora_target");
    for (size_t i = 0; i < TS_COUNT(layers); i++)
        if (layers[i].is_mlp && import_is_true(im, "model.apply_lora_to_mlp"))
            names = and_layer(im->arena, names, hub_layer(layers[i].name, fused));
    if (import_value(im, "freeze_vision_tower") &&
        import_is_true(im, "model.apply_lora_to_mlp"))
        names = and_layer(im->arena, and_layer(im->arena, names, "fc1"), "fc2");
    import_mark_carried(im, "model.apply_lora_to_mlp", "lora_target");
    if (import_is_true(im, "model.apply_lora_to_output"))
        import_mark_dropped(
            im, "model.apply_lora_to_output", IMPORT_DIFFERS,
            "the output layer cannot have an adapter; additional_target: lm_head trains "
            "it completely");
    import_mark_dropped(im, "model.apply_lora_to_output", IMPORT_IDLE, "off");
    import_set(im, "lora_target", *names ? names : "all",
               *names ? NULL : "torchtune's file does not name layers");
    if (fused)
        report_fused(im, requested, names);
}

static void import_lora(struct importing *im, bool is_quantized)
{
    import_set(im, "finetuning_type", "lora", NULL);
    if (is_quantized)
        import_set(
            im, "quantization_bit", "4",
            "torchao's NF4 in torchtune: 4 bits too, with different rounding of scales");
    if (is_quantized && import_torchtune_is_vision(im))
        import_remark(im, "quantization_bit",
                      "the layers of the text model; torchtune also has the encoder in 4 "
                      "bits where it has adapters, and leaves the attention of a frozen "
                      "decoder in 16");
    import_copies(im, lora_copies, TS_COUNT(lora_copies));
    import_set_default(im, "lora_rank", "8", NULL);
    import_set_default(im, "lora_alpha", "16", "torchtune's default for any rank");
    import_targets(im);
    if (import_is_true(im, "model.quantize_base"))
        import_mark_carried(im, "model.quantize_base", "quantization_bit");
}

static void import_model(struct importing *im)
{
    const char *model = import_torchtune_component(im, "model");
    bool is_quantized =
        strncmp(model, "qlora_", 6) == 0 || import_is_true(im, "model.quantize_base");
    bool is_lora = strncmp(model, "lora_", 5) == 0 || strncmp(model, "qlora_", 6) == 0 ||
                   import_find(im, "model.lora_attn_modules");
    const struct entry *entry = import_find(im, "model");
    const struct node *map = entry ? node_value(entry->value) : NULL;

    import_checkpointer(im, "checkpointer", "model_name_or_path");
    if (import_failed(im))
        return;
    if (import_torchtune_is_vision(im) && !import_torchtune_vision(im, is_lora))
        return;
    if (is_lora)
        import_lora(im, is_quantized);
    else
        import_set(im, "finetuning_type", "full", NULL);
    import_mark_carried(im, "model._component_", "finetuning_type");
    for (size_t i = 0; map && map->kind == NODE_MAP && i < map->count; i++)
        import_add_outcome(
            im, &map->entries[i],
            &(struct import_key) {
                .name = arena_printf(im->arena, "model.%s", map->entries[i].key->text),
                .outcome = IMPORT_IDLE,
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
    import_set_default(im, "kd_ratio", "0.5", "torchtune's default");
    for (size_t i = 0; i < TS_COUNT(losses); i++)
        if (strncmp(kd, losses[i].word, strlen(losses[i].word)) == 0) {
            import_set(im, "kd_beta", losses[i].beta, kd);
            import_mark_carried(im, "kd_loss", "kd_beta");
        }
    import_mark_dropped(
        im, "kd_loss", IMPORT_DIFFERS,
        "see kd_beta: 0 is forward KL, 1 is reverse KL, values between are JSD");
    import_mark_dropped(im, "teacher_model", IMPORT_IDLE,
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
        import_mark_dropped(im, "ref_checkpointer.checkpoint_dir", IMPORT_IDLE,
                            "the model itself is the default reference");
    import_checkpointer(im, "ref_checkpointer", "ref_model");
    if (is_same)
        import_set_yaml(im, "ref_model", NULL, NULL);
}

/* Report lora_dropout, which stage dpo does not use. */
static void report_dropout(struct importing *im)
{
    bool is_on = import_number(im, "model.lora_dropout", 0) > 0;

    import_mark_dropped(im, "model.lora_dropout", is_on ? IMPORT_DIFFERS : IMPORT_IDLE,
                        is_on ? "dropout is off in preference training" : "off");
}

/* beta defaults to 0.1 in torchtune and in a job. */
static void import_preference(struct importing *im, const struct pair_loss *loss)
{
    import_set(im, "stage", "dpo", NULL);
    import_set(im, "pref_loss", loss->pref_loss, loss->component);
    import_mark_carried(im, "loss._component_", "pref_loss");
    if (import_find(im, loss->beta))
        import_copy(im, loss->beta, "pref_beta", NULL);
    if (import_number(im, "loss.label_smoothing", 0) > 0)
        import_copy(im, "loss.label_smoothing", "dpo_label_smoothing", NULL);
    import_mark_idle(im, "loss.label_smoothing", "off");
    import_mark_carried(im, "loss", "pref_loss");
    import_reference(im);
}

/* ---- length ---- */

void import_torchtune_length(struct importing *im)
{
    const struct family *family = family_of(im);
    long longest = family ? family->longest : 0;

    if (import_copy(im, "tokenizer.max_seq_len", "cutoff_len", NULL))
        return;
    if (import_failed(im))
        return;
    import_set(im, "cutoff_len",
               longest > 0 && longest < LENGTH_LIMIT
                   ? arena_printf(im->arena, "%ld", longest)
                   : arena_printf(im->arena, "%d", LENGTH_LIMIT),
               NULL);
    if (longest == 0 || longest > LENGTH_LIMIT)
        import_remark(
            im, "cutoff_len",
            "torchtune does not truncate here (tokenizer.max_seq_len is empty); raise "
            "this value if samples are longer%s%s",
            longest ? ", up to " : "",
            longest ? arena_printf(im->arena, "%ld", longest) : "");
}

bool import_torchtune_is_preference(struct importing *im)
{
    return pair_loss_of(im) != NULL;
}

bool import_torchtune_model(struct importing *im)
{
    const struct pair_loss *loss = pair_loss_of(im);

    if (loss)
        report_dropout(im);
    import_model(im);
    if (import_failed(im))
        return false;
    if (import_find(im, "teacher_checkpointer"))
        import_teacher(im);
    if (loss)
        import_preference(im, loss);
    return true;
}
