/* patcher/schema/dialect.c - decides which tool a file belongs to. */
#include "config.h"

#include "patcher/schema/dialect.h"

#include "base/size.h"
#include "patcher/schema/dialect_marks.h"
#include "patcher/schema/schema.h"
#include "patcher/schema/schema_keys.h"

#include <string.h>

/* Keys that identify a job; one that no other tool has outweighs any two marks.  A file
 * belongs to a tool if the tool's marks outweigh these keys, so a job with one foreign key
 * remains a job. */
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

/* Return the entry at the path, with the first key of the path in *first. */
static const struct entry *find_path(const struct node *root, const char *path,
                                     const struct entry **first)
{
    const struct node *map = root;
    const struct entry *entry = NULL;

    for (*first = NULL; *path; path += *path == '.') {
        const size_t len = strcspn(path, ".");

        entry = NULL;
        for (size_t i = 0; map->kind == NODE_MAP && i < map->count && !entry; i++) {
            const struct node *key = map->entries[i].key;

            if (key->kind == NODE_SCALAR && key->len == len &&
                memcmp(key->text, path, len) == 0)
                entry = &map->entries[i];
        }
        if (!entry)
            return NULL;
        if (!*first)
            *first = entry;
        map = node_value(entry->value);
        path += len;
    }
    return entry;
}

/* Sum the weights of the tool's marks.  *marker is the key of the first one, if there are
 * any. */
static int weigh(const struct document *document, enum dialect dialect,
                 const struct entry **marker)
{
    size_t found = 0;
    int weight = 0;

    for (size_t i = 0; i < dialect_mark_count; i++) {
        const struct entry *first;

        if (dialect_marks[i].dialect != dialect ||
            !find_path(document->root, dialect_marks[i].path, &first))
            continue;
        if (found++ == 0)
            *marker = first;
        weight += dialect_marks[i].weight;
    }
    return found < dialect_files[dialect].least ? 0 : weight;
}

static bool has_class(const struct node *node, const char *key)
{
    if (node->kind == NODE_MAP && node_find(node, key))
        return true;
    for (size_t i = 0; i < node->count; i++)
        if (has_class(node->kind == NODE_MAP ? node->entries[i].value : node->items[i],
                      key))
            return true;
    return false;
}

/* A torchtune recipe and a Hydra configuration name a Python class in each block. */
static int weigh_classes(const struct node *root, const char *key,
                         const struct entry **marker)
{
    *marker = node_find(root, key);
    for (size_t i = 0; !*marker && i < root->count; i++)
        if (has_class(root->entries[i].value, key))
            *marker = &root->entries[i];
    return *marker ? 5 : 0;
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

/* `optim: {lr: 1e-5}` is not the key of a job that has this name. */
static bool is_block_of_another_tool(const struct key *key, const struct node *value)
{
    return value->kind == NODE_MAP && key->type != KEY_MAP && key->type != KEY_ANY;
}

/* Classify a key.  A misspelled key of a job, `Learning-Rate` or `lerning_rate`, counts
 * as one. */
static enum key_kind classify(const struct entry *entry)
{
    const struct node *key = entry->key;
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
    if (is_block_of_another_tool(known, node_value(entry->value)))
        return KIND_FOREIGN;
    return known->use == KEY_OTHER_TOOL                          ? KIND_FOREIGN
           : known->use == KEY_USED || known->use == KEY_RENAMED ? KIND_JOB
                                                                 : KIND_SHARED;
}

/* If no key identifies a tool or a job, the majority of the keys decides. */
static enum dialect find_by_majority(const struct node *root, const struct entry **marker)
{
    size_t counts[KIND_FOREIGN + 1] = { 0 };

    *marker = NULL;
    for (size_t i = 0; i < root->count && i < MAX_KEYS; i++) {
        enum key_kind kind = classify(&root->entries[i]);

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

static int weigh_tool(const struct document *document, enum dialect dialect,
                      const struct entry **marker)
{
    if (dialect == DIALECT_TORCHTUNE)
        return weigh_classes(document->root, "_component_", marker);
    if (dialect == DIALECT_HYDRA)
        return weigh_classes(document->root, "_target_", marker);
    return weigh(document, dialect, marker);
}

enum dialect dialect_find(const struct document *document, const struct entry **marker)
{
    const struct entry *found = NULL, *job_key;
    enum dialect best = DIALECT_NATIVE;
    int most = 2; /* the weight of a tool must be more */

    *marker = NULL;
    if (document->script)
        return DIALECT_NATIVE;
    for (int dialect = DIALECT_NATIVE + 1; dialect < DIALECT_OTHER; dialect++) {
        int weight = weigh_tool(document, (enum dialect)dialect, &found);

        if (weight <= most ||
            weight <= weigh_job(document, (enum dialect)dialect, &job_key) ||
            (dialect == DIALECT_TRL && document_find(document, "trainspool")) ||
            (dialect == DIALECT_HYDRA && best != DIALECT_NATIVE))
            continue;
        best = (enum dialect)dialect;
        most = weight;
        *marker = found;
    }
    if (best != DIALECT_NATIVE)
        return best;
    if (weigh_job(document, DIALECT_NATIVE, marker) > 2)
        return DIALECT_NATIVE;
    return find_by_majority(document->root, marker);
}

/* A trainer with a key table also accepts files of unknown tools: the table reports their
 * keys. */
bool dialect_is_of(enum dialect dialect, enum trainer trainer)
{
    bool external = trainer != TRAINER_NATIVE;

    if (external && dialect < DIALECT_NONE && dialect_files[dialect].trainer == trainer)
        return true;
    return dialect == DIALECT_NATIVE || (external && dialect == DIALECT_TRL) ||
           (external && dialect >= DIALECT_OTHER && profile_at(trainer)->table);
}

bool dialect_is_job(const struct document *document, enum trainer trainer)
{
    const struct entry *marker;

    return document->root && dialect_is_of(dialect_find(document, &marker), trainer);
}

bool dialect_is_llama_factory(const struct document *document)
{
    static const char *const keys[] = { "stage", "finetuning_type", "template",
                                        "cutoff_len", "dataset_dir" };

    if (document->script)
        return false;
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (document_find(document, keys[i]))
            return true;
    return false;
}

const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena)
{
    static const char keys[] = "a job has keys such as model_name_or_path, "
                               "finetuning_type, lora_rank, cutoff_len";
    const struct dialect_file *file =
        dialect < DIALECT_OTHER ? &dialect_files[dialect] : NULL;
    const char *name = marker ? marker->key->text : "";
    const char *of = dialect == DIALECT_TORCHTUNE ? "_component_ in "
                     : dialect == DIALECT_HYDRA   ? "_target_ in "
                                                  : "";

    if (dialect == DIALECT_OTHER)
        return arena_printf(
            arena,
            "this is not a job: most of its keys, such as %s, are not keys "
            "of a job; a job has keys such as "
            "model_name_or_path, dataset, finetuning_type",
            name);
    if (!file || !file->what)
        return "this is not a job: it has none of a job's keys, such as "
               "model_name_or_path, dataset or learning_rate";
    return arena_printf(arena, "this is %s (%s%s), not a job: %s%s", file->what, of, name,
                        file->advice ? file->advice : keys,
                        file->trainer == TRAINER_NATIVE
                            ? ""
                            : arena_printf(arena, "; `--target %s` checks it unchanged",
                                           profile_at(file->trainer)->name));
}
