/* tests/unit/unit_import.h - import of another tool's file. */
#ifndef TESTS_UNIT_UNIT_IMPORT_H
#define TESTS_UNIT_UNIT_IMPORT_H

#include "patcher/document/document.h"
#include "patcher/import/import.h"
#include "tests/unit/unit.h"

/* The smallest files of each tool. */
#define AXOLOTL      "base_model: org/model\ndatasets: [{path: org/data, type: alpaca}]\n"
#define AXOLOTL_LORA AXOLOTL "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
#define TORCHTUNE                                                                  \
    "output_dir: /tmp/out\n"                                                       \
    "model: {_component_: torchtune.models.llama3_2.llama3_2_1b}\n"                \
    "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer}\n"         \
    "checkpointer: {checkpoint_dir: '/tmp/model/', output_dir: '${output_dir}'}\n" \
    "dataset: {_component_: torchtune.datasets.alpaca_dataset}\n"
#define TORCHTUNE_ADAM TORCHTUNE "optimizer: {_component_: torch.optim.AdamW, lr: 2e-5}\n"

/* The smallest files of LLaMA-Factory v1; the list of data is not on this machine. */
#define V1      "model: org/model\nmodel_class: llm\ntrain_dataset: data/list.yaml\n"
#define V1_LORA V1 "peft_config: {name: lora}\n"
#define V1_DPO  V1 "pref_loss: sigmoid\n"

/* Files that select the layers of a model that get adapters. */
#define TORCHTUNE_ADAPTERS(model, attention, mlp)                                     \
    "checkpointer: {checkpoint_dir: /m}\noptimizer: {lr: 1}\n"                        \
    "dataset: {_component_: torchtune.datasets.alpaca_dataset}\n"                     \
    "model: {_component_: torchtune.models." model ", lora_attn_modules: [" attention \
    "], apply_lora_to_mlp: " mlp "}\n"

#define TORCHTUNE_TEXT(packed)                                                         \
    "checkpointer: {checkpoint_dir: /m}\noptimizer: {lr: 1}\n"                         \
    "model: {_component_: torchtune.models.llama2.llama2_7b}\n"                        \
    "dataset: {_component_: torchtune.datasets.text_completion_dataset, source: a/b, " \
    "packed: " packed "}\n"

#define AXOLOTL_DATA(list) "base_model: m\ndatasets:\n" list
#define AXOLOTL_TEXT       AXOLOTL_DATA("- {path: a/b, type: completion}\n")
#define AXOLOTL_STREAM \
    "base_model: m\npretraining_dataset: {path: a/c4, type: pretrain}\n"

/* An import, and its text parsed again. */
struct trial {
    struct arena *arena;
    struct import import;
    struct document job;
    struct error err;
    bool good;
};

static inline struct trial trial_new(const char *file, const char *data, size_t len)
{
    struct trial trial = { .arena = arena_new() };

    trial.good = import_read(file, data, len, trial.arena, &trial.import, &trial.err);
    if (trial.good) {
        document_read(trial.import.text.data, trial.import.text.len, trial.arena,
                      &trial.job);
        if (!trial.job.root || trial.job.remark_count > 0)
            fail_msg("%s: %s\n%s", file, trial.job.remarks[0].text,
                     trial.import.text.data);
    }
    return trial;
}

static inline void trial_end(struct trial *trial)
{
    import_clear(&trial->import);
    arena_free(trial->arena);
}

/* Return a value of the job as YAML; NULL: the job does not have the key. */
static inline const char *job_value(const struct trial *trial, const char *key)
{
    const struct entry *entry = document_find(&trial->job, key);

    return entry ? arena_copy(trial->arena, trial->job.data + entry->value->at.byte,
                              entry->value->bytes)
                 : NULL;
}

/* A file, and a key of the job that it becomes. */
struct meaning {
    const char *source, *key;
    const char *value; /* NULL: not in the job */
};

static inline void check_meanings(const struct meaning *meanings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct meaning *expected = &meanings[i];
        struct trial trial =
            trial_new("f.yml", expected->source, strlen(expected->source));
        const char *got;

        if (!trial.good)
            fail_msg("%s\n%s", expected->source, trial.err.text);
        got = job_value(&trial, expected->key);
        if (got ? !expected->value || strcmp(got, expected->value) != 0
                : expected->value != NULL)
            fail_msg("of\n%swanted %s: %s, got %s", expected->source, expected->key,
                     expected->value ? expected->value : "(nothing)",
                     got ? got : "(nothing)");
        trial_end(&trial);
    }
}

static inline const struct import_key *outcome_of(const struct trial *trial,
                                                  const char *name)
{
    for (size_t i = 0; i < trial->import.key_count; i++)
        if (strcmp(trial->import.keys[i].name, name) == 0)
            return &trial->import.keys[i];
    return NULL;
}

/* A file, and the outcome of one of its keys. */
struct outcome_case {
    const char *source, *key;
    enum import_outcome outcome;
    const char *word; /* in the reason, or the target key */
};

static inline void check_outcome(const struct outcome_case *expected)
{
    struct trial trial = trial_new("f.yml", expected->source, strlen(expected->source));
    const struct import_key *key = trial.good ? outcome_of(&trial, expected->key) : NULL;
    const char *detail =
        key ? key->outcome == IMPORT_CARRIED ? key->into : key->why : NULL;

    if (!key || key->outcome != expected->outcome || !strstr(detail, expected->word))
        fail_msg("%s: %s is %s: %s", expected->source, expected->key,
                 key ? import_outcome_names[key->outcome] : "dropped",
                 detail ? detail : trial.err.text);
    trial_end(&trial);
}

static inline void check_outcomes(const struct outcome_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++)
        check_outcome(&cases[i]);
}

#endif
