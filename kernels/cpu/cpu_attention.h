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
    ATTENTION_VECS = ATTENTION_ROWS / LANES,
    ATTENTION_MOST = HEAD_SIZE_MAX
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

/*
 * How tiles are held: as fp32, or where all is bf16 and the machine multiplies that, as
 * words of two bf16 numbers that are neighbours along the sum of the product.
 */
struct attention_shape {
    size_t size; /* numbers of a head */
    bool pairs;
    size_t depth; /* words of a head */
    size_t width; /* words from row to row of a copied tile: a head in whole vectors */
};

/* `last` is the format of what is read besides q, k and v. */
static inline struct attention_shape attention_shape_of(const struct op_attention *op,
                                                        enum format last)
{
    bool pairs = TILE_PAIRS && op->head_size % 2 == 0 && last == FORMAT_BF16 &&
                 op->q.format == FORMAT_BF16 && op->k.format == FORMAT_BF16 &&
                 op->v.format == FORMAT_BF16;

    return (struct attention_shape) {
        .size = op->head_size,
        .pairs = pairs,
        .depth = pairs ? op->head_size / 2 : op->head_size,
        .width = cpu_pieces(op->head_size, LANES) * LANES,
    };
}

/* Words of `rows` numbers, one under the other. */
static inline size_t attention_words(struct attention_shape shape, size_t rows)
{
    return shape.pairs ? (rows + 1) / 2 : rows;
}

/* The first row that `row` of this part sees. */
static inline size_t attention_begin(const struct op_attention *op,
                                     struct attention_part part, size_t row)
{
    if (op->window == 0 || row - part.run_first < op->window)
        return part.run_first;
    return row - op->window + 1;
}

/* A tile to copy: `rows` rows of head `head` of x, from `first` on. */
struct attention_source {
    struct tensor x;
    size_t first, rows, head;
};

/* to (ATTENTION_ROWS, width) = the tile, words along its rows; zeros around. */
static inline void attention_load(float *to, struct attention_shape shape,
                                  struct attention_source from)
{
    for (size_t row = 0; row < from.rows; row++, to += shape.width) {
        const void *x = cpu_row(from.x, from.first + row);

        if (shape.pairs) /* two numbers are a word, whatever they are */
            x = (const uint16_t *)x + from.head * shape.size;
        for (size_t i = 0; i < shape.depth; i += LANES)
            vec_put(to + i, shape.pairs
                                ? vec_load(x, FORMAT_FP32, i, vec_count(i, shape.depth))
                                : vec_load(x, from.x.format, from.head * shape.size + i,
                                           vec_count(i, shape.size)));
    }
    memset(to, 0, (ATTENTION_ROWS - from.rows) * shape.width * sizeof(*to));
}

/* The same with words across its rows, for a sum over rows; nothing is put below them. */
static inline void attention_load_across(float *to, struct attention_shape shape,
                                         struct attention_source from)
{
    static const uint16_t nothing[ATTENTION_MOST];

    if (!shape.pairs) {
        attention_load(to, shape, from);
        return;
    }
    for (size_t row = 0; row < from.rows; row += 2, to += shape.width) {
        const uint16_t *low = cpu_row(from.x, from.first + row);
        const uint16_t *high = cpu_row(from.x, from.first + row + 1);

        low += from.head * shape.size;
        high = row + 1 < from.rows ? high + from.head * shape.size : nothing;
        tile_pair_rows(to, low, high, shape.size);
        memset(to + shape.size, 0, (shape.width - shape.size) * sizeof(*to));
    }
}

/* Rows of fp32 back to where they belong, times scale. */
static inline void attention_store(struct attention_source into,
                                   struct attention_shape shape, const float *from,
                                   float scale)
{
    for (size_t row = 0; row < into.rows; row++, from += shape.width) {
        void *x = cpu_row(into.x, into.first + row);

        for (size_t i = 0; i < shape.size; i += LANES)
            vec_store(x, into.x.format, into.head * shape.size + i,
                      vec_count(i, shape.size), vec_get(from + i) * scale);
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
