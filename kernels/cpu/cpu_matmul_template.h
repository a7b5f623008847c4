/*
 * kernels/cpu/cpu_matmul_template.h - panels, the innermost loops and their end, for
 * whatever vectors the including file describes:
 *
 *   LANES, ROWS              floats in a vector; a micro-tile is ROWS x 3 vectors
 *   HEIGHTS(X, ...)          X(n, ...) for n = 1 .. ROWS
 *   vec                      a vector of LANES floats
 *   transpose(to, width, from, bytes)   LANES x LANES words of 32 bits; those of from in
 *                            rows so many bytes apart, at any address
 *   load_half(vec *, from)   LANES fp16 to fp32
 *   store_half(to, vec)      fp32 to fp16
 *   HAS_BF16 (1 or 0), step_bf16(sum, left, right)   one pair of bf16 by LANES pairs
 *   round_row(to, low, high)    with HAS_BF16: LANES fp32 of low, then of high, as bf16
 *   round_pairs(to, low, high)  the same as pairs of one of each
 *   KERNELS                  the table to define
 */
#include "kernels/cpu/cpu_matmul_kernel.h"

#include <string.h>

enum { VECTORS = 3, COLS = LANES * VECTORS, UNIT_BYTES = 4, LINE = 64 };

typedef float vec_loose __attribute__((vector_size(4 * LANES), aligned(2), may_alias));
typedef uint32_t unit_loose __attribute__((aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint16_t halves __attribute__((vector_size(2 * LANES)));
typedef uint16_t halves_loose
    __attribute__((vector_size(2 * LANES), aligned(2), may_alias));

static inline vec load(const float *from)
{
    return *(const vec_loose *)from;
}

static inline void store(float *to, vec value)
{
    *(vec_loose *)to = value;
}

static inline float as_float(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline vec load_brain(const uint16_t *from)
{
    return (vec)(__builtin_convertvector((halves) * (const halves_loose *)from, words)
                 << 16);
}

/* Nearest even, by integers: the instruction for it drops subnormal numbers. */
static inline void store_brain(uint16_t *to, vec value)
{
    words bits = (words)value;
    words nan = (words)(value != value);
    words rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    words kept = bits >> 16 | 0x40;

    *(halves_loose *)to =
        __builtin_convertvector((rounded & ~nan) | (kept & nan), halves);
}

#if !HAS_BF16
static inline void round_row(uint16_t *to, const float *low, const float *high)
{
    store_brain(to, load(low));
    store_brain(to + LANES, load(high));
}

static inline void round_pairs(uint32_t *to, const float *low, const float *high)
{
    uint16_t both[2 * LANES];

    round_row(both, low, high);
    for (size_t i = 0; i < LANES; i++)
        to[i] = both[i] | (uint32_t)both[LANES + i] << 16;
}
#endif

static inline float number(const void *data, enum format format, size_t at)
{
    if (format == FORMAT_FP32)
        return ((const float *)data)[at];
    if (format == FORMAT_BF16)
        return format_from_bf16(((const uint16_t *)data)[at]);
    return format_from_fp16(((const uint16_t *)data)[at]);
}

/* `count` numbers of any format as fp32. */
static inline void widen(float *to, const void *data, enum format format, size_t at,
                         size_t count)
{
    const uint16_t *from = (const uint16_t *)data + at;
    size_t rest = count % LANES;

    if (format == FORMAT_FP32) {
        memcpy(to, (const float *)data + at, count * sizeof(*to));
        return;
    }
    for (size_t i = 0; i < count - rest; i += LANES)
        store(to + i, format == FORMAT_BF16 ? load_brain(from + i) : load_half(from + i));
    for (size_t i = count - rest; i < count; i++)
        to[i] = number(from, format, i);
}

static inline void put(uint16_t *to, enum format format, vec value)
{
    if (format == FORMAT_BF16)
        store_brain(to, value);
    else
        store_half(to, value);
}

/* fp32 to `count` numbers of any format. */
static inline void narrow(void *data, enum format format, size_t at, const float *from,
                          size_t count)
{
    uint16_t *to = (uint16_t *)data + at;
    uint16_t rest[LANES];
    size_t whole = count - count % LANES;
    vec last = { 0 };

    if (format == FORMAT_FP32) {
        memcpy((float *)data + at, from, count * sizeof(*from));
        return;
    }
    for (size_t i = 0; i < whole; i += LANES)
        put(to + i, format, load(from + i));
    if (whole < count) {
        memcpy(&last, from + whole, (count - whole) * sizeof(*from));
        put(rest, format, last);
        memcpy(to + whole, rest, (count - whole) * sizeof(*to));
    }
}

/* A number of a side, and `count` as fp32, rounded where they are to be. */
static inline float side_number(const struct matmul_side *side, size_t at)
{
    float value = number(side->data, side->format, at);

    if (side->round == FORMAT_BF16)
        return format_from_bf16(format_to_bf16(value));
    if (side->round == FORMAT_FP16)
        return format_from_fp16(format_to_fp16(value));
    return value;
}

static inline void side_widen(float *to, const struct matmul_side *side, size_t at,
                              size_t count)
{
    size_t whole = count - count % LANES;
    uint16_t half[LANES];

    if (side->round == FORMAT_FP32) {
        widen(to, side->data, side->format, at, count);
        return;
    }
    for (size_t i = 0; i < whole; i += LANES) {
        put(half, side->round, load((const float *)side->data + at + i));
        store(to + i, side->round == FORMAT_BF16 ? load_brain(half) : load_half(half));
    }
    for (size_t i = whole; i < count; i++)
        to[i] = side_number(side, at + i);
}

static void unfold(float *to, size_t stride, const struct matmul_side *side,
                   const struct matmul_part *part)
{
    size_t rows = side->deep ? part->count : part->depth;
    size_t cols = side->deep ? part->depth : part->count;
    size_t row = side->deep ? part->first : part->k;
    size_t col = side->deep ? part->k : part->first;

    for (size_t i = 0; i < rows; i++)
        side_widen(to + i * stride, side, (row + i) * side->stride + col, cols);
}

static void round_part(void *to, const struct matmul_side *side,
                       const struct matmul_part *part)
{
    size_t rows = side->deep ? part->count : part->depth;
    size_t cols = side->deep ? part->depth : part->count;
    const float *from = (const float *)side->data +
                        (side->deep ? part->first : part->k) * side->stride +
                        (side->deep ? part->k : part->first);

    for (size_t i = 0; i < rows; i++)
        narrow(to, side->round, i * cols, from + i * side->stride, cols);
}

/* LANES outer by LANES deep, in place in the panel. */
static void pack_square(float *to, size_t width, const struct matmul_side *side,
                        size_t at)
{
    float rows[LANES * LANES] __attribute__((aligned(64)));

    if (side->format == FORMAT_FP32 && side->round == FORMAT_FP32) {
        transpose(to, width, (const float *)side->data + at,
                  side->stride * sizeof(float));
        return;
    }
    for (size_t i = 0; i < LANES; i++)
        side_widen(rows + i * LANES, side, at + i * side->stride, LANES);
    transpose(to, width, rows, LANES * sizeof(float));
}

static void pack_deep(float *to, size_t width, const struct matmul_side *side,
                      const struct matmul_part *part)
{
    size_t squares = part->depth - part->depth % LANES;
    size_t i = 0;

    for (; i + LANES <= part->count; i += LANES)
        for (size_t k = 0; k < squares; k += LANES)
            pack_square(to + k * width + i, width, side,
                        (part->first + i) * side->stride + part->k + k);
    for (size_t j = 0; j < width; j++) {
        size_t at = (part->first + j) * side->stride + part->k;

        for (size_t k = j < i ? squares : 0; k < part->depth; k++)
            to[k * width + j] = j < part->count ? side_number(side, at + k) : 0;
    }
}

/* With count a constant where it is that of a whole panel: then a row is a few moves. */
static inline __attribute__((always_inline)) void
pack_flat_count(float *to, size_t width, const struct matmul_side *side,
                const struct matmul_part *part, size_t count)
{
    for (size_t k = 0; k < part->depth; k++, to += width) {
        side_widen(to, side, (part->k + k) * side->stride + part->first, count);
        for (size_t i = count; i < width; i++)
            to[i] = 0;
    }
}

static void pack_flat(float *to, size_t width, const struct matmul_side *side,
                      const struct matmul_part *part)
{
    if (part->count == COLS && width == COLS)
        pack_flat_count(to, COLS, side, part, COLS);
    else
        pack_flat_count(to, width, side, part, part->count);
}

/* A pair of bf16, the first in the lower half. */
static inline uint32_t pair_at(const struct matmul_side *side,
                               const struct matmul_part *part, size_t i, size_t k)
{
    const uint16_t *data = side->data;
    size_t step = side->deep ? 1 : side->stride;
    size_t at =
        (part->first + i) * (side->deep ? side->stride : 1) + (part->k + k) * step;

    return data[at] | (k + 1 < part->depth ? (uint32_t)data[at + step] << 16 : 0);
}

static void pack_pairs_deep(uint32_t *to, size_t width, const struct matmul_side *side,
                            const struct matmul_part *part)
{
    size_t units = (part->depth + 1) / 2;
    size_t squares = part->depth / 2 / LANES * LANES;
    size_t i = 0;

    for (; i + LANES <= part->count; i += LANES)
        for (size_t k = 0; k < squares; k += LANES) {
            const uint16_t *from = (const uint16_t *)side->data +
                                   (part->first + i) * side->stride + part->k + 2 * k;

            transpose((float *)to + k * width + i, width, from,
                      side->stride * sizeof(*from));
        }
    for (size_t j = 0; j < width; j++)
        for (size_t k = j < i ? squares : 0; k < units; k++)
            to[k * width + j] = j < part->count ? pair_at(side, part, j, 2 * k) : 0;
}

static inline __attribute__((always_inline)) void
pack_pairs_count(uint32_t *to, size_t width, const struct matmul_side *side,
                 const struct matmul_part *part, size_t count)
{
    const uint16_t *from =
        (const uint16_t *)side->data + part->k * side->stride + part->first;

    for (size_t k = 0; k + 1 < part->depth;
         k += 2, to += width, from += 2 * side->stride) {
        for (size_t i = 0; i < count; i++)
            to[i] = from[i] | (uint32_t)from[i + side->stride] << 16;
        for (size_t i = count; i < width; i++)
            to[i] = 0;
    }
    if (part->depth % 2)
        for (size_t i = 0; i < width; i++)
            to[i] = i < count ? from[i] : 0;
}

static void pack_pairs_flat(uint32_t *to, size_t width, const struct matmul_side *side,
                            const struct matmul_part *part)
{
    if (part->count == COLS && width == COLS)
        pack_pairs_count(to, COLS, side, part, COLS);
    else
        pack_pairs_count(to, width, side, part, part->count);
}

/* The same of a side in fp32. */
static inline uint32_t rounded_pair_at(const struct matmul_side *side,
                                       const struct matmul_part *part, size_t i, size_t k)
{
    const float *data = side->data;
    size_t step = side->deep ? 1 : side->stride;
    size_t at =
        (part->first + i) * (side->deep ? side->stride : 1) + (part->k + k) * step;
    uint32_t second = k + 1 < part->depth ? format_to_bf16(data[at + step]) : 0;

    return format_to_bf16(data[at]) | second << 16;
}

static void round_pairs_deep(uint32_t *to, size_t width, const struct matmul_side *side,
                             const struct matmul_part *part)
{
    uint16_t rows[LANES][2 * LANES] __attribute__((aligned(64)));
    size_t units = (part->depth + 1) / 2;
    size_t squares = part->depth / 2 / LANES * LANES;
    size_t i = 0;

    for (; i + LANES <= part->count; i += LANES)
        for (size_t k = 0; k < squares; k += LANES) {
            const float *from = (const float *)side->data +
                                (part->first + i) * side->stride + part->k + 2 * k;

            for (size_t j = 0; j < LANES; j++, from += side->stride)
                round_row(rows[j], from, from + LANES);
            transpose((float *)to + k * width + i, width, rows, sizeof(rows[0]));
        }
    for (size_t j = 0; j < width; j++)
        for (size_t k = j < i ? squares : 0; k < units; k++)
            to[k * width + j] =
                j < part->count ? rounded_pair_at(side, part, j, 2 * k) : 0;
}

static void round_pairs_flat(uint32_t *to, size_t width, const struct matmul_side *side,
                             const struct matmul_part *part)
{
    const float *from = (const float *)side->data + part->k * side->stride + part->first;
    size_t whole = part->count - part->count % LANES;

    for (size_t k = 0; k < part->depth; k += 2, to += width, from += 2 * side->stride) {
        size_t vectors = k + 1 < part->depth ? whole : 0;

        for (size_t i = 0; i < vectors; i += LANES)
            round_pairs(to + i, from + i, from + side->stride + i);
        for (size_t i = vectors; i < width; i++)
            to[i] = i < part->count ? rounded_pair_at(side, part, i, k) : 0;
    }
}

static void pack(void *to, size_t width, const struct matmul_side *side,
                 const struct matmul_part *part, bool bf16)
{
    bool rounds = side->round != FORMAT_FP32;

    if (bf16 && rounds && side->deep)
        round_pairs_deep(to, width, side, part);
    else if (bf16 && rounds)
        round_pairs_flat(to, width, side, part);
    else if (bf16 && side->deep)
        pack_pairs_deep(to, width, side, part);
    else if (bf16)
        pack_pairs_flat(to, width, side, part);
    else if (side->deep)
        pack_deep(to, width, side, part);
    else
        pack_flat(to, width, side, part);
}

/* LANES numbers of any format. */
static inline vec take(const void *data, enum format format, size_t at)
{
    const uint16_t *from = (const uint16_t *)data + at;

    if (format == FORMAT_FP32)
        return load((const float *)data + at);
    return format == FORMAT_BF16 ? load_brain(from) : load_half(from);
}

static inline void give(void *data, enum format format, size_t at, vec value)
{
    uint16_t *to = (uint16_t *)data + at;

    if (format == FORMAT_FP32)
        store((float *)data + at, value);
    else
        put(to, format, value);
}

/* The end of a row of a micro-tile: alpha, bias, what was there, the format of out.  With
 * count and format constants where they are the most frequent. */
static inline __attribute__((always_inline)) void
finish_count(const struct matmul_block *block, size_t row, size_t col, size_t count,
             enum format format, float *sums)
{
    const float *bias = block->bias ? block->bias + col : NULL;
    size_t at = row * block->out.stride + col, rest = count % LANES;
    void *out = block->out.data;
    float alpha = block->alpha, before[LANES];
    bool add = block->add;

    for (size_t i = 0; i < count - rest; i += LANES) {
        vec value = load(sums + i) * alpha;

        if (bias)
            value += load(bias + i);
        if (add)
            value += take(out, format, at + i);
        give(out, format, at + i, value);
    }
    if (rest == 0)
        return;
    sums += count - rest;
    at += count - rest;
    if (add)
        widen(before, out, format, at, rest);
    for (size_t i = 0; i < rest; i++)
        sums[i] =
            sums[i] * alpha + (bias ? bias[count - rest + i] : 0) + (add ? before[i] : 0);
    narrow(out, format, at, sums, rest);
}

static inline void finish_row(const struct matmul_block *block, size_t row, size_t col,
                              size_t count, float *sums)
{
    enum format format = block->out.format;

    if (count == COLS && format == FORMAT_FP32)
        finish_count(block, row, col, COLS, FORMAT_FP32, sums);
    else if (count == COLS && format == FORMAT_BF16)
        finish_count(block, row, col, COLS, FORMAT_BF16, sums);
    else
        finish_count(block, row, col, count, format, sums);
}

static void finish(const struct matmul_block *block, size_t row, size_t col, size_t count,
                   float *sums)
{
    for (size_t i = 0; i < count; i += COLS)
        finish_row(block, row, col + i, count - i < COLS ? count - i : COLS, sums + i);
}

/*
 * sums (rows, vectors) = `rows` rows of a by a panel of b.  depth counts units: a number,
 * or a pair of bf16; a is deep, or what one k has lies side by side.  What is made of it
 * below has rows, vectors, deep and pairs constant: the sums stay in registers.
 */
struct micro {
    size_t depth, a_stride;
    const void *a;
    const float *b;
    float *sums;
};

static inline __attribute__((always_inline)) void
micro_tile(size_t rows, size_t vectors, bool deep, bool pairs, const struct micro *micro)
{
    size_t a_stride = micro->a_stride, depth = micro->depth;
    const float *b = micro->b;
    const char *a = micro->a;
    vec sum[ROWS][VECTORS] = { 0 };

    for (size_t k = 0; k < depth; k++, b += LANES * vectors) {
        vec right[VECTORS];

#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            right[j] = load(b + j * LANES);
#pragma GCC unroll 8
        for (size_t i = 0; i < rows; i++) {
            size_t at =
                deep ? i * a_stride + k * UNIT_BYTES : k * a_stride + i * UNIT_BYTES;
            unit_loose left = *(const unit_loose *)(a + at);

#pragma GCC unroll 8
            for (size_t j = 0; j < vectors; j++)
                sum[i][j] = pairs ? step_bf16(sum[i][j], left, right[j])
                                  : sum[i][j] + as_float(left) * right[j];
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < rows; i++)
#pragma GCC unroll 8
        for (size_t j = 0; j < vectors; j++)
            store(micro->sums + i * COLS + j * LANES, sum[i][j]);
}

/* `a` is FLAT or DEEP, `unit` SINGLE or PAIR. */
#define MICRO(rows, vectors, a, unit)                                              \
    static void micro_##rows##_##vectors##_##a##_##unit(const struct micro *micro) \
    {                                                                              \
        micro_tile(rows, vectors, A_##a, UNIT_##unit, micro);                      \
    }
#define MICROS(rows, a, unit) \
    MICRO(rows, 1, a, unit)   \
    MICRO(rows, 2, a, unit)   \
    MICRO(rows, 3, a, unit)
#define MICRO_ROW(rows, a, unit)                                    \
    { micro_##rows##_1_##a##_##unit, micro_##rows##_2_##a##_##unit, \
      micro_##rows##_3_##a##_##unit },
enum { A_FLAT, A_DEEP, A_KINDS };
enum { UNIT_SINGLE, UNIT_PAIR, UNITS };

HEIGHTS(MICROS, FLAT, SINGLE)
HEIGHTS(MICROS, DEEP, SINGLE)
#if HAS_BF16
HEIGHTS(MICROS, FLAT, PAIR)
HEIGHTS(MICROS, DEEP, PAIR)
#endif

/* By the number of rows and of vectors, less one. */
static void (*const micros[A_KINDS][UNITS][ROWS][VECTORS])(const struct micro *micro) = {
    [A_FLAT][UNIT_SINGLE] = { HEIGHTS(MICRO_ROW, FLAT, SINGLE) },
    [A_DEEP][UNIT_SINGLE] = { HEIGHTS(MICRO_ROW, DEEP, SINGLE) },
#if HAS_BF16
    [A_FLAT][UNIT_PAIR] = { HEIGHTS(MICRO_ROW, FLAT, PAIR) },
    [A_DEEP][UNIT_PAIR] = { HEIGHTS(MICRO_ROW, DEEP, PAIR) },
#endif
};

/* What the end of a micro-tile is going to add to. */
static inline void prefetch_out(const struct matmul_block *block, size_t row, size_t rows,
                                size_t col, size_t cols)
{
    size_t bytes = block->out.format == FORMAT_FP32 ? 4 : 2;

    for (size_t i = 0; i < rows; i++) {
        const char *at =
            (const char *)block->out.data + ((row + i) * block->out.stride + col) * bytes;

        for (size_t j = 0; j < cols * bytes; j += 64)
            __builtin_prefetch(at + j, 1);
    }
}

/* The rows of a micro-tile against all panels of b: b comes from the second cache, a
 * stays in the first. */
static void multiply_rows(const struct matmul_block *block, size_t row, bool pairs)
{
    _Alignas(64) float sums[ROWS * COLS];
    size_t units = pairs ? (block->depth + 1) / 2 : block->depth;
    size_t rows = block->rows - row < ROWS ? block->rows - row : ROWS;
    struct micro micro = {
        .depth = units,
        .a_stride = block->a_stride,
        .a =
            (const char *)block->a + row * (block->a_deep ? block->a_stride : UNIT_BYTES),
        .sums = sums,
    };

    for (size_t col = 0; col < block->cols; col += COLS) {
        size_t cols = block->cols - col < COLS ? block->cols - col : COLS;

        if (block->add)
            prefetch_out(block, row, rows, col, cols);
        micro.b = (const float *)block->b + col * units;
        micros[block->a_deep][pairs][rows - 1][(cols - 1) / LANES](&micro);
        for (size_t i = 0; i < rows; i++)
            finish_row(block, row + i, col, cols, sums + i * COLS);
    }
}

/* To the second cache. */
static void fetch(const struct matmul_ahead *ahead, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const char *row = ahead->data + i * ahead->stride;

        for (size_t j = 0; j < ahead->bytes; j += LINE)
            __builtin_prefetch(row + j, 0, 2);
        __builtin_prefetch(row + ahead->bytes - 1, 0, 2);
    }
}

/* What is ahead comes evenly, so that memory and arithmetic are busy at once. */
static void multiply(const struct matmul_block *block, bool pairs)
{
    const struct matmul_ahead *ahead = &block->ahead;
    size_t fetched = 0;

    for (size_t row = 0; row < block->rows; row += ROWS) {
        size_t end = row + ROWS < block->rows ? row + ROWS : block->rows;

        if (ahead->data) {
            size_t next = ahead->rows * end / block->rows;

            fetch(ahead, fetched, next);
            fetched = next;
        }
        multiply_rows(block, row, pairs);
    }
}

const struct matmul_kernels KERNELS = {
    .rows = ROWS,
    .cols = COLS,
    .lanes = LANES,
    .bf16 = HAS_BF16,
    .pack = pack,
    .round = round_part,
    .unfold = unfold,
    .finish = finish,
    .multiply = multiply,
};
