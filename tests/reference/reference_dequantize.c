/* tests/reference/reference_dequantize.c - values of codes, one at a time. */
#include "config.h"

#include "tests/reference/reference.h"

#include "precision/nf4.h"

/* Return the row of x for block `block` of D rows of the output: a head of q, k or v. */
static size_t block_in_x(const struct reference_dequantize *r, size_t block)
{
    size_t group = r->heads / r->kv_heads;

    if (block < r->heads)
        return block / group * (group + 2) + block % group;
    block -= r->heads;
    return block % r->kv_heads * (group + 2) + group + block / r->kv_heads;
}

static size_t row_in_x(const struct reference_dequantize *r, size_t row)
{
    size_t size;

    if (r->heads == 0)
        return row;
    if (r->kv_heads == 0) { /* all q, then all gates; in x a head and its gate in turn */
        size = r->rows / (2 * r->heads);
        return row / size < r->heads
                   ? row / size * 2 * size + row % size
                   : (row / size - r->heads) * 2 * size + size + row % size;
    }
    size = r->rows / (r->heads + 2 * r->kv_heads);
    return block_in_x(r, row / size) * size + row % size;
}

static float value_of_integer(const struct reference_dequantize *r, size_t row,
                              size_t col)
{
    size_t i = row * r->cols + col;
    unsigned code = r->bits == 8 ? r->codes[i]
                    : i % 2      ? r->codes[i / 2] % 16
                                 : r->codes[i / 2] / 16;
    size_t factor = row * r->groups + (r->columns ? r->columns[col] : col / r->group);

    return (float)((double)code - r->zeros[factor]) * r->scales[factor];
}

void reference_dequantize(const struct reference_dequantize *r)
{
    for (size_t n = 0; n < r->rows * r->cols; n++) {
        size_t row = row_in_x(r, n / r->cols), i = row * r->cols + n % r->cols;
        size_t block = i / 64;
        unsigned code;
        volatile float absmax;

        if (r->bits) {
            r->out[n] = value_of_integer(r, row, n % r->cols);
            continue;
        }
        code = i % 2 ? r->codes[i / 2] % 16 : r->codes[i / 2] / 16;
        absmax = r->absmax[r->bytes ? block / 256 : block];
        if (r->bytes) { /* rounded twice: nothing fused */
            absmax = r->map[r->bytes[block]] * absmax;
            absmax = absmax + r->map[256];
        }
        r->out[n] = nf4_numbers[code] * absmax;
    }
}
