/*
 * kernels/ops_delta.h - the operations of linear attention by the gated delta rule; a part
 * of kernels/ops.h, whose letters and promises apply.
 *
 * A layer computes q, k, v (side by side), z, b and a from x, each by a matmul.  op_conv
 * mixes the last few rows of q, k and v; op_decay computes the decay and beta of each head
 * from a and b; op_delta is the attention.  Its output passes op_headnorm and is gated by
 * silu(z) (op_swiglu).  Yang, Kautz and Hatamizadeh, "Gated Delta Networks", 2024;
 * torch_chunk_gated_delta_rule of transformers/models/qwen3_5/modeling_qwen3_5.py.
 */
#ifndef KERNELS_OPS_DELTA_H
#define KERNELS_OPS_DELTA_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* Most taps of op_conv; rows of a chunk of op_delta; most columns of its keys or values. */
enum { CONV_TAPS_MAX = 8, DELTA_CHUNK = 32, DELTA_SIZE_MAX = 128 };

/*
 * out[n, c] = silu(sum over j < J of weight[c, j] * x[n - J + 1 + j, c]), where rows before
 * the first of a sequence are 0.  Each column is filtered separately and reads J rows.
 *   x, out  (N, C) compute, not sharing their data;  offsets, sequences as in op_attention
 *   weight  (C, J) fp32 or 16-bit (frozen), J from 2 to CONV_TAPS_MAX
 *   state   (sequences * (J - 1), C) compute, or absent: = the last J - 1 rows of x of each
 *           sequence, the oldest first, from which a later call can continue.  resumes:
 *           read the rows before the first from the state, instead of zeros.
 */
struct op_conv {
    struct tensor out, x, weight, state;
    const int32_t *offsets;
    size_t sequences;
    bool resumes;
};

/* dx (N, C) compute = the gradient for dout;  dweight (C, J) fp32 += its own, or absent.  x
 * and weight are those of the forward pass, without a state.  dx shares its data with
 * neither. */
struct op_conv_backward {
    struct tensor dx, dweight, dout, x, weight;
    const int32_t *offsets;
    size_t sequences;
};

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
