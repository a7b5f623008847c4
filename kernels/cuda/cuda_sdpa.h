/*
 * kernels/cuda/cuda_sdpa.h - attention and its gradients as cuDNN graphs: matmuls, masks
 * and a softmax, which its engines for "scaled dot product attention" recognize and run as
 * a few kernels. See docs/performance.md for what they cost.
 */
#ifndef KERNELS_CUDA_CUDA_SDPA_H
#define KERNELS_CUDA_CUDA_SDPA_H

#include <stdbool.h>
#include <stddef.h>

#include "kernels/cuda/cudnn_graph.h"

/* The key of a plan: compared byte for byte, so there are no gaps. Strides are from row
 * to row, in elements; the heads of a row are adjacent. */
struct cuda_sdpa_key {
    int64_t sequences, longest; /* number of sequences, and the maximum rows of one */
    int64_t heads, kv_heads, head_size;
    int64_t window; /* 0: all earlier rows */
    int64_t q_stride, k_stride, v_stride, out_stride;
    int64_t data_type; /* CUDNN_HALF, CUDNN_BFLOAT16 */
    int64_t backward;  /* 1: the gradients, whose strides follow; else all are 0 */
    int64_t dout_stride, dq_stride, dk_stride, dv_stride;
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
    /* of the gradients */
    SDPA_DOUT,
    SDPA_DQ,
    SDPA_DK,
    SDPA_DV,
    SDPA_DOUT_ROWS,
    SDPA_DQ_ROWS,
    SDPA_DK_ROWS,
    SDPA_DV_ROWS,
    SDPA_DELTA,  /* scratch: fp32 (sequences, heads, longest) */
    SDPA_DQ_SUM, /* scratch: fp32 (sequences, heads, longest, head_size) */
    SDPA_ONE,    /* by value: 1 */
    SDPA_IDS,
};

/* Bytes of the scratch tensors. */
size_t cuda_sdpa_delta_bytes(const struct cuda_sdpa_key *key);
size_t cuda_sdpa_dq_bytes(const struct cuda_sdpa_key *key);

/* Create the plan. NULL with ERROR_DEVICE: either cuDNN has no engine for it among those
 * allowed, and *none is true, or something failed. */
struct cudnn_plan *cuda_sdpa_plan_new(const struct cuda_cudnn *cudnn,
                                      const struct cudnn_choice *choice,
                                      const struct cuda_sdpa_key *key, bool *none,
                                      struct error *err);

#endif
