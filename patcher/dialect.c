/* patcher/dialect.c - a table of telling keys. */
#include "config.h"

#include "patcher/dialect.h"

#include "base/size.h"
#include "patcher/nearest.h"
#include "patcher/schema.h"

#include <string.h>

/*
 * In this order; the first key found decides.  Axolotl: schemas/config.py; LLaMA-Factory
 * v1: examples/v1; Accelerate: what `accelerate config` writes.
 */
static const struct marker {
    const char *key;
    enum dialect dialect;
} markers[] = {
    { "trainspool", DIALECT_NATIVE },
    { "model_name_or_path", DIALECT_NATIVE },
    { "stage", DIALECT_NATIVE },
    { "finetuning_type", DIALECT_NATIVE },
    { "compute_environment", DIALECT_ACCELERATE },
    { "distributed_type", DIALECT_ACCELERATE },
    { "base_model", DIALECT_AXOLOTL },
    { "base_model_config", DIALECT_AXOLOTL },
    { "sequence_len", DIALECT_AXOLOTL },
    { "dockerfile_commands", DIALECT_AXOLOTL },
    { "model_class", DIALECT_V1 },
    { "dist_config", DIALECT_V1 },
    { "sample_backend", DIALECT_V1 },
    { "train_dataset", DIALECT_V1 },
    { "kernel_config", DIALECT_V1 },
};

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

static const struct entry *find_component(const struct node *root)
{
    for (size_t i = 0; i < root->count; i++)
        if (has_component(root->entries[i].value))
            return &root->entries[i];
    return node_find(root, "_component_");
}

/* A key that a job could have, perhaps written `Learning-Rate`. */
static bool is_of_a_job(const struct node *key)
{
    const struct key *known;

    if (key->kind != NODE_SCALAR)
        return false;
    known = schema_find(key->text);
    if (known)
        return known->use == KEY_USED || known->use == KEY_RENAMED;
    for (size_t i = 0; (known = schema_at(&schema_job, i)); i++)
        if (known->use == KEY_USED && nearest_folded(known->name, key->text))
            return true;
    return false;
}

enum dialect dialect_find(const struct document *document, const struct entry **marker)
{
    const struct node *root = document->root;

    for (size_t i = 0; i < TS_COUNT(markers); i++) {
        if (i > 0 && markers[i - 1].dialect == DIALECT_NATIVE &&
            markers[i].dialect != DIALECT_NATIVE && (*marker = find_component(root)))
            return DIALECT_TORCHTUNE;
        if ((*marker = document_find(document, markers[i].key)))
            return markers[i].dialect;
    }
    for (size_t i = 0; i < root->count; i++)
        if (is_of_a_job(root->entries[i].key))
            return DIALECT_NATIVE;
    return DIALECT_NONE;
}

static const char *const sentences[] = {
    [DIALECT_AXOLOTL] =
        "this is a file of Axolotl (%s), no job: `trainspool import` prints it "
        "as one",
    [DIALECT_TORCHTUNE] = "this is a recipe of torchtune (_component_ in %s), no job: "
                          "`trainspool import` prints it as one",
    [DIALECT_V1] =
        "this is a file of LLaMA-Factory v1 (%s), no job: write it in the flat form "
        "of v0, with model_name_or_path, stage and finetuning_type",
    [DIALECT_ACCELERATE] =
        "this is a launcher's file of Accelerate (%s), no job: the job says "
        "bf16 or fp16 itself",
};

const char *dialect_sentence(enum dialect dialect, const struct entry *marker,
                             struct arena *arena)
{
    const char *name = marker ? marker->key->text : "";
    const char *sentence = dialect < TS_COUNT(sentences) ? sentences[dialect] : NULL;
    const char *hole = sentence ? strstr(sentence, "%s") : NULL;

    if (!hole)
        return "this is no job: not one of its keys is a key of a job "
               "(model_name_or_path, "
               "dataset, learning_rate ...)";
    return arena_printf(arena, "%.*s%s%s", (int)(hole - sentence), sentence, name,
                        hole + 2);
}
