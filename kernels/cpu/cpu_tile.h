/*
 * kernels/cpu/cpu_tile.h - products of small fp32 matrices that lie in the cache, for
 * attention.
 *
 * A matrix here is contiguous rows of whole vectors.  c is held in registers, TILE_ROWS
 * by TILE_VECS vectors at a time, while k runs; the order of additions depends on the
 * shape alone.
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

/* c (m, n) = or += a (m, k) b (k, n), n in vectors; ld: numbers from one row to the next
 */
struct tile_product {
    float *c;
    const float *a, *b;
    size_t ldc, lda, ldb, m, n, k;
    bool trans_a; /* a is (k, m) */
    bool add;
};

CPU_INLINE void tile_block(const struct tile_product *p, size_t row, size_t column,
                           int rows, int vecs, bool trans_a)
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
                sum[i][j] += factor * part[j];
        }
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < vecs; j++) {
            float *to = c + (size_t)i * p->ldc + j * LANES;

            vec_put(to, p->add ? vec_get(to) + sum[i][j] : sum[i][j]);
        }
}

typedef void tile_kernel(const struct tile_product *p, size_t row, size_t column);

#define TILE_KERNEL(rows, vecs)                                                   \
    static void tile_##rows##x##vecs(const struct tile_product *p, size_t row,    \
                                     size_t column)                               \
    {                                                                             \
        tile_block(p, row, column, rows, vecs, false);                            \
    }                                                                             \
    static void tile_##rows##x##vecs##t(const struct tile_product *p, size_t row, \
                                        size_t column)                            \
    {                                                                             \
        tile_block(p, row, column, rows, vecs, true);                             \
    }

#define TILE_KERNELS(vecs) \
    TILE_KERNEL(1, vecs)   \
    TILE_KERNEL(2, vecs)   \
    TILE_KERNEL(3, vecs)   \
    TILE_KERNEL(4, vecs)   \
    TILE_KERNEL(5, vecs)   \
    TILE_KERNEL(6, vecs)

#define TILE_ROW(vecs, t)                                                       \
    {                                                                           \
        tile_1x##vecs##t, tile_2x##vecs##t, tile_3x##vecs##t, tile_4x##vecs##t, \
            tile_5x##vecs##t, tile_6x##vecs##t                                  \
    }

TILE_KERNELS(1)
TILE_KERNELS(2)
#if defined(__AVX512F__)
TILE_KERNELS(3)
TILE_KERNELS(4)
#endif

/* By trans_a, vectors - 1, rows - 1. */
static tile_kernel *const tile_kernels[2][TILE_VECS][TILE_ROWS] = {
#if defined(__AVX512F__)
    { TILE_ROW(1, ), TILE_ROW(2, ), TILE_ROW(3, ), TILE_ROW(4, ) },
    { TILE_ROW(1, t), TILE_ROW(2, t), TILE_ROW(3, t), TILE_ROW(4, t) },
#else
    { TILE_ROW(1, ), TILE_ROW(2, ) },
    { TILE_ROW(1, t), TILE_ROW(2, t) },
#endif
};

static inline void tile_multiply(const struct tile_product *p)
{
    for (size_t column = 0; column < p->n; column += TILE_VECS) {
        size_t vecs = p->n - column < TILE_VECS ? p->n - column : TILE_VECS;

        for (size_t row = 0; row < p->m; row += TILE_ROWS) {
            size_t rows = p->m - row < TILE_ROWS ? p->m - row : TILE_ROWS;

            tile_kernels[p->trans_a][vecs - 1][rows - 1](p, row, column * LANES);
        }
    }
}

typedef float tile_quad __attribute__((vector_size(16)));
typedef int32_t tile_order __attribute__((vector_size(16)));

/* out (cols, rows) = scale * in (rows, cols)^T; both numbers are multiples of 4 */
static inline void tile_transpose(float *out, size_t ldo, const float *in, size_t ldi,
                                  size_t rows, size_t cols, float scale)
{
    static const tile_order low = { 0, 4, 1, 5 }, high = { 2, 6, 3, 7 };

    for (size_t i = 0; i < rows; i += 4)
        for (size_t j = 0; j < cols; j += 4) {
            tile_quad x[4], ac_low, ac_high, bd_low, bd_high;

            for (int k = 0; k < 4; k++) {
                memcpy(&x[k], in + (i + k) * ldi + j, sizeof(x[k]));
                x[k] *= scale;
            }
            ac_low = __builtin_shuffle(x[0], x[2], low);
            ac_high = __builtin_shuffle(x[0], x[2], high);
            bd_low = __builtin_shuffle(x[1], x[3], low);
            bd_high = __builtin_shuffle(x[1], x[3], high);
            x[0] = __builtin_shuffle(ac_low, bd_low, low);
            x[1] = __builtin_shuffle(ac_low, bd_low, high);
            x[2] = __builtin_shuffle(ac_high, bd_high, low);
            x[3] = __builtin_shuffle(ac_high, bd_high, high);
            for (int k = 0; k < 4; k++)
                memcpy(out + (j + k) * ldo + i, &x[k], sizeof(x[k]));
        }
}

#endif
