/* kernels/unfold.c - the rows that a convolution over rows reads. */
#include "config.h"

#include "kernels/unfold.h"

#include <assert.h>

#include "base/size.h"

size_t unfold_rows(const struct unfold_line *line, size_t rows)
{
    size_t padded = rows + 2 * line->padding;

    return rows == 0 || padded < line->size ? 0
                                            : (padded - line->size) / line->stride + 1;
}

void unfold_taps(const struct unfold_line *line, const int32_t *offsets, size_t sequences,
                 int32_t *taps)
{
    for (size_t s = 0; s < sequences; s++) {
        int64_t first = offsets[s], end = offsets[s + 1];
        size_t rows = unfold_rows(line, (size_t)(end - first));

        for (size_t row = 0; row < rows; row++)
            for (size_t k = 0; k < line->size; k++) {
                int64_t at =
                    first + (int64_t)(row * line->stride + k) - (int64_t)line->padding;

                *taps++ = at >= first && at < end ? (int32_t)at : -1;
            }
    }
}

size_t unfold_most(const struct unfold_line *line)
{
    return size_divide_up(line->size, line->stride);
}

void unfold_uses(const int32_t *taps, size_t count, size_t rows, size_t most,
                 int32_t *uses)
{
    for (size_t i = 0; i < rows * most; i++)
        uses[i] = -1;
    for (size_t i = 0; i < count; i++) {
        size_t u = 0;

        if (taps[i] < 0)
            continue;
        assert((size_t)taps[i] < rows);
        while (u < most && uses[(size_t)taps[i] * most + u] >= 0)
            u++;
        assert(u < most);
        uses[(size_t)taps[i] * most + u] = (int32_t)i;
    }
}
