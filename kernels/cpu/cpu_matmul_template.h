/*
 * kernels/cpu/cpu_matmul_template.h - the innermost loops and their end, and with
 * cpu_matmul_vec.h and cpu_matmul_pack.h the panels they read, for whatever vectors the
 * including file describes:
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
#include "kernels/cpu/cpu_matmul_vec.h"
#include "kernels/cpu/cpu_matmul_pack.h"

enum { UNIT_BYTES = 4, LINE = 64 };

/* Finish a row of a micro-tile: apply alpha, bias and the previous contents, and convert
 * to the format of out. Count and format are constants in the most frequent cases. */
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
 * sums (rows, vectors) = `rows` rows of a times a panel of b. depth counts units: an
 * element, or a pair of bf16. a is deep, or the elements of one k are adjacent. The
 * instances below have constant rows, vectors, deep and pairs, so the sums stay in
 * registers.
 */
struct micro {
    size_t depth, a_stride;
    const void *a;
    const float *b;
    float *sums;
};

UNCHECKED_INLINE void micro_tile(size_t rows, size_t vectors, bool deep, bool pairs,
                                 const struct micro *micro)
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
#define MICRO(rows, vectors, a, unit)                              \
    UNCHECKED static void micro_##rows##_##vectors##_##a##_##unit( \
        const struct micro *micro)                                 \
    {                                                              \
        micro_tile(rows, vectors, A_##a, UNIT_##unit, micro);      \
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

/* Indexed by the number of rows and of vectors, minus one. */
static void (*const micros[A_KINDS][UNITS][ROWS][VECTORS])(const struct micro *micro) = {
    [A_FLAT][UNIT_SINGLE] = { HEIGHTS(MICRO_ROW, FLAT, SINGLE) },
    [A_DEEP][UNIT_SINGLE] = { HEIGHTS(MICRO_ROW, DEEP, SINGLE) },
#if HAS_BF16
    [A_FLAT][UNIT_PAIR] = { HEIGHTS(MICRO_ROW, FLAT, PAIR) },
    [A_DEEP][UNIT_PAIR] = { HEIGHTS(MICRO_ROW, DEEP, PAIR) },
#endif
};

/* Load what the end of a micro-tile will add to. */
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

static inline size_t units_of(const struct matmul_block *block, bool pairs)
{
    return pairs ? (block->depth + 1) / 2 : block->depth;
}

/* Multiply the rows of a micro-tile with all panels of b: b comes from the L2 cache, a
 * stays in L1. */
static void multiply_rows(const struct matmul_block *block, size_t row, bool pairs)
{
    _Alignas(64) float sums[ROWS * COLS];
    size_t units = units_of(block, pairs);
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

/* To the L2 cache. */
static void fetch(const struct matmul_prefetch *ahead, size_t first, size_t end)
{
    for (size_t i = first; i < end; i++) {
        const char *row = ahead->data + i * ahead->stride;

        for (size_t j = 0; j < ahead->bytes; j += LINE)
            __builtin_prefetch(row + j, 0, 2);
        __builtin_prefetch(row + ahead->bytes - 1, 0, 2);
    }
}

/* Check everything that micro-tiles read; they are UNCHECKED. */
static inline void check(const struct matmul_block *block, bool pairs)
{
    size_t units = units_of(block, pairs);
    size_t vectors = (block->cols + LANES - 1) / LANES;
    bool deep = block->a_deep;

    unchecked_rows(block->a, deep ? block->rows : units,
                   (deep ? units : block->rows) * UNIT_BYTES, block->a_stride);
    unchecked_region(block->b, units * vectors * LANES * sizeof(float));
}

/* Spread the prefetches evenly, so that memory and arithmetic are busy at the
 * same time. */
static void multiply(const struct matmul_block *block, bool pairs)
{
    const struct matmul_prefetch *ahead = &block->ahead;
    size_t fetched = 0;

    check(block, pairs);
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
