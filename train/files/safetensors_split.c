/* train/files/safetensors_split.c - tensors of a set as several matrices each: those of the
 * experts of a model, which some files have in one tensor. */
#include "config.h"

#include "train/files/safetensors.h"

#include <stdlib.h>

#include "train/files/safetensors_internal.h"

/* Fill in matrix `index` of a tensor that holds `count` for each expert. */
static void set_part(struct safetensors *set, const struct stored_tensor *from,
                     size_t index, size_t count, bool transposed,
                     struct stored_tensor *part)
{
    const size_t all_rows = from->shape[transposed ? 2 : 1];
    const size_t item = from->bytes / (from->shape[0] * from->shape[1] * from->shape[2]);
    size_t *shape = arena_array(set->arena, 2, sizeof(*shape));
    const char *data = from->data;
    size_t at;

    *part = *from;
    shape[0] = all_rows / count;
    shape[1] = from->shape[transposed ? 1 : 2];
    at = index / count * all_rows * shape[1] +
         index % count * shape[0] * (transposed ? 1 : shape[1]);
    part->rank = 2;
    part->shape = shape;
    part->bytes = shape[0] * shape[1] * item;
    part->data = data ? data + at * item : NULL;
    part->pitch = transposed ? all_rows : 0;
}

/* Replace a tensor by its matrices, of which there are `count` for each expert. */
static bool split(struct safetensors *set, size_t place, size_t count,
                  const struct safetensors_parts *parts, struct error *err)
{
    const struct stored_tensor from = set->tensors[place];
    const size_t rows = parts->transposed ? 2 : 1;
    struct text name;

    if (from.rank != 3 || from.shape[0] != parts->experts || from.shape[1] == 0 ||
        from.shape[2] == 0 || from.shape[rows] % count != 0)
        return error_set(err, ERROR_DATA,
                         "%s: %s has another shape, config.json requires [%zu, %s%zu%s]",
                         from.file, from.name, parts->experts,
                         parts->transposed ? ".., a multiple of " : "a multiple of ",
                         count, parts->transposed ? "" : ", ..");
    text_init(&name, 0);
    for (size_t i = 0; i < parts->experts * count; i++) {
        struct stored_tensor *to = i == 0 ? &set->tensors[place] : safetensors_add(set);

        set_part(set, &from, i, count, parts->transposed, to);
        text_reset(&name);
        parts->name(parts->context, from.name, i, &name);
        to->name = arena_strdup(set->arena, name.data);
    }
    text_clear(&name);
    return true;
}

bool safetensors_split(struct safetensors *set, const struct safetensors_parts *parts,
                       size_t *split_count, struct error *err)
{
    const size_t count = set->count;

    *split_count = 0;
    for (size_t i = 0; i < count; i++) {
        size_t each = parts->count(parts->context, set->tensors[i].name);

        if (each == 0)
            continue;
        if (!split(set, i, each, parts, err))
            return false;
        ++*split_count;
    }
    if (*split_count == 0)
        return true;
    free(set->sorted);
    set->sorted = NULL;
    return safetensors_sort(set, err);
}
