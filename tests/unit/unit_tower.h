/*
 * tests/unit/unit_tower.h - the tiny encoders of tests/golden/towers.py: folders with their
 * weights, their inputs, and what transformers computes.
 */
#ifndef TESTS_UNIT_UNIT_TOWER_H
#define TESTS_UNIT_UNIT_TOWER_H

#include "tests/unit/unit.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_hashed_model.h"
#include "train/tower/tower.h"

#ifndef GOLDEN_TOWERS
#define GOLDEN_TOWERS "tests/golden/towers"
#endif

enum { UNIT_TOWER_CASES = 32 };

struct unit_tower_case {
    const char *name;
    const json_t *config, *tensors, *processor, *list; /* of items */
    size_t items;
};

struct unit_tower {
    json_t *golden;
    struct safetensors *results;
    struct arena *arena;
    struct unit_tower_case cases[UNIT_TOWER_CASES];
    size_t count;
    int threads;
    /* changes of the next folder: a prefix of names, a tensor that is left out or cut */
    const char *old_prefix, *new_prefix, *changed;
    bool cut;
    const struct device *device;   /* NULL: the CPU */
    const struct backend_ops *ops; /* NULL: the build's backend for the device */
    char *dir;
    struct backend *be;
    struct tower *tower;
};

static inline void unit_tower_must(bool ok, const struct error *err)
{
    if (!ok)
        fail_msg("%s", err->text);
}

static inline struct unit_tower unit_tower_setup(void)
{
    char *list = unit_source(GOLDEN_TOWERS ".json");
    char *results = unit_source(GOLDEN_TOWERS ".safetensors");
    struct error err = { 0 };
    struct unit_tower u = { .arena = arena_new(), .threads = 1 };
    const json_t *models;

    u.golden = json_read_file(list, (size_t)1 << 20, &err);
    unit_tower_must(u.golden != NULL, &err);
    u.results =
        file_exists(results) ? safetensors_open(results, "model", false, &err) : NULL;
    unit_tower_must(u.results || !file_exists(results), &err);
    models = json_object_get(u.golden, "models");
    for (size_t i = 0; i < json_array_size(models); i++) {
        const json_t *one = json_array_get(models, i);

        assert_true(u.count < UNIT_TOWER_CASES);
        u.cases[u.count++] = (struct unit_tower_case) {
            .name = json_string_value(json_object_get(one, "name")),
            .config = json_object_get(one, "config"),
            .tensors = json_object_get(one, "tensors"),
            .processor = json_object_get(one, "processor"),
            .list = json_object_get(one, "items"),
            .items = json_array_size(json_object_get(one, "items")),
        };
    }
    free(list);
    free(results);
    return u;
}

static inline void unit_tower_teardown(struct unit_tower *u)
{
    json_decref(u->golden);
    safetensors_close(u->results);
    arena_free(u->arena);
}

static inline size_t unit_tower_models(const struct unit_tower *u)
{
    assert_true(u->count > 0);
    return u->count;
}

static inline const struct unit_tower_case *unit_tower_case(const struct unit_tower *u,
                                                            size_t index)
{
    return &u->cases[index];
}

static inline const struct unit_tower_case *unit_tower_named(const struct unit_tower *u,
                                                             const char *name)
{
    for (size_t i = 0; i < u->count; i++)
        if (strcmp(u->cases[i].name, name) == 0)
            return &u->cases[i];
    fail_msg("no model %s", name);
    return NULL;
}

/* ---- The folder ---- */

struct unit_tower_tensor {
    const char *name; /* in towers.py */
    size_t rank, shape[5], count;
};

static inline bool unit_tower_elements(const void *context, size_t index, void *to,
                                       struct error *err)
{
    const struct unit_tower_tensor *t = (const struct unit_tower_tensor *)context + index;
    double size = sqrt(3 / ((double)t->count / (double)t->shape[0]));
    double middle = text_ends(t->name, ".weight") ? 1 : 0;
    float *out = to;

    (void)err;
    for (size_t i = 0; i < t->count; i++)
        out[i] = (float)(t->rank > 1 ? size * hashed(t->name, i)
                                     : 0.2 * hashed(t->name, i) + middle);
    return true;
}

static inline const char *unit_tower_rename(const struct unit_tower *u, const char *name)
{
    if (!u->old_prefix || !text_starts(name, u->old_prefix))
        return name;
    return arena_printf(u->arena, "%s%s", u->new_prefix, name + strlen(u->old_prefix));
}

/* Write the tensors of these names and shapes. */
static inline void unit_tower_write(struct unit_tower *u, const json_t *tensors,
                                    const char *path)
{
    const size_t room = json_object_size((json_t *)tensors);
    struct unit_tower_tensor *list = arena_array(u->arena, room, sizeof(*list));
    struct tensor_source *sources = arena_array(u->arena, room, sizeof(*sources));
    struct error err = { 0 };
    size_t count = 0;
    const char *name;
    json_t *shape;

    json_object_foreach((json_t *)tensors, name, shape)
    {
        struct unit_tower_tensor *t = &list[count];
        const bool changed = u->changed && strcmp(u->changed, name) == 0;

        if (changed && !u->cut)
            continue;
        *t = (struct unit_tower_tensor) { name, json_array_size(shape), { 0 }, 1 };
        for (size_t i = 0; i < t->rank; i++) {
            t->shape[i] = (size_t)json_integer_value(json_array_get(shape, i));
            t->shape[i] -= changed && i == 0;
            t->count *= t->shape[i];
        }
        sources[count] = (struct tensor_source) { .name = unit_tower_rename(u, name),
                                                  .format = FORMAT_FP32,
                                                  .rank = t->rank,
                                                  .read = unit_tower_elements,
                                                  .context = list,
                                                  .index = count };
        memcpy(sources[count].shape, t->shape, sizeof(t->shape));
        count++;
    }
    unit_tower_must(safetensors_write(path, sources, count, &err), &err);
}

static inline void unit_tower_put(struct unit_tower *u, const struct unit_tower_case *one)
{
    char *path = path_join(u->dir, "model.safetensors");

    unit_tower_write(u, one->tensors, path);
    free(path);
    put_json(one->config, u->dir, "config.json");
    if (one->processor)
        put_json(one->processor, u->dir, "preprocessor_config.json");
}

static inline bool unit_tower_try(struct unit_tower *u, const struct unit_tower_case *one,
                                  struct tower_options options, struct error *err)
{
    static const struct device cpu = { .kind = DEVICE_CPU, .ordinal = -1 };
    const struct backend_options with = { .device = u->device ? u->device : &cpu,
                                          .threads = u->threads };

    u->dir = unit_dir_new();
    unit_tower_put(u, one);
    u->be = u->ops ? u->ops->open(&with, err) : backend_open(&with, err);
    unit_tower_must(u->be != NULL, err);
    options.model_dir = u->dir;
    options.backend = u->be;
    u->tower = tower_open(&options, err);
    return u->tower != NULL;
}

static inline void unit_tower_open(struct unit_tower *u,
                                   const struct unit_tower_case *one,
                                   struct tower_options options)
{
    struct error err = { 0 };

    if (!unit_tower_try(u, one, options, &err))
        fail_msg("%s: %s", one->name, err.text);
}

static inline void unit_tower_close(struct unit_tower *u)
{
    tower_free(u->tower);
    backend_close(u->be);
    unit_dir_free(u->dir);
    u->tower = NULL;
    u->old_prefix = u->new_prefix = u->changed = NULL;
    u->cut = false;
}

/* ---- Items ---- */

static inline size_t unit_tower_number(const json_t *list, size_t at)
{
    return (size_t)json_integer_value(json_array_get(list, at));
}

/* Where patch `index` of the processor's list is: that of Qwen has blocks of patches. */
static inline size_t unit_tower_patch(const struct tower_config *c,
                                      const struct media_input *in, size_t index)
{
    const size_t side = c->family->patches_in_blocks ? c->block : 1, per = side * side;
    const size_t across = in->height > 0 ? in->width / side : 1;
    const size_t block = index / per, y = block / across * side + index % per / side;

    return y * across * side + block % across * side + index % side;
}

/* Free the result with unit_tower_input_free. */
static inline struct media_input unit_tower_input(const struct unit_tower *u,
                                                  const struct unit_tower_case *one,
                                                  size_t item)
{
    const struct tower_config *c = tower_config_of(u->tower);
    const json_t *list = json_array_get(one->list, item);
    const char *name = arena_printf(u->arena, "%s %zu", one->name, item);
    struct media_input in = { .columns = c->mels };

    if (c->mels > 0) {
        in.windows = json_array_size(list);
        in.rows =
            c->positions > 0 ? in.windows * 2 * c->positions : unit_tower_number(list, 0);
        in.heard = memory_alloc(in.windows * sizeof(*in.heard));
        for (size_t i = 0; i < in.windows; i++)
            in.heard[i] = unit_tower_number(list, i);
    } else {
        in.columns = c->patch_columns;
        in.height = unit_tower_number(list, 0);
        in.width = unit_tower_number(list, 1);
        in.windows = unit_tower_number(list, 2); /* 0: not a tile */
        in.rows = (in.windows > 0 ? in.windows : 1) * in.height * in.width;
    }
    in.values = memory_alloc(in.rows * in.columns * sizeof(*in.values));
    for (size_t i = 0; i < in.rows * in.columns; i++) {
        const size_t row = unit_tower_patch(c, &in, i / in.columns);

        in.values[row * in.columns + i % in.columns] = (float)hashed(name, i);
    }
    return in;
}

static inline void unit_tower_run(const struct unit_tower *u,
                                  const struct unit_tower_case *one, size_t item,
                                  struct tower_output *out)
{
    struct media_input in = unit_tower_input(u, one, item);
    struct error err = { 0 };

    if (!tower_run(u->tower, &in, out, &err))
        fail_msg("%s, item %zu: %s", one->name, item, err.text);
    free(in.values);
    free(in.heard);
}

static inline const struct stored_tensor *
unit_tower_result(const struct unit_tower *u, const struct unit_tower_case *one,
                  size_t item, const char *part)
{
    return safetensors_find(u->results,
                            arena_printf(u->arena, "%s.%zu.%s", one->name, item, part));
}

static inline bool unit_tower_has(const struct unit_tower *u,
                                  const struct unit_tower_case *one, size_t item,
                                  const char *part)
{
    return unit_tower_result(u, one, item, part) != NULL;
}

/* Compare with transformers' rows: within `close` times the largest of them. */
static inline void unit_tower_compare(const struct unit_tower *u,
                                      const struct unit_tower_case *one, size_t item,
                                      const char *part, const void *rows,
                                      const struct tower_output *out, size_t width,
                                      double close)
{
    const struct stored_tensor *want = unit_tower_result(u, one, item, part);
    const size_t count = out->count * width;
    float *got = memory_alloc(count * sizeof(*got));
    const float *expected;
    double largest = 0, far = 0;

    assert_non_null(want);
    if (want->shape[0] != out->count || want->shape[1] != width)
        fail_msg("%s, item %zu, %s: %zu x %zu, not %zu x %zu", one->name, item, part,
                 out->count, width, want->shape[0], want->shape[1]);
    expected = want->data;
    format_convert(got, FORMAT_FP32, rows, out->format, count);
    for (size_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)expected[i]));
        far = isfinite(got[i]) ? fmax(far, fabs((double)got[i] - expected[i])) : INFINITY;
    }
    assert_true(largest > 0.1);
    if (!(far <= close * largest))
        fail_msg("%s, item %zu, %s: %g of %g", one->name, item, part, far, largest);
    free(got);
}

#endif
