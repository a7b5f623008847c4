/* kernels/unfold.h - the rows that a convolution over rows reads: the taps of op_unfold
 * (kernels/ops_media.h). */
#ifndef KERNELS_UNFOLD_H
#define KERNELS_UNFOLD_H

#include <stddef.h>
#include <stdint.h>

/* A convolution over time, zeros around each sequence; stride >= 1, size > 2 * padding or
 * any sequence is at least size - 2 * padding long. */
struct unfold_line {
    size_t size, stride, padding;
};

/* Return the rows of the output for a sequence of `rows` rows: those of torch.nn.Conv1d;
 * 0 if the kernel does not fit. */
size_t unfold_rows(const struct unfold_line *line, size_t rows);

/*
 * Write the taps of sequences that lie one after another in x, and whose outputs do in
 * out.  offsets (sequences + 1): their first rows in x, and its end, below 2^31.
 * taps: size for each row of the output.
 */
void unfold_taps(const struct unfold_line *line, const int32_t *offsets, size_t sequences,
                 int32_t *taps);

/* Return the most uses that any row of x has: ceil(size / stride). */
size_t unfold_most(const struct unfold_line *line);

/* Write the uses of op_unfold_backward, `most` for each of `rows` rows of x, unused ones
 * -1, for `count` taps of any kind. */
void unfold_uses(const int32_t *taps, size_t count, size_t rows, size_t most,
                 int32_t *uses);

#endif
