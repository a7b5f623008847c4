/* train/files/safetensors_split.c - tensors of a set as several matrices each: those of the
 * experts of a model, which some files have in one tensor. */
#include "config.h"

#include "train/files/safetensors.h"

#include <string.h>

#include "train/files/safetensors_internal.h"

/* A tensor while it is divided. */
struct whole {
    struct stored_tensor from;
    const struct stored_tensor *scales; /* of blocks */
    const struct safetensors_parts *parts;
    size_t each; /* matrices of an expert */
};

static bool is_bias(const struct stored_tensor *t)
{
    return text_ends(t->name, "_bias");
}

static bool is_blocks(const struct stored_tensor *t)
{
    return text_ends(t->name, "_blocks");
}

static const char *byte_at(const struct stored_tensor *t, size_t at)
{
    return t->data ? (const char *)t->data + at : NULL;
}

static size_t *new_shape(struct safetensors *set, size_t rows, size_t cols,
                         struct stored_tensor *part)
{
    size_t *shape = arena_array(set->arena, 2, sizeof(*shape));

    shape[0] = rows;
    shape[1] = cols;
    part->shape = shape;
    return shape;
}

/* Fill in matrix `index` of a tensor that holds `each` for each expert. */
static void set_matrix(struct safetensors *set, const struct whole *w, size_t index,
                       struct stored_tensor *part)
{
    const struct stored_tensor *from = &w->from;
    const bool turned = w->parts->transposed;
    const size_t all_rows = from->shape[turned ? 2 : 1];
    const size_t cols = from->shape[turned ? 1 : 2];
    const size_t item = from->bytes / (from->shape[0] * all_rows * cols);
    const size_t rows = all_rows / w->each, apart = w->parts->interleaved ? 1 : rows;

    new_shape(set, rows, cols, part);
    part->rank = 2;
    part->bytes = rows * cols * item;
    part->data = byte_at(from, (index / w->each * all_rows * cols +
                                index % w->each * apart * (turned ? 1 : cols)) *
                                   item);
    part->pitch = turned ? all_rows : 0;
    part->step = w->parts->interleaved ? w->each : 1;
}

/* The same of biases, which are like columns of matrices. */
static void set_bias(struct safetensors *set, const struct whole *w, size_t index,
                     struct stored_tensor *part)
{
    const struct stored_tensor *from = &w->from;
    const size_t all = from->shape[1], count = all / w->each;
    const size_t item = from->bytes / (from->shape[0] * all);
    const size_t apart = w->parts->interleaved ? 1 : count;

    new_shape(set, count, 1, part);
    part->rank = 1;
    part->bytes = count * item;
    part->data = byte_at(from, (index / w->each * all + index % w->each * apart) * item);
    part->pitch = all;
    part->step = w->parts->interleaved ? w->each : 1;
}

/* Give a part the rows of codes that belong to it. */
static void set_packed(struct safetensors *set, const struct whole *w, size_t index,
                       const struct packed *whole, struct stored_tensor *part)
{
    const size_t all_rows = w->from.shape[1], rows = all_rows / w->each;
    const size_t apart = w->parts->interleaved ? 1 : rows;
    struct packed *packed = arena_alloc(set->arena, sizeof(*packed));

    *packed = *whole;
    packed->first = index / w->each * all_rows + index % w->each * apart;
    packed->step = w->parts->interleaved ? w->each : 1;
    new_shape(set, rows, packed->cols, part);
    part->rank = 2;
    part->bytes = rows * packed->cols * format_info(part->format)->bytes;
    part->packed = packed;
}

/* The same of matrices in MXFP4, whose blocks are along the rows. */
static void set_blocks(struct safetensors *set, const struct whole *w, size_t index,
                       struct stored_tensor *part)
{
    const struct packed whole = { .code = PACKED_E2M1,
                                  .scale = SCALE_E8M0,
                                  .codes = w->from.data,
                                  .scales = w->scales->data,
                                  .cols = w->from.shape[2] * MXFP4_BLOCK,
                                  .block_rows = 1,
                                  .block_cols = MXFP4_BLOCK,
                                  .factor = 1 };

    part->format = FORMAT_BF16;
    part->dtype = "BF16";
    part->data = NULL;
    set_packed(set, w, index, &whole, part);
}

static void set_part(struct safetensors *set, const struct whole *w, size_t index,
                     struct stored_tensor *part)
{
    *part = w->from;
    if (w->from.packed)
        set_packed(set, w, index, w->from.packed, part);
    else if (is_blocks(&w->from))
        set_blocks(set, w, index, part);
    else if (is_bias(&w->from))
        set_bias(set, w, index, part);
    else
        set_matrix(set, w, index, part);
}

/* Return the scales that belong to blocks: (experts, rows, blocks) of U8. */
static struct stored_tensor *find_scales(const struct safetensors *set,
                                         const struct stored_tensor *blocks)
{
    static const char ends[] = "_scales";
    const size_t stem = strlen(blocks->name) - strlen("_blocks");

    for (size_t i = 0; i < set->count; i++) {
        struct stored_tensor *t = &set->tensors[i];

        if (t->name && strncmp(t->name, blocks->name, stem) == 0 &&
            strcmp(t->name + stem, ends) == 0)
            return t;
    }
    return NULL;
}

static bool check_packed(const struct whole *w, struct error *err)
{
    const struct stored_tensor *from = &w->from, *scales = w->scales;

    if (!scales)
        return error_set(err, ERROR_DATA, "%s: the scales of %s are missing", from->file,
                         from->name);
    return (strcmp(from->dtype, "U8") == 0 && strcmp(scales->dtype, "U8") == 0 &&
            scales->rank == 3 && from->shape[3] == MXFP4_BYTES &&
            memcmp(scales->shape, from->shape, 3 * sizeof(*scales->shape)) == 0) ||
           error_set(err, ERROR_DATA,
                     "%s: %s and its scales are not blocks of %d elements in MXFP4",
                     from->file, from->name, MXFP4_BLOCK);
}

static bool check(const struct whole *w, struct error *err)
{
    const struct stored_tensor *from = &w->from;
    const bool turned = w->parts->transposed && !is_blocks(from) && !is_bias(from);
    const size_t rows = turned ? 2 : 1;
    const size_t rank = is_blocks(from) ? 4 : is_bias(from) ? 2 : 3;
    bool ok = from->rank == rank && from->bytes > 0 &&
              from->shape[0] == w->parts->experts && from->shape[rows] % w->each == 0;

    if (!ok)
        return error_set(err, ERROR_DATA,
                         "%s: %s has another shape, config.json requires [%zu, %s%zu%s]",
                         from->file, from->name, w->parts->experts,
                         turned ? ".., a multiple of " : "a multiple of ", w->each,
                         turned || rank == 2 ? ""
                         : rank == 4         ? ", .., 16"
                                             : ", ..");
    if (from->packed && (turned || is_bias(from)))
        return error_set(
            err, ERROR_DATA,
            "%s: %s is %s, which is not supported in FP8; use the model that "
            "it was made from, or a copy of it, in 16 bits",
            from->file, from->name, turned ? "transposed" : "a bias");
    return !is_blocks(from) || check_packed(w, err);
}

/* Give a tensor of two dimensions that of the experts. */
static bool unfold(struct safetensors *set, const struct safetensors_parts *parts,
                   struct stored_tensor *t, struct error *err)
{
    size_t *shape;

    if (t->rank != 2 || t->shape[0] % parts->experts != 0)
        return error_set(err, ERROR_DATA,
                         "%s: %s has another shape, config.json requires [a multiple of "
                         "%zu, ..]",
                         t->file, t->name, parts->experts);
    shape = arena_array(set->arena, 3, sizeof(*shape));
    shape[0] = parts->experts;
    shape[1] = t->shape[0] / parts->experts;
    shape[2] = t->shape[1];
    t->shape = shape;
    t->rank = 3;
    return true;
}

/* Replace a tensor by its matrices, of which there are `each` for each expert. */
static bool split(struct safetensors *set, size_t place, size_t each,
                  const struct safetensors_parts *parts, struct error *err)
{
    struct safetensors_parts own = *parts;
    struct whole w = { .from = set->tensors[place], .parts = &own, .each = each };
    struct stored_tensor *found = is_blocks(&w.from) ? find_scales(set, &w.from) : NULL;
    struct stored_tensor scales;
    struct text name;

    w.scales = found;
    if (parts->turns) {
        own.transposed = parts->turns(parts->context, w.from.name);
        if (!unfold(set, parts, &w.from, err))
            return false;
    }
    if (!check(&w, err))
        return false;
    if (found) { /* it is no tensor of its own any more */
        scales = *found;
        w.scales = &scales;
        found->name = NULL;
    }
    text_init(&name, 0);
    for (size_t i = 0; i < parts->experts * each; i++) {
        struct stored_tensor *to = i == 0 ? &set->tensors[place] : safetensors_add(set);

        set_part(set, &w, i, to);
        text_reset(&name);
        parts->name(parts->context, w.from.name, i, &name);
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
        const char *name = set->tensors[i].name;
        size_t each = name ? parts->count(parts->context, name) : 0;

        if (each == 0)
            continue;
        if (!split(set, i, each, parts, err))
            return false;
        ++*split_count;
    }
    if (*split_count == 0)
        return true;
    return safetensors_drop_nameless(set, err);
}
