/*
 * kernels/cpu/cpu_attention.h - code shared by attention and its gradients: splitting
 * sequences into tiles, copying tiles out as fp32, masks, and dropout.
 *
 * Where a tile of queries meets keys that some of them do not reach, as in causal attention
 * the keys of its own rows, part of the scores are masked. There the rows are processed in
 * bands of ATTENTION_BAND, and scores that a whole band does not see are not computed. Tiles
 * of keys that no query of a tile reaches are left out.
 */
#ifndef KERNELS_CPU_CPU_ATTENTION_H
#define KERNELS_CPU_CPU_ATTENTION_H

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_random.h"
#include "kernels/cpu/cpu_tile.h"
#include "kernels/dropout.h"

enum {
    ATTENTION_ROWS = 64,
    ATTENTION_BAND = 16,
    ATTENTION_VECS = ATTENTION_ROWS / LANES,
    ATTENTION_MOST = HEAD_SIZE_MAX
};

/* Rows of one sequence, queries or keys, at most one tile. */
struct attention_part {
    size_t first, last;
    size_t run_first, run_last;     /* the sequence that contains them */
    size_t other_first, other_last; /* its keys or queries, whichever the part has not */
};

/* Return the part that begins with `row` in the block of ATTENTION_ROWS queries, or keys,
 * that ends before `end`. */
static inline struct attention_part attention_part_at(const struct op_attention *op,
                                                      bool keys, size_t row, size_t end)
{
    const int32_t *of_keys = op->key_offsets ? op->key_offsets : op->offsets;
    const int32_t *own = keys ? of_keys : op->offsets;
    const int32_t *other = keys ? op->offsets : of_keys;
    size_t low = 0, high = op->sequences;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if ((size_t)own[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return (struct attention_part) {
        .first = row,
        .last = size_min((size_t)own[low + 1], end),
        .run_first = (size_t)own[low],
        .run_last = (size_t)own[low + 1],
        .other_first = (size_t)other[low],
        .other_last = (size_t)other[low + 1],
    };
}

/* How tiles are stored: as fp32 or, if all operands are bf16 and the CPU multiplies bf16,
 * as words of two bf16 elements that are adjacent along the summed dimension. */
struct attention_shape {
    size_t size; /* elements of a head */
    bool pairs;
    size_t depth; /* words of a head */
    size_t width; /* words from row to row of a copied tile: a head in whole vectors */
};

/* `last` is the format of the operands other than q, k and v. */
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
        .width = size_divide_up(op->head_size, LANES) * LANES,
    };
}

/* Words of `rows` elements, one below the other. */
static inline size_t attention_words(struct attention_shape shape, size_t rows)
{
    return shape.pairs ? (rows + 1) / 2 : rows;
}

/* Return the first row that `row` of this part sees. */
static inline size_t attention_begin(const struct op_attention *op,
                                     struct attention_part part, size_t row)
{
    if (op->window == 0 || row - part.run_first < op->window)
        return part.run_first;
    return row - op->window + 1;
}

/* Return the row after the last one that `row` sees; `end`: of the keys of its sequence. */
static inline size_t attention_reach(const struct op_attention *op, size_t row,
                                     size_t end)
{
    return op->reach ? (size_t)op->reach[row] : op->key_offsets ? end : row + 1;
}

/* The same for `rows` rows from `first` on, padded with that of the last. */
static inline void attention_reaches(const struct op_attention *op, size_t first,
                                     size_t rows, size_t end,
                                     int32_t reach[ATTENTION_ROWS])
{
    for (size_t i = 0; i < ATTENTION_ROWS; i++)
        reach[i] = (int32_t)attention_reach(op, first + size_min(i, rows - 1), end);
}

/* Return the first vector of queries of which one reaches `key`, given their reaches. */
static inline size_t attention_skip(const int32_t reach[ATTENTION_ROWS], size_t key)
{
    size_t v = 0;

    while (v < ATTENTION_VECS && (size_t)reach[v * LANES + LANES - 1] <= key)
        v++;
    return v;
}

/* A tile to copy: `rows` rows of head `head` of x, from `first` on. */
struct attention_source {
    struct tensor x;
    size_t first, rows, head;
};

/* to (ATTENTION_ROWS, width) = the tile, words along its rows, padded with zeros. */
static inline void attention_load(float *to, struct attention_shape shape,
                                  struct attention_source from)
{
    for (size_t row = 0; row < from.rows; row++, to += shape.width) {
        const void *x = cpu_row(from.x, from.first + row);

        if (shape.pairs) /* two elements form a word, whatever their values */
            x = (const uint16_t *)x + from.head * shape.size;
        for (size_t i = 0; i < shape.depth; i += LANES)
            vec_put(to + i, shape.pairs
                                ? vec_load(x, FORMAT_FP32, i, vec_count(i, shape.depth))
                                : vec_load(x, from.x.format, from.head * shape.size + i,
                                           vec_count(i, shape.size)));
    }
    memset(to, 0, (ATTENTION_ROWS - from.rows) * shape.width * sizeof(*to));
}

/* The same with words across its rows, for a sum over rows; nothing is written below
 * them. */
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

/* Write rows of fp32 back to the tensor, times scale. */
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

CPU_INLINE ivec attention_reach_get(const int32_t *from)
{
    ivec reach;

    memcpy(&reach, from, sizeof(reach));
    return reach;
}

/* The mask, given what the queries reach; window 0 means no window. All values are below
 * 2^31. */
CPU_INLINE ivec attention_sees(ivec queries, ivec keys, ivec reach, size_t window)
{
    int32_t most = window ? (int32_t)window : INT32_MAX;

    return (keys < reach) & (queries - keys < most);
}

/* slope (key - query) */
CPU_INLINE vec attention_bias(ivec queries, ivec keys, float slope)
{
    return __builtin_convertvector(keys - queries, vec) * slope;
}

/*
 * The weights of a tile that dropout keeps: for row `query`, bit k % 32 of word k / 32,
 * where k is the key's row plus `skip`. There is one word more than 64 keys need, because
 * readers load two words even if one would do.
 */
enum { ATTENTION_WORD = 32, ATTENTION_WORDS = ATTENTION_ROWS / ATTENTION_WORD + 2 };
struct attention_keep_bits {
    size_t skip;
    int32_t words[ATTENTION_WORDS][ATTENTION_ROWS];
};

/* Generate, for LANES queries from `query` on, the four words of one block each
 * (random_weight). */
CPU_INLINE void attention_bits(struct random_head head, size_t query, size_t block,
                               uvec words[4])
{
    for (int half = 0; half < 2; half++) {
        struct random_lanes x = random_rounds(
            head.seed,
            (struct random_lanes) {
                random_count(query + (size_t)half * (LANES / 2)), block - (wvec) {},
                (head.stream + (head.head << 16)) - (wvec) {},
                (RANDOM_ATTENTION + ((uint32_t)head.draw << 4)) - (wvec) {} });

        for (int i = 0; i < LANES / 2; i++) {
            int lane = half * (LANES / 2) + i;

            words[0][lane] = (uint32_t)x.a[i];
            words[1][lane] = (uint32_t)x.b[i];
            words[2][lane] = (uint32_t)x.c[i];
            words[3][lane] = (uint32_t)x.d[i];
        }
    }
}

/* The same as one word of attention_keep_bits. */
CPU_INLINE ivec attention_draw_word(struct random_head head, size_t query, size_t word,
                                    int32_t threshold)
{
    ivec kept = {};

    for (size_t block = 0; block < 4; block++) {
        uvec words[4];

        attention_bits(head, query, 4 * word + block, words);
        for (size_t eight = 0; eight < 4; eight++) {
            ivec low = (ivec)(words[eight] & 0xffff), high = (ivec)(words[eight] >> 16);
            uint32_t bit = 1u << (8 * eight + 2 * block);

            kept |= (low >= threshold) & (int32_t)bit;
            kept |= (high >= threshold) & (int32_t)(bit << 1);
        }
    }
    return kept;
}

/* Generate the mask for `queries` rows of the batch from `query` on and `keys` rows of
 * their sequence from `key` on. */
static inline void attention_draw(struct attention_keep_bits *kept,
                                  const struct op_attention *op, size_t head,
                                  size_t query, size_t queries, size_t key, size_t keys)
{
    const struct attention_dropout *dropout = &op->dropout;
    struct random_head bits = { .seed = dropout->seed,
                                .draw = dropout->draw ? *dropout->draw : 0,
                                .stream = dropout->stream,
                                .head = (uint32_t)head };
    int32_t threshold = (int32_t)dropout_threshold(dropout->p);
    size_t first = key / ATTENTION_WORD,
           words = (key + keys - 1) / ATTENTION_WORD - first + 1;

    kept->skip = key % ATTENTION_WORD;
    for (size_t word = 0; word < words; word++)
        for (size_t v = 0; v < queries; v += LANES) {
            ivec drawn = attention_draw_word(bits, query + v, first + word, threshold);

            memcpy(kept->words[word] + v, &drawn, sizeof(drawn));
        }
    memset(kept->words[words], 0, (ATTENTION_WORDS - words) * sizeof(kept->words[0]));
}

/* Return -1 where weights are kept, 0 where not: for LANES queries and one key, given as
 * rows of the tile, or for one query and LANES keys. */
CPU_INLINE ivec attention_keeps(const struct attention_keep_bits *kept, size_t query,
                                size_t key, bool lanes_are_keys)
{
    size_t at = kept->skip + key, word = at / ATTENTION_WORD;
    uint64_t both;
    ivec words;

    if (!lanes_are_keys) {
        memcpy(&words, kept->words[word] + query, sizeof(words));
        return -(words >> (int32_t)(at % ATTENTION_WORD) & 1);
    }
    both = (uint32_t)kept->words[word][query] |
           (uint64_t)(uint32_t)kept->words[word + 1][query] << 32;
    words = (int32_t)(both >> at % ATTENTION_WORD) - (ivec) {};
    return -(words >> attention_lanes(0) & 1);
}

/* Zero the dropped weights (or words of two weights) of rows first .. end of a tile; `at`
 * is the address of vector v of the first row. */
CPU_INLINE void attention_drop(float *at, size_t first, size_t end, size_t v,
                               const struct attention_keep_bits *kept,
                               bool lanes_are_keys, bool pairs)
{
    for (size_t row = first; row < end; row += pairs ? 2 : 1, at += ATTENTION_ROWS) {
        size_t lane = v * LANES;
        ivec keep = attention_keeps(kept, lanes_are_keys ? row : lane,
                                    lanes_are_keys ? lane : row, lanes_are_keys);

        if (pairs && row + 1 < end)
            keep = (keep & 0xffff) |
                   (attention_keeps(kept, lanes_are_keys ? row + 1 : lane,
                                    lanes_are_keys ? lane : row + 1, lanes_are_keys) &
                    ~0xffff);
        vec_put(at, (vec)((ivec)vec_get(at) & keep));
    }
}

/* `rows`: of the queries or keys */
static inline size_t attention_blocks(size_t rows)
{
    return size_divide_up(rows, ATTENTION_ROWS);
}

/* A block of rows of one head. */
struct attention_work {
    size_t block, head;
};

/*
 * Return the work of a task. Causal attention: the blocks with the most work first, for all
 * heads, so that threads end at the same time. With reach or other keys, blocks have about
 * the same work: if sequences are long, all blocks of a head follow each other, and its rows
 * stay in the cache; if they are short, so do all heads of a block. last_first: later blocks
 * have more work.
 */
static inline struct attention_work attention_work_of(const struct op_attention *op,
                                                      size_t rows, size_t task,
                                                      size_t heads, bool last_first)
{
    size_t blocks = attention_blocks(rows);

    if ((op->reach || op->key_offsets) && rows > 4 * ATTENTION_ROWS * op->sequences)
        return (struct attention_work) { task % blocks, task / blocks };
    return (struct attention_work) { last_first ? blocks - 1 - task / heads
                                                : task / heads,
                                     task % heads };
}

#endif
