/*
 * kernels/cpu/cpu_tile.h - matmuls of small matrices in the cache, for attention.
 *
 * A matrix here is contiguous rows of whole vectors. c is held in registers, TILE_ROWS by
 * TILE_VECS vectors at a time, while k advances; the order of additions depends on the
 * shape alone. a and b are words: fp32 elements or, with TILE_PAIRS, two bf16 elements
 * that are adjacent along k.
 */
#ifndef KERNELS_CPU_CPU_TILE_H
#define KERNELS_CPU_CPU_TILE_H

#include "kernels/cpu/cpu_vector.h"

/* 24 sums, 4 parts of b and one of a in 32 registers; 12, 2 and one in 16. */
#if defined(__AVX512F__)
enum { TILE_ROWS = 6, TILE_VECS = 4 };
#else
enum { TILE_ROWS = 6, TILE_VECS = 2 };
#endif

#if defined(__AVX512BF16__)
enum { TILE_PAIRS = 1 };

/* sum + a b; with pairs, the sum of both products */
UNCHECKED_INLINE vec tile_add(vec sum, vec a, vec b, bool pairs)
{
    if (pairs)
        return (vec)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
    return sum + a * b;
}
#else
enum { TILE_PAIRS = 0 };

UNCHECKED_INLINE vec tile_add(vec sum, vec a, vec b, bool pairs)
{
    (void)pairs;
    return sum + a * b;
}
#endif

/* c (m, n) = or += a (m, k) b (k, n), n in vectors, k in words; ld: words from row to
 * row */
struct tile_product {
    float *c;
    const float *a, *b;
    size_t ldc, lda, ldb, m, n, k;
    bool trans_a; /* a is (k, m) */
    bool pairs;
    bool add;
};

UNCHECKED_INLINE void tile_block(const struct tile_product *p, size_t row, size_t column,
                                 int rows, int vecs, bool trans_a, bool pairs)
{
    float *c = p->c + row * p->ldc + column;
    const float *a = p->a + (trans_a ? row : row * p->lda);
    const float *b = p->b + column;
    size_t along = trans_a ? p->lda : 1, across = trans_a ? 1 : p->lda;
    vec sum[TILE_ROWS][TILE_VECS] = { 0 };

    for (size_t k = 0; k < p->k; k++, a += along, b += p->ldb) {
        vec part[TILE_VECS];

        for (int j = 0; j < vecs; j++)
            part[j] = vec_get(b + j * LANES);
        for (int i = 0; i < rows; i++) {
            vec factor = vec_all(a[(size_t)i * across]);

            for (int j = 0; j < vecs; j++)
                sum[i][j] = tile_add(sum[i][j], part[j], factor, pairs);
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++) {
            float *to = c + (size_t)i * p->ldc + j * LANES;

            vec_put(to, p->add ? vec_get(to) + sum[i][j] : sum[i][j]);
        }
}

typedef void tile_kernel(const struct tile_product *p, size_t row, size_t column);

#define TILE_KERNEL(rows, vecs, name, trans_a, pairs)                              \
    UNCHECKED static void tile_##rows##x##vecs##name(const struct tile_product *p, \
                                                     size_t row, size_t column)    \
    {                                                                              \
        tile_block(p, row, column, rows, vecs, trans_a, pairs);                    \
    }

#define TILE_KERNELS(vecs, name, trans_a, pairs) \
    TILE_KERNEL(1, vecs, name, trans_a, pairs)   \
    TILE_KERNEL(2, vecs, name, trans_a, pairs)   \
    TILE_KERNEL(3, vecs, name, trans_a, pairs)   \
    TILE_KERNEL(4, vecs, name, trans_a, pairs)   \
    TILE_KERNEL(5, vecs, name, trans_a, pairs)   \
    TILE_KERNEL(6, vecs, name, trans_a, pairs)

#define TILE_ROW(vecs, name)                                              \
    {                                                                     \
        tile_1x##vecs##name, tile_2x##vecs##name, tile_3x##vecs##name,    \
            tile_4x##vecs##name, tile_5x##vecs##name, tile_6x##vecs##name \
    }

#if defined(__AVX512F__)
#define TILE_SET(name, trans_a, pairs)    \
    TILE_KERNELS(1, name, trans_a, pairs) \
    TILE_KERNELS(2, name, trans_a, pairs) \
    TILE_KERNELS(3, name, trans_a, pairs) \
    TILE_KERNELS(4, name, trans_a, pairs)
#define TILE_TABLE(name)                                                           \
    {                                                                              \
        TILE_ROW(1, name), TILE_ROW(2, name), TILE_ROW(3, name), TILE_ROW(4, name) \
    }
#else
#define TILE_SET(name, trans_a, pairs)    \
    TILE_KERNELS(1, name, trans_a, pairs) \
    TILE_KERNELS(2, name, trans_a, pairs)
#define TILE_TABLE(name)                     \
    {                                        \
        TILE_ROW(1, name), TILE_ROW(2, name) \
    }
#endif

TILE_SET(, false, false)
TILE_SET(t, true, false)
#if defined(__AVX512BF16__)
TILE_SET(p, false, true)
TILE_SET(pt, true, true)
#endif

/* Indexed by pairs, trans_a, vectors - 1, rows - 1. */
static tile_kernel *const tile_kernels[1 + TILE_PAIRS][2][TILE_VECS][TILE_ROWS] = {
    { TILE_TABLE(), TILE_TABLE(t) },
#if defined(__AVX512BF16__)
    { TILE_TABLE(p), TILE_TABLE(pt) },
#endif
};

static inline void tile_check(const struct tile_product *p)
{
    size_t width = sizeof(float), bytes = p->n * LANES * width;

    unchecked_rows(p->a, p->trans_a ? p->k : p->m, (p->trans_a ? p->m : p->k) * width,
                   p->lda * width);
    unchecked_rows(p->b, p->k, bytes, p->ldb * width);
    unchecked_rows(p->c, p->m, bytes, p->ldc * width);
}

static inline void tile_multiply(const struct tile_product *p)
{
    tile_check(p);
    for (size_t column = 0; column < p->n; column += TILE_VECS) {
        size_t vecs = p->n - column < TILE_VECS ? p->n - column : TILE_VECS;

        for (size_t row = 0; row < p->m; row += TILE_ROWS) {
            size_t rows = p->m - row < TILE_ROWS ? p->m - row : TILE_ROWS;

            tile_kernels[p->pairs][p->trans_a][vecs - 1][rows - 1](p, row,
                                                                   column * LANES);
        }
    }
}

typedef float tile_quad __attribute__((vector_size(16)));

/* The lower (upper) halves, one from each alternately. */
CPU_INLINE tile_quad tile_low(tile_quad a, tile_quad b)
{
    return __builtin_shufflevector(a, b, 0, 4, 1, 5);
}

CPU_INLINE tile_quad tile_high(tile_quad a, tile_quad b)
{
    return __builtin_shufflevector(a, b, 2, 6, 3, 7);
}

/* out (cols, rows) = in (rows, cols)^T, words; both dimensions are multiples of 4 */
static inline void tile_transpose(float *out, size_t ldo, const float *in, size_t ldi,
                                  size_t rows, size_t cols)
{
    for (size_t i = 0; i < rows; i += 4)
        for (size_t j = 0; j < cols; j += 4) {
            tile_quad x[4], ac_low, ac_high, bd_low, bd_high;

            for (int k = 0; k < 4; k++)
                memcpy(&x[k], in + (i + k) * ldi + j, sizeof(x[k]));
            ac_low = tile_low(x[0], x[2]);
            ac_high = tile_high(x[0], x[2]);
            bd_low = tile_low(x[1], x[3]);
            bd_high = tile_high(x[1], x[3]);
            x[0] = tile_low(ac_low, bd_low);
            x[1] = tile_high(ac_low, bd_low);
            x[2] = tile_low(ac_high, bd_high);
            x[3] = tile_high(ac_high, bd_high);
            for (int k = 0; k < 4; k++)
                memcpy(out + (j + k) * ldo + i, &x[k], sizeof(x[k]));
        }
}

/* Elements of two rows, rounded to bf16, as words. */
CPU_INLINE vec tile_pair(vec low, vec high)
{
    uvec a = (uvec)low, b = (uvec)high;

    a += 0x7fff + (a >> 16 & 1); /* NaN stays NaN: the NaNs of arithmetic end in zeros */
    b += 0x7fff + (b >> 16 & 1);
    return (vec)(a >> 16 | (b & 0xffff0000));
}

/* out (cols) = words of two rows of bf16 elements */
static inline void tile_pair_rows(float *out, const uint16_t *low, const uint16_t *high,
                                  size_t cols)
{
    for (size_t i = 0; i < cols; i++) {
        uint32_t word = low[i] | (uint32_t)high[i] << 16;

        memcpy(out + i, &word, sizeof(word));
    }
}

#endif
