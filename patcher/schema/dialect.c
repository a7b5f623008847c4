/* patcher/schema/dialect.c - tables of keys that identify a tool, with their weights. */
#include "config.h"

#include "patcher/schema/dialect.h"

#include "base/size.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_keys.h"

#include <string.h>

/*
 * Keys that identify a tool, with their weights: 3 for a key that no other tool has, 1
 * for a key that may also have been copied into a job.  The file belongs to the tool if
 * these keys outweigh the keys of a job, so a job with one foreign key remains a job.
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

/* Keys that identify a job; one that no other tool has outweighs any two markers. */
static const struct job_key {
    const char *key;
    int weight;
    enum dialect also; /* a tool that also has the key; DIALECT_NATIVE: none */
} job_keys[] = {
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

/* Sum the weights of the job's keys that the tool `except` does not have.  *key is the
 * first of them, or NULL. */
static int weigh_job(const struct document *document, enum dialect except,
                     const struct entry **key)
{
    int weight = 0;

    *key = NULL;
    for (size_t i = 0; i < TS_COUNT(job_keys); i++) {
        const struct entry *entry;

        if ((except != DIALECT_NATIVE && job_keys[i].also == except) ||
            !(entry = document_find(document, job_keys[i].key)))
            continue;
        if (!*key)
            *key = entry;
        weight += job_keys[i].weight;
    }
    return weight;
}

/* Sum the weights of the tool's keys.  *marker is the first of them, if there are any. */
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

/* A torchtune recipe names a Python class in each of its sections. */
static const struct entry *find_component(const struct node *root)
{
    for (size_t i = 0; i < root->count; i++)
        if (has_component(root->entries[i].value))
            return &root->entries[i];
    return node_find(root, "_component_");
}

/* ---- Files of unknown tools ---- */

#define MAX_KEYS 100 /* that are examined: enough to decide */

enum key_kind { KIND_JOB, KIND_SHARED, KIND_FOREIGN };

/* Many tools use the same keys for text generation. */
static bool is_generation_key(const struct key *key)
{
    return key >= schema_generate_keys.list &&
           key < schema_generate_keys.list + schema_generate_keys.count;
}

/* Classify a key.  A misspelled key of a job, `Learning-Rate` or `lerning_rate`, counts
 * as one. */
static enum key_kind classify(const struct node *key)
{
    const struct key *known;
    const char *near;
    bool exact;

    if (key->kind != NODE_SCALAR)
        return KIND_FOREIGN;
    known = schema_find(key->text);
    if (!known)
        return schema_nearest(key->text, &near, 1, &exact) > 0 ? KIND_JOB : KIND_FOREIGN;
    if (is_generation_key(known))
        return KIND_SHARED;
    return known->use == KEY_OTHER_TOOL                          ? KIND_FOREIGN
           : known->use == KEY_USED || known->use == KEY_RENAMED ? KIND_JOB
                                                                 : KIND_SHARED;
}

/* Decide by the majority of the keys, if no key identifies a tool or a job. */
static enum dialect find_by_majority(const struct node *root, const struct entry **marker)
{
    size_t counts[KIND_FOREIGN + 1] = { 0 };

    *marker = NULL;
    for (size_t i = 0; i < root->count && i < MAX_KEYS; i++) {
        enum key_kind kind = classify(root->entries[i].key);

        if (kind == KIND_FOREIGN && !*marker && root->entries[i].key->kind == NODE_SCALAR)
            *marker = &root->entries[i];
        counts[kind]++;
    }
    if (counts[KIND_JOB] > 0 && counts[KIND_FOREIGN] > counts[KIND_JOB] &&
        counts[KIND_FOREIGN] > 3)
        return DIALECT_OTHER;
    *marker = NULL;
    return counts[KIND_JOB] > 0 ? DIALECT_NATIVE : DIALECT_NONE;
}

enum dialect dialect_find(const struct document *document, const struct entry **marker)
{
    const struct entry *found = NULL, *job_key;

    *marker = NULL;
    for (int dialect = DIALECT_NATIVE + 1; dialect < DIALECT_OTHER; dialect++) {
        int weight = dialect == DIALECT_TORCHTUNE
                         ? ((found = find_component(document->root)) ? 5 : 0)
                         : weigh(document, (enum dialect)dialect, &found);

        if (weight > 2 && weight > weigh_job(document, (enum dialect)dialect, &job_key) &&
            !(dialect == DIALECT_TRL && document_find(document, "trainspool"))) {
            *marker = found;
            return (enum dialect)dialect;
        }
    }
    if (weigh_job(document, DIALECT_NATIVE, marker) > 2)
        return DIALECT_NATIVE;
    return find_by_majority(document->root, marker);
}

bool dialect_is_llama_factory(const struct document *document)
{
    static const char *const keys[] = { "stage", "finetuning_type", "template",
                                        "cutoff_len", "dataset_dir" };

    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (document_find(document, keys[i]))
            return true;
    return false;
}

static const char *const messages[] = {
    [DIALECT_AXOLOTL] =
        "this is a file of Axolotl (%s), not a job: `trainspool import` converts it",
    [DIALECT_TORCHTUNE] = "this is a recipe of torchtune (_component_ in %s), not a job: "
                          "`trainspool import` converts it",
    [DIALECT_V1] =
        "this is a file of LLaMA-Factory v1 (%s), not a job: write it in the flat form "
        "of v0, with model_name_or_path, stage and finetuning_type",
    [DIALECT_DEEPSPEED] =
        "this is a file of DeepSpeed (%s), not a job: a job for a script names it with "
        "`deepspeed: FILE`; a native run does not need it",
    [DIALECT_TRL] =
        "this is a file for TRL's scripts (%s), not a job: add `trainspool: {target: "
        "external}` to check it unchanged; to train it here, use dataset, "
        "finetuning_type and cutoff_len",
    [DIALECT_SWIFT] =
        "this is a file of ms-swift (%s), not a job: a job has keys such as "
        "model_name_or_path, finetuning_type, lora_rank, cutoff_len",
    [DIALECT_LITGPT] = "this is a file of LitGPT (%s), not a job: a job has keys such as "
                       "model_name_or_path, finetuning_type, lora_rank, cutoff_len",
    [DIALECT_OTHER] =
        "most keys are not keys of a job (the first is %s): this may be another tool's "
        "file; a job has keys such as model_name_or_path, dataset, finetuning_type",
    [DIALECT_ACCELERATE] =
        "this is a launcher configuration of Accelerate (%s), not a job: a job sets bf16 "
        "or fp16 itself",
};

const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena)
{
    const char *name = marker ? marker->key->text : "";
    const char *message = dialect < TS_COUNT(messages) ? messages[dialect] : NULL;
    const char *hole = message ? strstr(message, "%s") : NULL;

    if (!hole)
        return "this is not a job: it has no key of a job, such as "
               "model_name_or_path, dataset or learning_rate";
    return arena_printf(arena, "%.*s%s%s", (int)(hole - message), message, name,
                        hole + 2);
}
