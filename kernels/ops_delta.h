/*
 * kernels/ops_delta.h - the operations of linear attention by the gated delta rule; a part
 * of kernels/ops.h, whose letters and promises apply.
 *
 * A layer computes q, k, v (side by side), z, b and a from x, each by a matmul.  op_conv
 * (kernels/ops_conv.h) mixes the last few rows of q, k and v; op_decay computes the decay and beta of each head
 * from a and b; op_delta is the attention.  Its output passes op_headnorm and is gated by
 * silu(z) (op_swiglu).  Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024;
 * torch_chunk_gated_delta_rule of transformers/models/qwen3_5/modeling_qwen3_5.py.
 */
#ifndef KERNELS_OPS_DELTA_H
#define KERNELS_OPS_DELTA_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* Rows of a chunk of op_delta; most columns of its keys or values. */
enum { DELTA_CHUNK = 32, DELTA_SIZE_MAX = 128 };

/*
 * decay = -e^a_log * softplus(a + bias), the logarithm of a decay;  beta = sigmoid(b)
 *   decay, beta  (N, H) fp32
 *   a, b         (N, H) compute
 *   a_log, bias  (1, H) any format
 * softplus x is log(1 + e^x), and x above 20.
 */
struct op_decay {
    struct tensor decay, beta, a, b, a_log, bias;
};

/* da, db (N, H) compute = gradients for ddecay and dbeta (N, H) fp32;  da_log, dbias (1, H)
 * fp32 += theirs, or absent.  The rest is as in op_decay.  da may be a, and db may be b. */
struct op_decay_backward {
    struct tensor da, db, da_log, dbias, ddecay, dbeta, a, b, a_log, bias;
};

/*
 * Attention with a state in place of a cache, within each sequence.  Of the H heads of
 * values, H / K adjacent ones share a head of queries and keys:
 *   S = e^decay S;  S = S + k (beta (v - S^T k))^T;  out = S^T q
 * for each row; S (D, D') starts at 0.  k is divided by sqrt(sum of its squares + 1e-6); q
 * likewise, and also by sqrt(D).
 *   q, k    (N, K*D) compute;  v, out (N, H*D') compute;  D, D' up to DELTA_SIZE_MAX
 *   decay   (N, H) fp32, not above 0;  beta (N, H) fp32
 *   state   (sequences, H*D*D') fp32, or absent: = S after the last row of each sequence,
 *           D rows for each head; for an empty sequence unchanged if resumes, else 0.
 *           resumes: S starts from it.
 * S is computed in chunks of DELTA_CHUNK rows.  Within a chunk, the updates of the rows are
 * the solution of a triangular system.  Yang et al., "Parallelizing Linear Transformers with
 * the Delta Rule over Sequence Length", 2024.
 */
struct op_delta {
    struct tensor out, q, k, v, decay, beta, state;
    const int32_t *offsets;
    size_t sequences, heads, key_heads;
    bool resumes;
};

/* Return the number of rows that op_delta_backward's states need for a batch. */
static inline size_t op_delta_chunks(size_t rows, size_t sequences)
{
    return rows / DELTA_CHUNK + sequences;
}

/* Return the row of the first chunk of sequence s, which begins with row `first`. */
static inline size_t op_delta_first_chunk(size_t first, size_t s)
{
    return first / DELTA_CHUNK + s;
}

/*
 * dq, dk, dv (shapes and format of q, k, v) = gradients for dout;  ddecay, dbeta (N, H)
 * fp32 = theirs.  `forward` has the operands of the forward pass, without a state; its out
 * is not read.
 *   states, dstates  (op_delta_chunks, H*D*D') fp32: scratch; only a GPU needs dstates
 */
struct op_delta_backward {
    struct tensor dq, dk, dv, ddecay, dbeta, dout, states, dstates;
    struct op_delta forward;
};

#endif
