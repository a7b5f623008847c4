/*
 * kernels/cpu/cpu_matmul_kernel.h - the inner loops of a matmul, one table per
 * instruction set.
 *
 * A block of the result is computed from panels. A panel has `width` rows of op(a), or
 * columns of op(b), adjacent for each k: element (k, i) is at k * width + i. Panels of
 * bf16 hold pairs of k and k + 1, as the dot-product instruction requires; an odd end is
 * padded with 0.
 */
#ifndef KERNELS_CPU_CPU_MATMUL_KERNEL_H
#define KERNELS_CPU_CPU_MATMUL_KERNEL_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* One operand, a or b: `outer` counts the rows of op(a) or the columns of op(b). */
struct matmul_side {
    const void *data;
    enum format format;
    size_t stride;
    bool deep;         /* element at outer * stride + k, else at k * stride + outer */
    enum format round; /* the format fp32 is rounded to first; FORMAT_FP32: none */
};

/* A part of a side. */
struct matmul_part {
    size_t first, count; /* outer */
    size_t k, depth;
};

/* Memory to prefetch while a block is multiplied: rows of bytes. */
struct matmul_prefetch {
    const char *data; /* or NULL */
    size_t rows, bytes, stride;
};

/* Rows by columns of the result, summed over depth. */
struct matmul_block {
    const void *a;   /* units (an element, or a pair of bf16) in place, or one panel */
    size_t a_stride; /* in bytes */
    bool a_deep;     /* as in struct matmul_side */
    const void *b;   /* panels of `cols` columns, the last one narrower */
    size_t rows, cols, depth;
    struct tensor out;
    const float *bias; /* one per column, or NULL */
    float alpha;
    bool add; /* to the contents of out */
    struct matmul_prefetch ahead;
};

struct matmul_kernels {
    size_t rows, cols; /* of a micro-tile; cols is the width of a panel of b */
    size_t lanes;      /* the columns of the last panel of b are rounded up to this */
    bool bf16;         /* can multiply bf16; else packing converts everything to fp32 */

    /* Pack one panel; `width` >= count: the rest is 0. bf16: pairs, of a side that is
     * bf16 or rounded to it. */
    void (*pack)(void *to, size_t width, const struct matmul_side *side,
                 const struct matmul_part *part, bool bf16);
    /* Write a part of a side that is rounded, in that format, row after row. */
    void (*round)(void *to, const struct matmul_side *side,
                  const struct matmul_part *part);
    /* Write a part as fp32, otherwise unchanged, with rows `stride` apart. */
    void (*unfold)(float *to, size_t stride, const struct matmul_side *side,
                   const struct matmul_part *part);
    /* Store a row of sums, times alpha, plus bias, plus the contents of out if `add`, in
     * the format of out. */
    void (*finish)(const struct matmul_block *block, size_t row, size_t col, size_t count,
                   float *sums);
    void (*multiply)(const struct matmul_block *block, bool bf16);
};

extern const struct matmul_kernels matmul_kernels_generic;
extern const struct matmul_kernels matmul_kernels_avx2;   /* only on x86-64 */
extern const struct matmul_kernels matmul_kernels_avx512; /* only on x86-64 */

#endif
