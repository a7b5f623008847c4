/*
 * kernels/cuda/cuda_plan.h - matmul plans: the descriptors of a matmul for cuBLASLt and
 * the algorithm it chose, created once for each shape and cached.
 *
 * cuBLASLt's matrices are column-major and ours row-major, so out = a b is described to
 * it as out^T = b^T a^T: its A is our b, its B is our a, and nothing is moved.
 */
#ifndef KERNELS_CUDA_CUDA_PLAN_H
#define KERNELS_CUDA_CUDA_PLAN_H

#include "kernels/cuda/cuda_library.h"
#include "kernels/matmul_choices.h"
#include "kernels/ops.h"

/* How many are cached: a number of rows has about fifteen, and a job has some dozens of
 * such numbers. A plan is about 1.5 KiB of host memory. */
enum { CUDA_PLANS_MOST = 1024, CUDA_PLAN_CHOICES = 16 };

struct cuda_plan {
    struct matmul_key key;
    struct cuda_plan *next;
    uint64_t used; /* time of last use: the lowest is evicted first */
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, out; /* ours, not the library's */
    /* Best first, by the library's estimate or as cuda_tuning.c chose. The library may
     * refuse one of them only when the matmul is enqueued: then `chosen` advances to the
     * next. */
    cublasLtMatmulAlgo_t algos[CUDA_PLAN_CHOICES];
    unsigned count, chosen;
    bool settled;          /* by cuda_tuning.c */
    bool adds_bias;        /* in the matmul; otherwise it is added afterwards */
    cublasStatus_t status; /* why there is no algorithm; else success */
};

struct cuda_plans; /* the plan cache */

struct cuda_plans *cuda_plans_new(const struct cuda_library *library,
                                  cublasLtHandle_t handle, size_t workspace_bytes);
void cuda_plans_free(struct cuda_plans *plans); /* NULL is allowed */
size_t cuda_plans_count(const struct cuda_plans *plans);
void cuda_plans_forget(struct cuda_plans *plans); /* all of them */

/* Return the exponent of the largest power of two up to 256 that divides an address. */
unsigned char cuda_plan_aligned(const void *data);

/* Return the plan for it, creating it if necessary, valid until the next call; check its
 * status. NULL if memory runs out. */
struct cuda_plan *cuda_plan_find(struct cuda_plans *plans, const struct matmul_key *key);

#endif
