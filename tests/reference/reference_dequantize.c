/* tests/reference/reference_dequantize.c - 4-bit values, one at a time. */
#include "config.h"

#include "tests/reference/reference.h"

#include "precision/nf4.h"

void reference_dequantize(const struct reference_dequantize *r)
{
    size_t heads = r->heads ? r->heads : 1, parts = r->heads ? 3 : 1;
    size_t size = r->rows / (parts * heads);

    for (size_t i = 0; i < r->rows * r->cols; i++) {
        unsigned code = i % 2 ? r->codes[i / 2] % 16 : r->codes[i / 2] / 16;
        size_t block = i / 64, row = i / r->cols;
        size_t head = row / (parts * size), part = row / size % parts;
        volatile float absmax = r->absmax[r->bytes ? block / 256 : block];

        if (r->bytes) { /* rounded twice: nothing fused */
            absmax = r->map[r->bytes[block]] * absmax;
            absmax = absmax + r->map[256];
        }
        row = (part * heads + head) * size + row % size;
        r->out[row * r->cols + i % r->cols] = nf4_numbers[code] * absmax;
    }
}
