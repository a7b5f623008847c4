/*
 * kernels/cuda/cuda_plan.h - plans of products: what cuBLASLt is told of a product, and
 * the algorithm it chose, made once for each shape that is used now and then.
 *
 * cuBLASLt's matrices have columns where ours have rows, so a row-major product out = a b
 * is told to it as out^T = b^T a^T: its A is our b, its B is our a, and nothing is moved.
 */
#ifndef KERNELS_CUDA_CUDA_PLAN_H
#define KERNELS_CUDA_CUDA_PLAN_H

#include "kernels/cuda/cuda_library.h"
#include "kernels/ops.h"

/* How many are kept: a number of rows has some fifteen, and a job some dozens of such
 * numbers.  A plan is about a kilobyte of the host's memory. */
enum { CUDA_PLANS_MOST = 1024, CUDA_PLAN_CHOICES = 4 };

/* All that an algorithm is chosen by: compared byte for byte, so there are no gaps. */
struct cuda_plan_key {
    size_t rows, cols, depth; /* of out, and the dimension added up */
    size_t a_stride, b_stride, out_stride;
    unsigned char trans_a, trans_b;
    unsigned char a_format, b_format, out_format;
    unsigned char bias; /* there is one */
    unsigned char tf32;
    unsigned char a_aligned, b_aligned, out_aligned,
        bias_aligned; /* powers of two, to 256 */
    unsigned char none[5];
};
_Static_assert(sizeof(struct cuda_plan_key) == 6 * sizeof(size_t) + 16, "no gaps");

struct cuda_plan {
    struct cuda_plan_key key;
    struct cuda_plan *next;
    uint64_t used; /* when: the least is given up first */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, out; /* ours, not the library's */
    /* Best first.  The library may refuse one of them only when asked for the product:
     * then it is `chosen`'s turn to go on to the next. */
    cublasLtMatmulAlgo_t algos[CUDA_PLAN_CHOICES];
    unsigned count, chosen;
    bool adds_bias;        /* in the product; else it has to be added behind it */
    cublasStatus_t status; /* why there is no algorithm; else success */
};

struct cuda_plans; /* the plans that are kept */

struct cuda_plans *cuda_plans_new(const struct cuda_library *library,
                                  cublasLtHandle_t handle, size_t workspace_bytes);
void cuda_plans_free(struct cuda_plans *plans); /* NULL is allowed */
size_t cuda_plans_count(const struct cuda_plans *plans);

/* The exponent of the largest power of two up to 256 that an address is a multiple of. */
unsigned char cuda_plan_aligned(const void *data);

/* The plan for it, good until the next is asked for, and made where there is none; look
 * at its status.  NULL for want of memory. */
struct cuda_plan *cuda_plan_find(struct cuda_plans *plans,
                                 const struct cuda_plan_key *key);

#endif
