/*
 * kernels/cuda/cuda_sdpa.h - attention as a cuDNN graph: matmuls, masks and a softmax,
 * which its engines for "scaled dot product attention" recognize and run as one kernel.
 * Only the forward pass: see docs/performance.md for why.
 */
#ifndef KERNELS_CUDA_CUDA_SDPA_H
#define KERNELS_CUDA_CUDA_SDPA_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/cuda_cudnn.h"

/* The key of a plan: compared byte for byte, so there are no gaps. Strides are from row
 * to row, in elements; the heads of a row are adjacent. */
struct cuda_sdpa_key {
    int64_t sequences, longest; /* number of sequences, and the maximum rows of one */
    int64_t heads, kv_heads, head_size;
    int64_t window; /* 0: all earlier rows */
    int64_t q_stride, k_stride, v_stride, out_stride;
    int64_t data_type; /* CUDNN_HALF, CUDNN_BFLOAT16 */
};

/*
 * The tensors that a plan receives. Rows of sequences are found by offsets in elements
 * from the first, int32 (sequences + 1): offsets of rows times a stride. Statistics are
 * the log-sum-exp, fp32 (N, H), so their offsets are rows times heads.
 */
enum cuda_sdpa_id {
    SDPA_Q = 1,
    SDPA_K,
    SDPA_V,
    SDPA_OUT,
    SDPA_STATS,
    SDPA_LENGTHS, /* int32 (sequences): rows of each sequence */
    SDPA_Q_ROWS,
    SDPA_K_ROWS,
    SDPA_V_ROWS,
    SDPA_OUT_ROWS,
    SDPA_STATS_ROWS,
    SDPA_SCALE,  /* by value: a float on the host */
    SDPA_HIDDEN, /* by value: the value of masked scores, -inf */
    SDPA_WINDOW, /* by value: the window; only if there is one */
    SDPA_IDS,
};

struct cuda_sdpa_plan;

/*
 * Create the plan. handle: NULL together with `device`, a finalized descriptor of a GPU
 * that is not in this machine. NULL with ERROR_DEVICE: either cuDNN has no engine for it
 * that gives the same bits each time, and *none is true, or something failed.
 */
struct cuda_sdpa_plan *cuda_sdpa_plan_new(const struct cuda_cudnn *cudnn,
                                          cudnn_handle handle, cudnn_descriptor device,
                                          const struct cuda_sdpa_key *key, bool *none,
                                          struct error *err);
void cuda_sdpa_plan_free(struct cuda_sdpa_plan *plan); /* NULL is allowed */

size_t cuda_sdpa_workspace(const struct cuda_sdpa_plan *plan); /* bytes */

/* Enqueue it on the handle's stream. tensors: by id, each SDPA_... except the window if
 * there is none; by-value tensors are read before it returns. */
bool cuda_sdpa_run(const struct cuda_sdpa_plan *plan, void *const tensors[SDPA_IDS],
                   void *workspace, struct error *err);

#endif
