/* patcher/schema/dialect.c - tables of the keys that identify a tool. */
#include "config.h"

#include "patcher/schema/dialect.h"

#include "base/size.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_keys.h"

#include <string.h>

/*
 * Keys that identify a tool, with weights: 3 for a key that no other tool has, 1 for one
 * that may also appear in a job by mistake.  A file belongs to a tool if the weights of
 * its keys exceed those of the job's keys, so a job with one foreign key remains a job.
 *
 * Axolotl: schemas/config.py; LLaMA-Factory v1: examples/v1; Accelerate: what `accelerate
 * config` writes; TRL: scripts/utils.py, trainer/model_config.py and the recipes of the
 * alignment handbook; DeepSpeed: runtime/config.py; LitGPT: config_hub; ms-swift:
 * examples/yaml.
 */
static const struct marker {
    const char *key;
    enum dialect dialect;
    int weight;
} markers[] = {
    { "compute_environment", DIALECT_ACCELERATE, 3 },
    { "distributed_type", DIALECT_ACCELERATE, 3 },
    { "base_model", DIALECT_AXOLOTL, 3 },
    { "base_model_config", DIALECT_AXOLOTL, 3 },
    { "sequence_len", DIALECT_AXOLOTL, 3 },
    { "dockerfile_commands", DIALECT_AXOLOTL, 3 },
    { "micro_batch_size", DIALECT_AXOLOTL, 1 },
    { "val_set_size", DIALECT_AXOLOTL, 1 },
    { "sample_packing", DIALECT_AXOLOTL, 1 },
    { "model_class", DIALECT_V1, 3 },
    { "dist_config", DIALECT_V1, 3 },
    { "sample_backend", DIALECT_V1, 3 },
    { "train_dataset", DIALECT_V1, 3 },
    { "kernel_config", DIALECT_V1, 3 },
    { "peft_config", DIALECT_V1, 3 },
    { "quant_config", DIALECT_V1, 3 },
    { "zero_optimization", DIALECT_DEEPSPEED, 3 },
    { "train_micro_batch_size_per_gpu", DIALECT_DEEPSPEED, 3 },
    { "zero_allow_untested_optimizer", DIALECT_DEEPSPEED, 3 },
    { "dataset_mixture", DIALECT_TRL, 3 },
    { "dataset_mixer", DIALECT_TRL, 3 },
    { "dataset_name", DIALECT_TRL, 3 },
    { "use_peft", DIALECT_TRL, 2 },
    { "dataset_train_split", DIALECT_TRL, 2 },
    { "dataset_text_field", DIALECT_TRL, 2 },
    { "attn_implementation", DIALECT_TRL, 1 },
    { "max_seq_length", DIALECT_TRL, 1 },
    { "dataset_num_proc", DIALECT_TRL, 1 },
    { "lora_target_modules", DIALECT_TRL, 1 },
    { "lora_r", DIALECT_TRL, 1 },
    { "tuner_type", DIALECT_SWIFT, 3 },
    { "train_type", DIALECT_SWIFT, 3 },
    { "rlhf_type", DIALECT_SWIFT, 3 },
    { "colocate_groups", DIALECT_SWIFT, 3 },
    { "split_dataset_ratio", DIALECT_SWIFT, 2 },
    { "logger_name", DIALECT_LITGPT, 2 },
    { "out_dir", DIALECT_LITGPT, 2 },
    { "tokenizer_dir", DIALECT_LITGPT, 1 },
    { "num_nodes", DIALECT_LITGPT, 1 },
};

/* Keys of a job.  A key that no other tool has outweighs any two of another tool. */
static const struct own {
    const char *key;
    int weight;
    enum dialect also; /* the only other tool that has it */
} owns[] = {
    { "trainspool", 5, DIALECT_NATIVE },
    { "model_name_or_path", 3, DIALECT_TRL },
    { "stage", 6, DIALECT_NATIVE },
    { "finetuning_type", 6, DIALECT_NATIVE },
    { "template", 2, DIALECT_V1 },
    { "cutoff_len", 2, DIALECT_V1 },
    { "dataset", 1, DIALECT_NATIVE },
    { "dataset_dir", 2, DIALECT_NATIVE },
    { "lora_rank", 1, DIALECT_NATIVE },
    { "lora_target", 2, DIALECT_NATIVE },
    { "overwrite_cache", 2, DIALECT_NATIVE },
    { "neat_packing", 2, DIALECT_NATIVE },
    { "preprocessing_num_workers", 2, DIALECT_NATIVE },
};

/* *key: the first of these keys in the document. */
static int weigh_own(const struct document *document, enum dialect against,
                     const struct entry **key)
{
    int weight = 0;

    *key = NULL;
    for (size_t i = 0; i < TS_COUNT(owns); i++) {
        const struct entry *entry;

        if ((against != DIALECT_NATIVE && owns[i].also == against) ||
            !(entry = document_find(document, owns[i].key)))
            continue;
        if (!*key)
            *key = entry;
        weight += owns[i].weight;
    }
    return weight;
}

/* *marker: the first key of the table in the document. */
static int weigh(const struct document *document, enum dialect dialect,
                 const struct entry **marker)
{
    int weight = 0;

    for (size_t i = 0; i < TS_COUNT(markers); i++) {
        const struct entry *entry;

        if (markers[i].dialect != dialect ||
            !(entry = document_find(document, markers[i].key)))
            continue;
        if (weight == 0)
            *marker = entry;
        weight += markers[i].weight;
    }
    return weight;
}

static bool has_component(const struct node *node)
{
    if (node->kind == NODE_MAP && node_find(node, "_component_"))
        return true;
    for (size_t i = 0; i < node->count; i++)
        if (has_component(node->kind == NODE_MAP ? node->entries[i].value
                                                 : node->items[i]))
            return true;
    return false;
}

/* torchtune names a Python class in each of its parts. */
static const struct entry *find_component(const struct node *root)
{
    for (size_t i = 0; i < root->count; i++)
        if (has_component(root->entries[i].value))
            return &root->entries[i];
    return node_find(root, "_component_");
}

/* ---- Files of unknown tools ---- */

#define LOOKED_AT 100 /* keys, at most */

enum belonging { OF_A_JOB, OF_ANY, OF_NO_JOB };

/* Many tools share the names of generation settings. */
static bool is_of_generation(const struct key *key)
{
    return key >= schema_generate_keys.list &&
           key < schema_generate_keys.list + schema_generate_keys.count;
}

/* Classify a key; `Learning-Rate` and `lerning_rate` count as keys of a job. */
static enum belonging belongs(const struct node *key)
{
    const struct key *known;
    const char *near;
    bool exact;

    if (key->kind != NODE_SCALAR)
        return OF_NO_JOB;
    known = schema_find(key->text);
    if (!known)
        return schema_nearest(key->text, &near, 1, &exact) > 0 ? OF_A_JOB : OF_NO_JOB;
    if (is_of_generation(known))
        return OF_ANY;
    return known->use == KEY_OTHER_TOOL                          ? OF_NO_JOB
           : known->use == KEY_USED || known->use == KEY_RENAMED ? OF_A_JOB
                                                                 : OF_ANY;
}

/* Decide by majority: most keys are not keys of a job, and none identifies one. */
static enum dialect by_most_keys(const struct node *root, const struct entry **marker)
{
    size_t counts[OF_NO_JOB + 1] = { 0 };

    *marker = NULL;
    for (size_t i = 0; i < root->count && i < LOOKED_AT; i++) {
        enum belonging of = belongs(root->entries[i].key);

        if (of == OF_NO_JOB && !*marker && root->entries[i].key->kind == NODE_SCALAR)
            *marker = &root->entries[i];
        counts[of]++;
    }
    if (counts[OF_A_JOB] > 0 && counts[OF_NO_JOB] > counts[OF_A_JOB] &&
        counts[OF_NO_JOB] > 3)
        return DIALECT_OTHER;
    *marker = NULL;
    return counts[OF_A_JOB] > 0 ? DIALECT_NATIVE : DIALECT_NONE;
}

enum dialect dialect_find(const struct document *document, const struct entry **marker)
{
    const struct entry *found = NULL, *own;

    *marker = NULL;
    for (int dialect = DIALECT_NATIVE + 1; dialect < DIALECT_OTHER; dialect++) {
        int weight = dialect == DIALECT_TORCHTUNE
                         ? ((found = find_component(document->root)) ? 5 : 0)
                         : weigh(document, (enum dialect)dialect, &found);

        if (weight > 2 && weight > weigh_own(document, (enum dialect)dialect, &own) &&
            !(dialect == DIALECT_TRL && document_find(document, "trainspool"))) {
            *marker = found;
            return (enum dialect)dialect;
        }
    }
    if (weigh_own(document, DIALECT_NATIVE, marker) > 2)
        return DIALECT_NATIVE;
    return by_most_keys(document->root, marker);
}

bool dialect_is_llama_factory(const struct document *document)
{
    static const char *const own[] = { "stage", "finetuning_type", "template",
                                       "cutoff_len", "dataset_dir" };

    for (size_t i = 0; i < TS_COUNT(own); i++)
        if (document_find(document, own[i]))
            return true;
    return false;
}

static const char *const sentences[] = {
    [DIALECT_AXOLOTL] =
        "this is a file of Axolotl (%s), no job: `trainspool import` prints it as one",
    [DIALECT_TORCHTUNE] = "this is a recipe of torchtune (_component_ in %s), no job: "
                          "`trainspool import` prints it as one",
    [DIALECT_V1] =
        "this is a file of LLaMA-Factory v1 (%s), no job: write it in the flat form of "
        "v0, with model_name_or_path, stage and finetuning_type",
    [DIALECT_DEEPSPEED] =
        "this is a file of DeepSpeed (%s), no job: a job for a script names it as "
        "`deepspeed: FILE`; nothing here needs it",
    [DIALECT_TRL] =
        "this is a file for TRL's scripts (%s), no job to train here: with `trainspool: "
        "{target: external}` it is checked as it is; to train here, say dataset, "
        "finetuning_type and cutoff_len",
    [DIALECT_SWIFT] = "this is a file of ms-swift (%s), no job: here the words are "
                      "model_name_or_path, finetuning_type, lora_rank, cutoff_len ...",
    [DIALECT_LITGPT] = "this is a file of LitGPT (%s), no job: here the words are "
                       "model_name_or_path, finetuning_type, lora_rank, cutoff_len ...",
    [DIALECT_OTHER] =
        "most keys here are no keys of a job (%s is the first): is this another tool's "
        "file? A job says model_name_or_path, dataset, finetuning_type ...",
    [DIALECT_ACCELERATE] =
        "this is a launcher's file of Accelerate (%s), no job: the job says bf16 or "
        "fp16 itself",
};

const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena)
{
    const char *name = marker ? marker->key->text : "";
    const char *sentence = dialect < TS_COUNT(sentences) ? sentences[dialect] : NULL;
    const char *hole = sentence ? strstr(sentence, "%s") : NULL;

    if (!hole)
        return "this is no job: not one of its keys is a key of a job "
               "(model_name_or_path, dataset, learning_rate ...)";
    return arena_printf(arena, "%.*s%s%s", (int)(hole - sentence), sentence, name,
                        hole + 2);
}
