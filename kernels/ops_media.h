/* kernels/ops_media.h - rows of sounds and images: set into the embeddings, averaged,
 * filtered, and unfolded for convolutions (part of kernels/ops.h). */
#ifndef KERNELS_OPS_MEDIA_H
#define KERNELS_OPS_MEDIA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/tensor.h"

/*
 * x[at[i]] = rows[i];  add: x[at[i]] += rows[i];  other rows of x do not change
 *   x    (N, C) fp32
 *   rows (M, C) any format
 *   at   (M) int32 below N, no two equal; or negative: rows[i] is not read.  So a buffer
 *        of more rows than a batch has needs no other operation for each batch.
 */
struct op_place_rows {
    struct tensor x, rows;
    const int32_t *at;
    bool add;
};

/*
 * drows[i] = dx[at[i]], 0 if at[i] is negative;  then, unless add, dx[at[i]] = 0
 *   dx    (N, C) fp32: on entry the gradient of the new x, on return that of the old one
 *   drows (M, C) any format, or absent: the gradient of the rows is not computed
 *   count M
 */
struct op_place_rows_backward {
    struct tensor dx, drows;
    const int32_t *at;
    size_t count;
    bool add;
};

/*
 * out[i] = mean of the rows i * group .. (i + 1) * group - 1 of x, in this order, in fp32
 *   out (M, C), x (N, C) any format, N >= M * group: rows from M * group on are not used
 */
struct op_pool_rows {
    struct tensor out, x;
    size_t group;
};

/* dx[n] = dout[n / group] / group, 0 from M * group on;  dx (N, C), dout (M, C) any
 * format */
struct op_pool_rows_backward {
    struct tensor dx, dout;
    size_t group;
};

#define UNFOLD_SIZE_MAX 64

/*
 * The input of a convolution as a matrix, whose matmul with the weight (out, C, size)
 * of torch.nn.Conv1d, viewed as (out, C * size), is the convolution:
 *   out[m][c * size + k] = x[taps[m * size + k]][c], 0 if that tap is negative
 *   out  (M, C * size), x (N, C) any format
 *   taps (M * size) int32 below N: the rows of x that row m of the output reads
 *   size at most UNFOLD_SIZE_MAX
 * Strides, padding, sequences and kernels of more dimensions are all in the taps
 * (kernels/unfold.h computes them).
 */
struct op_unfold {
    struct tensor out, x;
    const int32_t *taps;
    size_t size;
};

/*
 * A convolution of each column separately, torch.nn.Conv1d or Conv2d with a group for each:
 *   out[m][c] = bias[c] + sum over k < size, in this order, of
 *               weight[k][c] * x[taps[m * size + k]][c], 0 if that tap is negative
 *   out    (M, C), x (N, C) any format; summed in fp32
 *   weight (size, C) fp32: the transpose of torch's
 *   bias   (1, C) fp32, or absent: 0
 *   taps, size as in op_unfold
 * There is no backward pass.
 */
struct op_filter_rows {
    struct tensor out, x, weight, bias;
    const int32_t *taps;
    size_t size;
};

/*
 * dx[n][c] = sum over u < most, in this order, of dout[m][c * size + k], for each
 * uses[n * most + u] = m * size + k that is not negative
 *   dx (N, C), dout (M, C * size) any format; summed in fp32
 *   uses (N * most) int32: where the taps of the forward pass name row n
 */
struct op_unfold_backward {
    struct tensor dx, dout;
    const int32_t *uses;
    size_t size, most;
};

#endif
