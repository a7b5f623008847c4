/* train/model/matrix_layout.c - copies rows of a matrix from a file's layout and back. */
#include "config.h"

#include "train/model/matrix_layout.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* Return the row of the file that holds row i of the model. */
static size_t file_row(const struct matrix_layout *s, size_t i)
{
    size_t size, group, head, unit, at;

    if (!storage_moves_rows(s->storage))
        return i;
    if (s->storage == STORED_PAIRS) {
        size = s->rows / (2 * s->heads);
        head = i / size;
        return (2 * (head % s->heads) + head / s->heads) * size + i % size;
    }
    size = s->rows / (s->heads + 2 * s->kv_heads);
    group = s->heads / s->kv_heads;
    head = i / size;
    unit = head < s->heads ? head / group : (head - s->heads) % s->kv_heads;
    at = head < s->heads ? head % group : group + (head - s->heads) / s->kv_heads;
    return (unit * (group + 2) + at) * size + i % size;
}

/* Return the element of a transposed file that is element (i, j) of the model. */
static size_t transposed(const struct matrix_layout *s, size_t i, size_t j)
{
    return j * (s->pitch > 0 ? s->pitch : s->rows) + i;
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
                         in + transposed(s, first, j) * s->item, 1, count, s->item);
    else
        for (size_t i = 0; i < count; i++)
            memcpy(out + i * bytes, in + file_row(s, first + i) * bytes, bytes);
}

void matrix_layout_scatter(const struct matrix_layout *s, const void *rows, size_t first,
                           size_t count, void *file)
{
    const char *in = rows;
    char *out = file;
    size_t bytes = s->cols * s->item;

    if (s->storage == STORED_COLUMNS)
        for (size_t j = 0; j < s->cols; j++)
            copy_strided(out + transposed(s, first, j) * s->item, 1, in + j * s->item,
                         s->cols, count, s->item);
    else
        for (size_t i = 0; i < count; i++)
            memcpy(out + file_row(s, first + i) * bytes, in + i * bytes, bytes);
}
