/*
 * kernels/cpu/cpu_attention.h - what attention and its gradients share: runs of rows cut
 * into tiles, tiles of a matrix copied out as fp32, and who sees whom.
 *
 * Where a tile of queries meets the keys of its own rows, half of the scores are not
 * seen.  There the rows go in bands of ATTENTION_BAND, and what a whole band does not see
 * is not computed.
 */
#ifndef KERNELS_CPU_CPU_ATTENTION_H
#define KERNELS_CPU_CPU_ATTENTION_H

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_tile.h"

enum {
    ATTENTION_ROWS = 64,
    ATTENTION_BAND = 16,
    ATTENTION_VECS = ATTENTION_ROWS / LANES
};

/* Rows of one run, at most a tile of them. */
struct attention_part {
    size_t first, last;
    size_t run_first, run_last; /* the run they are in */
};

/* The part that begins with `row` in the block of ATTENTION_ROWS rows that ends before
 * `end`. */
static inline struct attention_part attention_part_at(const struct op_attention *op,
                                                      size_t row, size_t end)
{
    size_t low = 0, high = op->sequences;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if ((size_t)op->offsets[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return (struct attention_part) {
        .first = row,
        .last = cpu_least((size_t)op->offsets[low + 1], end),
        .run_first = (size_t)op->offsets[low],
        .run_last = (size_t)op->offsets[low + 1],
    };
}

/* Numbers from one row of a copied tile to the next: the head's size in whole vectors. */
static inline size_t attention_width(const struct op_attention *op)
{
    return cpu_pieces(op->head_size, LANES) * LANES;
}

/* The first row that `row` of this part sees. */
static inline size_t attention_begin(const struct op_attention *op,
                                     struct attention_part part, size_t row)
{
    if (op->window == 0 || row - part.run_first < op->window)
        return part.run_first;
    return row - op->window + 1;
}

/* to (ATTENTION_ROWS, width) = rows first .. first + rows of head `head` of x; zeros
 * around. */
static inline void attention_load(float *to, size_t width, struct tensor x, size_t first,
                                  size_t rows, size_t head, size_t size)
{
    for (size_t row = 0; row < rows; row++) {
        const void *from = cpu_row(x, first + row);

        for (size_t i = 0; i < size; i += LANES)
            vec_put(to + row * width + i,
                    vec_load(from, x.format, head * size + i, vec_count(i, size)));
    }
    memset(to + rows * width, 0, (ATTENTION_ROWS - rows) * width * sizeof(*to));
}

/* The other way, times scale. */
static inline void attention_store(struct tensor x, size_t first, size_t rows,
                                   size_t head, size_t size, const float *from,
                                   size_t width, float scale)
{
    for (size_t row = 0; row < rows; row++) {
        void *to = cpu_row(x, first + row);

        for (size_t i = 0; i < size; i += LANES)
            vec_store(to, x.format, head * size + i, vec_count(i, size),
                      vec_get(from + row * width + i) * scale);
    }
}

/* first, first + 1, ... */
CPU_INLINE ivec attention_lanes(size_t first)
{
    ivec lanes;

    for (int i = 0; i < LANES; i++)
        lanes[i] = (int32_t)first + i;
    return lanes;
}

/* What sees what: window 0 is none.  All numbers are below 2^31. */
CPU_INLINE ivec attention_sees(ivec queries, ivec keys, size_t window)
{
    int32_t most = window ? (int32_t)window : INT32_MAX;

    return (queries >= keys) & (queries - keys < most);
}

static inline size_t attention_blocks(const struct op_attention *op)
{
    return cpu_pieces(op->q.rows, ATTENTION_ROWS);
}

#endif
