/*
 * tests/unit/unit_architectures.h - tiny models of every architecture, as
 * tests/golden/architectures.py made them: their folders, and what transformers computes.
 */
#ifndef TESTS_UNIT_UNIT_ARCHITECTURES_H
#define TESTS_UNIT_UNIT_ARCHITECTURES_H

#include "tests/unit/unit_model.h"
#include "train/safetensors.h"

/* What the script made, and its batch: between setup and teardown. */
static json_t *golden;
static struct batch batch;

/* The hash of the script: uniform in [-1, 1). */
static inline double hashed(const char *name, size_t i)
{
    uint32_t x = 2166136261u;

    for (; *name; name++)
        x = (x ^ (unsigned char)*name) * 16777619u;
    x += (uint32_t)i * 0x9E3779B9u;
    x = (x ^ (x >> 16)) * 0x85EBCA6Bu;
    x = (x ^ (x >> 13)) * 0xC2B2AE35u;
    x ^= x >> 16;
    return (double)(x >> 8) / (1 << 23) - 1;
}

static inline double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

static inline size_t shape_of(const json_t *shape, size_t at)
{
    return (size_t)json_integer_value(json_array_get(shape, at));
}

/* What a tensor of the file is made from. */
struct made {
    const char *name;
    size_t rank, count;
    double offset;
};

static inline bool read_made(const void *context, size_t index, void *to,
                             struct error *err)
{
    const struct made *made = (const struct made *)context + index;
    double middle = text_ends(made->name, ".bias") ? 0 : 1 - made->offset;
    float *out = to;

    (void)err;
    for (size_t i = 0; i < made->count; i++)
        out[i] = (float)(made->rank == 2 ? 0.35 * hashed(made->name, i)
                                         : 0.2 * hashed(made->name, i) + middle);
    return true;
}

/* What older files have beside the weights of the first block: [1, 1, 2, 2]. */
static inline size_t add_ignored(const json_t *one, struct arena *arena,
                                 struct made *made, struct tensor_source *sources)
{
    const char *type =
        json_string_value(json_object_get(json_object_get(one, "config"), "model_type"));
    const struct architecture *a = architecture_find(type);
    size_t count = 0;

    for (; a->ignored[count]; count++) {
        char *name =
            arena_printf(arena, "%s0%s", a->blocks + strlen(a->base), a->ignored[count]);

        made[count] = (struct made) { name, 4, 4, 0 };
        sources[count] = (struct tensor_source) { .name = name,
                                                  .format = FORMAT_FP32,
                                                  .rank = 4,
                                                  .shape = { 1, 1, 2, 2 },
                                                  .read = read_made,
                                                  .context = &made[count] };
    }
    return count;
}

/* The tensors of a case as a file of a folder.  cut: names are without what they begin
 * with, and masks and frequencies stand beside them. */
static inline void put_tensors(const json_t *one, const char *dir, const char *file,
                               const char *cut)
{
    enum { IGNORED = 8 };
    json_t *tensors = json_object_get(one, "tensors"), *shape;
    size_t count = 0, room = json_object_size(tensors) + IGNORED;
    struct arena *arena = arena_new();
    struct made *made = arena_array(arena, room, sizeof(*made));
    struct tensor_source *sources = arena_array(arena, room, sizeof(*sources));
    char *path = path_join(dir, file);
    struct error err = { 0 };
    const char *name;

    json_object_foreach(tensors, name, shape)
    {
        size_t rank = json_array_size(shape), rows = shape_of(shape, 0),
               cols = rank == 2 ? shape_of(shape, 1) : 1;

        made[count] = (struct made) { name, rank, rows * cols, real(one, "offset") };
        sources[count] = (struct tensor_source) { .name = name,
                                                  .format = FORMAT_FP32,
                                                  .rank = rank,
                                                  .shape = { rows, cols },
                                                  .read = read_made,
                                                  .context = made,
                                                  .index = count };
        if (cut && text_starts(name, cut))
            sources[count].name += strlen(cut);
        count++;
    }
    if (cut)
        count += add_ignored(one, arena, made + count, sources + count);
    unit_must(safetensors_write(path, sources, count, &err), &err);
    free(path);
    arena_free(arena);
}

static inline void put_json(const json_t *value, const char *dir, const char *file)
{
    char *path = path_join(dir, file), *text = json_dumps(value, 0);
    struct error err = { 0 };

    unit_must(file_replace(path, text, strlen(text), 0600, &err), &err);
    free(text);
    free(path);
}

static inline const json_t *find_case(const char *list, const char *name)
{
    const json_t *cases = json_object_get(golden, list);

    for (size_t i = 0; i < json_array_size(cases); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(cases, i), "name")),
                   name) == 0)
            return json_array_get(cases, i);
    fail_msg("there is no %s among the %s", name, list);
    return NULL;
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

/* fp32 on both sides, a few hundred operations deep: what differs is the order of sums.
 */
#define CLOSE 2e-5

static inline double norm_of(struct tensor t)
{
    const float *g = t.data;
    double sum = 0;

    for (size_t i = 0; i < t.rows * t.cols; i++)
        sum += (double)g[i] * g[i];
    return sqrt(sum);
}

static inline int architectures_setup(void **state)
{
    char *path = unit_source("tests/golden/architectures.json");
    struct error err = { 0 };
    const json_t *runs;

    (void)state;
    golden = json_read_file(path, (size_t)4 << 20, &err);
    unit_must(golden != NULL, &err);
    runs = json_object_get(golden, "batch");
    for (size_t i = 0; i < json_array_size(runs); i++)
        unit_batch_json(&batch, json_array_get(runs, i));
    free(path);
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
