/* train/model/matrix_layout.c - copies rows of a matrix from a file's layout and back. */
#include "config.h"

#include "train/model/matrix_layout.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

struct row_order matrix_layout_order(const struct model_config *c, enum storage storage,
                                     size_t rows)
{
    const struct linear_attention *delta = &c->delta;
    size_t size, group;

    switch (storage) {
    case STORED_HEADS:
        size = rows / (c->heads + 2 * c->kv_heads);
        return (struct row_order) { c->kv_heads,
                                    { c->heads / c->kv_heads * size, size, size } };
    case STORED_PAIRS:
        size = rows / (2 * c->heads);
        return (struct row_order) { c->heads, { size, size } };
    case STORED_KEY_HEADS:
        group = delta->heads / delta->key_heads;
        if (rows == 2 * delta->heads)
            return (struct row_order) { delta->key_heads, { group, group } };
        size = group * delta->value_size;
        return (struct row_order) { delta->key_heads,
                                    { delta->key_size, delta->key_size, size, size } };
    case STORED_EXPERT_PAIRS: /* of each matrix of a stack */
        size = rows / (2 * c->experts);
        return (struct row_order) { size, { 1, 1 } };
    default:
        return (struct row_order) { 0 };
    }
}

static size_t step_of(const struct matrix_layout *s)
{
    return s->step > 0 ? s->step : 1;
}

/* Return the element of a transposed file that is element (i, j) of the model. */
static size_t transposed(const struct matrix_layout *s, size_t i, size_t j)
{
    return j * (s->pitch > 0 ? s->pitch : s->rows) + i * step_of(s);
}

/* out[j * to] = in[j * from], in elements. */
static void copy_strided(char *out, size_t to, const char *in, size_t from, size_t count,
                         size_t item)
{
    uint16_t two;
    uint32_t four;

    assert(item == sizeof(two) || item == sizeof(four));
    if (item == sizeof(two))
        for (size_t j = 0; j < count; j++) {
            memcpy(&two, in + j * from * sizeof(two), sizeof(two));
            memcpy(out + j * to * sizeof(two), &two, sizeof(two));
        }
    else
        for (size_t j = 0; j < count; j++) {
            memcpy(&four, in + j * from * sizeof(four), sizeof(four));
            memcpy(out + j * to * sizeof(four), &four, sizeof(four));
        }
}

void matrix_layout_shape(const struct matrix_layout *s, size_t *shape)
{
    const size_t matrices = matrix_layout_is_stack(s->storage) ? s->matrices : 1;
    const bool transposed = s->storage == STORED_COLUMNS;

    shape[0] = transposed ? s->cols : s->rows / matrices;
    shape[1] = transposed ? s->rows : s->cols * matrices;
}

/* Return the element of a file that is the first of a row of a stack; the others follow at
 * a distance of `matrices`. */
static size_t stacked(const struct matrix_layout *s, size_t row)
{
    const size_t each = s->rows / s->matrices;

    return row_order_in_file(&s->order, row % each) * s->cols * s->matrices + row / each;
}

/* The columns of patch k, which follow each other in the model. */
static void gather_patches(const struct matrix_layout *s, const char *in, char *out)
{
    const size_t each = s->cols / s->matrices;

    for (size_t k = 0; k < s->matrices; k++)
        copy_strided(out + k * each * s->item, 1, in + k * s->item, s->matrices, each,
                     s->item);
}

static void scatter_patches(const struct matrix_layout *s, const char *in, char *out)
{
    const size_t each = s->cols / s->matrices;

    for (size_t k = 0; k < s->matrices; k++)
        copy_strided(out + k * s->item, s->matrices, in + k * each * s->item, 1, each,
                     s->item);
}

void matrix_layout_gather(const struct matrix_layout *s, const void *file, size_t first,
                          size_t count, void *rows)
{
    const char *in = file;
    char *out = rows;
    size_t bytes = s->cols * s->item;

    if (s->storage ==
        STORED_COLUMNS) /* along the rows of the file, which may be mapped */
        for (size_t j = 0; j < s->cols; j++)
            copy_strided(out + j * s->item, s->cols,
                         in + transposed(s, first, j) * s->item, step_of(s), count,
                         s->item);
    else if (s->storage == STORED_PATCHES)
        for (size_t i = 0; i < count; i++)
            gather_patches(s, in + (first + i) * bytes, out + i * bytes);
    else if (s->matrices > 0)
        for (size_t i = 0; i < count; i++)
            copy_strided(out + i * bytes, 1, in + stacked(s, first + i) * s->item,
                         s->matrices, s->cols, s->item);
    else
        for (size_t i = 0; i < count; i++)
            memcpy(out + i * bytes, in + row_order_in_file(&s->order, first + i) * bytes,
                   bytes);
}

void matrix_layout_scatter(const struct matrix_layout *s, const void *rows, size_t first,
                           size_t count, void *file)
{
    const char *in = rows;
    char *out = file;
    size_t bytes = s->cols * s->item;

    if (s->storage == STORED_COLUMNS)
        for (size_t j = 0; j < s->cols; j++)
            copy_strided(out + transposed(s, first, j) * s->item, step_of(s),
                         in + j * s->item, s->cols, count, s->item);
    else if (s->storage == STORED_PATCHES)
        for (size_t i = 0; i < count; i++)
            scatter_patches(s, in + i * bytes, out + (first + i) * bytes);
    else if (s->matrices > 0)
        for (size_t i = 0; i < count; i++)
            copy_strided(out + stacked(s, first + i) * s->item, s->matrices,
                         in + i * bytes, 1, s->cols, s->item);
    else
        for (size_t i = 0; i < count; i++)
            memcpy(out + row_order_in_file(&s->order, first + i) * bytes, in + i * bytes,
                   bytes);
}
