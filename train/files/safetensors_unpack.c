/* train/files/safetensors_unpack.c - weights of a set in FP8, NVFP4 and MXFP4, with their
 * scales, as matrices of the values that they stand for. */
#include "config.h"

#include "train/files/safetensors.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "train/files/safetensors_internal.h"

#define WEIGHT ".weight"
#define PACKED "_packed"

static const char other_files[] =
    "use the model that it was made from, or a copy of it, in 16 bits";

/* A matrix, or one for each expert, while it is bound to its scales. */
struct binding {
    struct safetensors *set;
    const struct safetensors_packing *how;
    struct stored_tensor *codes;
    const char *stem; /* the codes' name without an ending of theirs */
    size_t count, rows, cols;
    bool *used; /* tensors that are part of a matrix */
};

/* Return the tensor NAME of the stem and an ending, or NULL; it is no tensor of its own
 * any more.  Codes are no scales. */
static const struct stored_tensor *take(const struct binding *b, const char *ending)
{
    const struct stored_tensor *found;
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s%s", b->stem, ending);
    found = safetensors_find(b->set, name.data);
    text_clear(&name);
    if (!found || found->packed)
        return NULL;
    b->used[found - b->set->tensors] = true;
    return found;
}

static size_t elements_of(const struct stored_tensor *t)
{
    return t->bytes / safetensors_dtype_bytes(t->dtype);
}

static bool find_scale_type(const struct stored_tensor *t, enum packed_scale *type)
{
    static const struct {
        const char *dtype;
        enum packed_scale type;
    } types[] = {
        { "F32", SCALE_FP32 }, { "F16", SCALE_FP16 },     { "BF16", SCALE_BF16 },
        { "U8", SCALE_E8M0 },  { "F8_E8M0", SCALE_E8M0 }, { "F8_E4M3", SCALE_E4M3 },
    };

    for (size_t i = 0; i < TS_COUNT(types); i++)
        if (strcmp(t->dtype, types[i].dtype) == 0) {
            *type = types[i].type;
            return true;
        }
    return false;
}

static size_t blocks_of(size_t count, size_t block)
{
    return (count + block - 1) / block;
}

/* A grid of scales: rows of all matrices, one after another. */
struct grid {
    size_t rows, cols;
};

/* Columns may be missing, if there is one, and so may rows, if that is true of them too. */
static bool find_grid(const struct binding *b, const struct stored_tensor *scales,
                      struct grid *out)
{
    const size_t dims = b->codes->rank;

    if (scales->rank < 1 || scales->rank > dims || elements_of(scales) == 0 ||
        (dims == 3 && scales->shape[0] != b->count))
        return false;
    out->cols = scales->rank == dims ? scales->shape[dims - 1] : 1;
    out->rows = elements_of(scales) / out->cols;
    return true;
}

/* Return whether there is a scale for each block; a block does not belong to two matrices. */
static bool fits(const struct binding *b, const struct grid *grid, size_t block_rows,
                 size_t block_cols)
{
    return block_rows > 0 && block_cols > 0 &&
           grid->rows == b->count * blocks_of(b->rows, block_rows) &&
           grid->cols == blocks_of(b->cols, block_cols);
}

/* Find the shape of blocks.  transformers divides the shape of the matrix by that of the
 * scales, and fails where the last block is smaller, as in DeepSeek-V3's latent keys: 576
 * rows in blocks of 128. */
static bool find_blocks(const struct binding *b, const struct stored_tensor *scales,
                        struct packed *packed)
{
    struct grid grid;

    packed->block_rows = b->count * b->rows;
    packed->block_cols = b->cols;
    if (elements_of(scales) == 1)
        return true;
    if (!find_grid(b, scales, &grid))
        return false;
    packed->block_rows = b->how->block_rows;
    packed->block_cols = b->how->block_cols;
    if (fits(b, &grid, packed->block_rows, packed->block_cols))
        return b->count == 1 || b->rows % packed->block_rows == 0;
    packed->block_rows = b->count * b->rows / grid.rows;
    packed->block_cols = b->cols / grid.cols;
    return fits(b, &grid, packed->block_rows, packed->block_cols) &&
           b->rows % packed->block_rows == 0 && b->cols % packed->block_cols == 0;
}

static bool report_shapes(const struct binding *b, const struct stored_tensor *scales,
                          struct error *err)
{
    return error_set(err, ERROR_DATA,
                     "%s: the scales %s of %s with %zu rows and %zu columns are %s with "
                     "%zu elements, which are not those of blocks; %s",
                     scales->file, scales->name, b->codes->name, b->count * b->rows,
                     b->cols, scales->dtype, elements_of(scales), other_files);
}

static bool report_missing(const struct binding *b, const char *ending, const char *other,
                           struct error *err)
{
    return error_set(err, ERROR_DATA,
                     "%s: %s is %s, and its scales are missing: there is no %s%s and no "
                     "%s%s; fetch the model again",
                     b->codes->file, b->codes->name, b->codes->dtype, b->stem, ending,
                     b->stem, other);
}

/* Make the tensor of codes that of the values. */
static void set_matrix(const struct binding *b, const struct packed *packed)
{
    struct arena *arena = b->set->arena;
    struct packed *kept = arena_alloc(arena, sizeof(*kept));
    struct stored_tensor *t = b->codes;
    size_t *shape = arena_array(arena, t->rank, sizeof(*shape));
    size_t item = format_info(b->how->format)->bytes;

    *kept = *packed;
    kept->codes = t->data;
    kept->cols = b->cols;
    memcpy(shape, t->shape, t->rank * sizeof(*shape));
    shape[t->rank - 1] = b->cols;
    t->shape = shape;
    t->format = b->how->format;
    t->dtype = format_info(t->format)->safetensors;
    t->bytes = b->count * b->rows * b->cols * item;
    t->data = NULL;
    t->packed = kept;
}

/* A third dimension, before the others, is that of experts; `most`: 2 or 3. */
static bool check_matrix(struct binding *b, size_t to_byte, size_t most,
                         struct error *err)
{
    const struct stored_tensor *t = b->codes;

    if (t->rank >= 2 && t->rank <= most && t->bytes > 0 && t->bytes <= SIZE_MAX / 16) {
        b->count = t->rank == 3 ? t->shape[0] : 1;
        b->rows = t->shape[t->rank - 2];
        b->cols = t->shape[t->rank - 1] * to_byte;
        return true;
    }
    return error_set(err, ERROR_DATA,
                     "%s: %s has %zu dimensions in %s; only matrices%s are supported; %s",
                     t->file, t->name, t->rank, t->dtype,
                     most > 2 ? ", or those of all experts," : "", other_files);
}

/* ---- FP8 ---- */

static const struct stored_tensor *take_scales(const struct binding *b)
{
    static const char *const endings[] = { "_scale_inv", "_scale" };
    static const char *const instead[] = { ".scale", ".qscale_weight" };
    const struct stored_tensor *found = NULL;
    struct binding stem = *b;

    for (size_t i = 0; !found && i < TS_COUNT(endings); i++)
        found = take(b, endings[i]);
    if (!text_ends(b->stem, WEIGHT))
        return found;
    stem.stem = arena_copy(b->set->arena, b->stem, strlen(b->stem) - strlen(WEIGHT));
    for (size_t i = 0; !found && i < TS_COUNT(instead); i++)
        found = take(&stem, instead[i]);
    return found;
}

static bool bind_fp8(struct binding *b, struct error *err)
{
    struct packed packed = { .code = PACKED_E4M3, .factor = 1 };
    const struct stored_tensor *scales;

    if (!check_matrix(b, 1, 3, err))
        return false;
    scales = take_scales(b);
    if (!scales)
        return report_missing(b, "_scale_inv", "_scale", err);
    if (!find_scale_type(scales, &packed.scale) || packed.scale == SCALE_E4M3 ||
        !find_blocks(b, scales, &packed))
        return report_shapes(b, scales, err);
    packed.scales = scales->data;
    set_matrix(b, &packed);
    return true;
}

/* ---- NVFP4 and MXFP4 ---- */

/* Read the factor that all scales of NVFP4 are multiplied or divided by. */
static bool take_factor(const struct binding *b, struct packed *packed, struct error *err)
{
    const struct stored_tensor *factor = take(b, "_scale_2");

    packed->divides = !factor;
    if (!factor)
        factor = take(b, "_global_scale");
    if (!factor)
        return report_missing(b, "_scale_2", "_global_scale", err);
    if (strcmp(factor->dtype, "F32") != 0 || elements_of(factor) != 1)
        return report_shapes(b, factor, err);
    if (factor->data)
        memcpy(&packed->factor, factor->data, sizeof(packed->factor));
    return true;
}

static bool bind_fp4(struct binding *b, struct error *err)
{
    struct packed packed = { .code = PACKED_E2M1, .block_rows = 1, .factor = 1 };
    const struct stored_tensor *scales;
    struct grid grid;

    if (!check_matrix(b, 2, 2, err))
        return false;
    scales = take(b, "_scale");
    if (!scales)
        return report_missing(b, "_scale", "_scale_2", err);
    if (!find_scale_type(scales, &packed.scale))
        return report_shapes(b, scales, err);
    packed.block_cols = packed.scale == SCALE_E8M0 ? MXFP4_BLOCK : NVFP4_BLOCK;
    if ((packed.scale != SCALE_E8M0 && packed.scale != SCALE_E4M3) ||
        b->cols % packed.block_cols != 0 || !find_grid(b, scales, &grid) ||
        !fits(b, &grid, 1, packed.block_cols))
        return report_shapes(b, scales, err);
    if (packed.scale == SCALE_E4M3 && !take_factor(b, &packed, err))
        return false;
    packed.scales = scales->data;
    set_matrix(b, &packed);
    return true;
}

/* ---- Sets ---- */

/* Return whether a tensor has scales of activations, which are not used in training. */
static bool is_of_activations(const char *name)
{
    static const char *const endings[] = { ".activation_scale", ".input_scale",
                                           ".input_scale_ub",   ".input_global_scale",
                                           ".output_scale",     ".qscale_act",
                                           ".q_scale",          ".k_scale",
                                           ".v_scale" };

    for (size_t i = 0; i < TS_COUNT(endings); i++)
        if (text_ends(name, endings[i]))
            return true;
    return false;
}

/* Return whether it has scales of other tensors. */
static bool is_scales(const char *name)
{
    return text_ends(name, "_scale") || text_ends(name, ".scale") ||
           text_ends(name, "_scale_inv");
}

static bool bind(struct binding *b, struct error *err)
{
    const char *name = b->codes->name;

    b->stem = name;
    if (strcmp(b->codes->dtype, "F8_E4M3") == 0)
        return is_scales(name) || bind_fp8(b, err);
    if (strcmp(b->codes->dtype, "U8") != 0)
        return true;
    if (text_ends(name, WEIGHT PACKED))
        b->stem = arena_copy(b->set->arena, name, strlen(name) - strlen(PACKED));
    return !text_ends(b->stem, WEIGHT) || bind_fp4(b, err);
}

bool safetensors_unpack(struct safetensors *set, const struct safetensors_packing *how,
                        struct error *err)
{
    struct binding b = { .set = set,
                         .how = how,
                         .used = memory_alloc(set->count * sizeof(*b.used) + 1) };
    bool ok = true;

    for (size_t i = 0; ok && i < set->count; i++) {
        b.codes = &set->tensors[i];
        b.used[i] = b.used[i] || is_of_activations(b.codes->name);
        ok = b.used[i] || bind(&b, err);
    }
    for (size_t i = 0; ok && i < set->count; i++) {
        struct stored_tensor *t = &set->tensors[i];

        if (b.used[i])
            t->name = NULL;
        else if (t->packed && text_ends(t->name, WEIGHT PACKED))
            t->name = arena_copy(set->arena, t->name, strlen(t->name) - strlen(PACKED));
    }
    free(b.used);
    return ok && safetensors_drop_nameless(set, err);
}
