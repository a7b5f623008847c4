/*
 * tests/unit/unit_hashed_model.h - files of models whose weights are computed from their
 * names, as `make` of tests/golden/architectures.py does.
 */
#ifndef TESTS_UNIT_UNIT_HASHED_MODEL_H
#define TESTS_UNIT_UNIT_HASHED_MODEL_H

#include "tests/unit/unit.h"

#include "base/file.h"
#include "base/json.h"
#include "train/model/architecture.h"
#include "train/files/safetensors.h"

/* The script's hash: uniform in [-1, 1). */
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
    bool zero = text_ends(made->name, ".bias") || text_ends(made->name, ".act_fn.eps");
    double middle = zero ? 0 : 1 - made->offset;
    float *out = to;

    (void)err;
    for (size_t i = 0; i < made->count; i++)
        out[i] = (float)(made->rank == 2 || made->rank == 3
                             ? 0.35 * hashed(made->name, i)
                             : 0.2 * hashed(made->name, i) + middle);
    return true;
}

/* Buffers that older files store next to the weights of the first block: [1, 1, 2, 2]. */
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

/* Write the tensors of a case as a file in a folder.  cut: names lack their prefix, and
 * masks and frequencies are included. */
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
        size_t rank = json_array_size(shape), elements = 1;

        sources[count] = (struct tensor_source) { .name = name,
                                                  .format = FORMAT_FP32,
                                                  .rank = rank,
                                                  .read = read_made,
                                                  .context = made,
                                                  .index = count };
        for (size_t i = 0; i < rank; i++)
            elements *= sources[count].shape[i] = shape_of(shape, i);
        made[count] = (struct made) { name, rank, elements, real(one, "offset") };
        if (cut && text_starts(name, cut))
            sources[count].name += strlen(cut);
        count++;
    }
    if (cut)
        count += add_ignored(one, arena, made + count, sources + count);
    if (!safetensors_write(path, sources, count, &err))
        fail_msg("%s", err.text);
    free(path);
    arena_free(arena);
}

static inline void put_json(const json_t *value, const char *dir, const char *file)
{
    char *path = path_join(dir, file), *text = json_dumps(value, 0);
    struct error err = { 0 };

    if (!file_replace(path, text, strlen(text), 0600, &err))
        fail_msg("%s", err.text);
    free(text);
    free(path);
}

#endif
