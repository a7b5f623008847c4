/*
 * tests/unit/unit_architectures.h - tiny models of every architecture, as made by
 * tests/golden/architectures.py: their folders, and the results of transformers.
 */
#ifndef TESTS_UNIT_UNIT_ARCHITECTURES_H
#define TESTS_UNIT_UNIT_ARCHITECTURES_H

#include "tests/unit/unit_hashed_model.h"
#include "tests/unit/unit_model.h"

#ifndef GOLDEN_FILE
#define GOLDEN_FILE "tests/golden/architectures.json"
#endif

/* The script's output and its batch: valid between setup and teardown. */
static json_t *golden;
static struct batch batch;

static inline json_t *find_in(const json_t *cases, const char *name)
{
    for (size_t i = 0; i < json_array_size(cases); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                   name) == 0)
            return json_array_get(cases, i);
    fail_msg("no case %s", name);
    return NULL;
}

static inline const json_t *find_case(const char *list, const char *name)
{
    return find_in(json_object_get(golden, list), name);
}

static inline char *folder_of(const json_t *one, const char *cut)
{
    char *dir = unit_dir_new();

    put_json(json_object_get(one, "config"), dir, "config.json");
    put_tensors(one, dir, "model.safetensors", cut);
    return dir;
}

static inline struct unit_model open_folder(const char *dir)
{
    struct unit_model u = { .arena = arena_new(), .plan = unit_plan(dir) };
    struct error err = { 0 };

    unit_must(model_config_read(dir, u.arena, &u.config, &err), &err);
    u.plan.learning_rate = real(golden, "lr");
    u.plan.weight_decay = real(golden, "weight_decay");
    return u;
}

static inline void start(struct unit_model *u)
{
    unit_model_start(u, batch.rows, batch.sequences, 1);
}

/* fp32 on both sides, a few hundred operations deep: only the order of sums differs. */
#define CLOSE 2e-5

static inline double norm_of(struct tensor t)
{
    const float *g = t.data;
    double sum = 0;

    for (size_t i = 0; i < t.rows * t.cols; i++)
        sum += (double)g[i] * g[i];
    return sqrt(sum);
}

/* Read a script's output.  A model with "same_as" has the tensors and results of that one. */
static inline json_t *read_golden_models(const char *file)
{
    char *path = unit_source(file);
    struct error err = { 0 };
    json_t *root = json_read_file(path, (size_t)4 << 20, &err), *models;

    unit_must(root != NULL, &err);
    models = json_object_get(root, "models");
    for (size_t i = 0; i < json_array_size(models); i++) {
        json_t *one = json_array_get(models, i);
        const char *same = json_string_value(json_object_get(one, "same_as"));

        if (same)
            json_object_update_missing(one, find_in(models, same));
    }
    free(path);
    return root;
}

static inline int architectures_setup(void **state)
{
    const json_t *runs;

    (void)state;
    golden = read_golden_models(GOLDEN_FILE);
    runs = json_object_get(golden, "batch");
    for (size_t i = 0; i < json_array_size(runs); i++)
        unit_batch_json(&batch, json_array_get(runs, i));
    return 0;
}

/* The same, with the models that have towers (tests/golden/multimodal.py). */
static inline int architectures_setup_all(void **state)
{
    static const char *const lists[] = { "models", "adapters" };
    json_t *towers = read_golden_models("tests/golden/multimodal.json");

    architectures_setup(state);
    for (size_t i = 0; i < TS_COUNT(lists); i++)
        json_array_extend(json_object_get(golden, lists[i]),
                          json_object_get(towers, lists[i]));
    json_decref(towers);
    return 0;
}

static inline int architectures_teardown(void **state)
{
    (void)state;
    unit_batch_free(&batch);
    json_decref(golden);
    return 0;
}

#endif
