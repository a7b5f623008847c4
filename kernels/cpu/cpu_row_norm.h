/* kernels/cpu/cpu_row_norm.h - code shared by row norms: the residual sum that is
 * computed while a row is read, and sums over rows. */
#ifndef KERNELS_CPU_CPU_ROW_NORM_H
#define KERNELS_CPU_CPU_ROW_NORM_H

#include "kernels/cpu/cpu_vector.h"
#include "kernels/tensor.h"

/* Columns of one task, and rows summed before they are added to the total, in sums over
 * rows. */
enum { ROWS_COLUMNS = 64, ROWS_PART = 64 };

/* Sums over a row alternate between two vectors, so that one does not wait for the other:
 * these are the steps of a loop over both. */
enum { ROWS_STEP = 2 * LANES };

/* x + delta at a position, written to `sum` unless that is NULL. */
CPU_INLINE vec rows_summed(const float *x, const void *delta, enum format format,
                           float *sum, size_t at, size_t cols)
{
    size_t count = vec_count(at, cols);
    vec s = vec_load(x, FORMAT_FP32, at, count);

    if (delta)
        s += vec_load(delta, format, at, count);
    if (sum)
        vec_store(sum, FORMAT_FP32, at, count, s);
    return s;
}

/* Add the sums of columns [first, cols) to `to` (1, C), fp32. */
CPU_INLINE void rows_total(struct tensor to, const vec *sums, size_t first, size_t cols)
{
    for (size_t i = first; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);

        vec_store(to.data, FORMAT_FP32, i, count,
                  vec_load(to.data, FORMAT_FP32, i, count) + sums[(i - first) / LANES]);
    }
}

#endif
