/*
 * kernels/ops_latent.h - operations of multi-head latent attention (part of kernels/ops.h).
 * They come after the layers that compute parts of heads from latents, and before attention
 * over whole heads.  DeepSeek-AI, "DeepSeek-V2", 2024, section 2.1.
 */
#ifndef KERNELS_OPS_LATENT_H
#define KERNELS_OPS_LATENT_H

#include "kernels/tensor.h"

/*
 * Assemble the H heads of D columns that attention reads.  Each head of a query or key has
 * P columns that are not rotated, followed by R that are; all heads of a key share the
 * latter.  A value has V columns.  D >= P + R, D >= V; the other columns are 0.
 *   up_q   (N, H (P + R))  P, R of each head
 *   up_kv  (N, H (P + V))  P of the key, V of the value of each head
 *   shared (N, R)          of the key, before it is rotated
 *   q, k, v (N, H D)       all six have the same format
 * table, positions, interleaved: those of op_rope, with table.cols = R, R > 0 even.
 * P = up_q.cols / H - R, V = up_kv.cols / H - P.
 */
struct op_latent {
    struct tensor q, k, v, up_q, up_kv, shared, table;
    const int32_t *positions;
    size_t heads;
    bool interleaved;
};

/* The gradients of up_q, up_kv and shared for those of q, k and v, which stay unchanged; the
 * sum over the heads is computed in fp32. */
struct op_latent_backward {
    struct tensor dup_q, dup_kv, dshared, dq, dk, dv, table;
    const int32_t *positions;
    size_t heads;
    bool interleaved;
};

/* out (N, H A) = x (N, H B), head by head: the first min(A, B) columns; others are 0.  Both
 * have the same format.  The backward pass is the same operation with A and B swapped. */
struct op_pad_heads {
    struct tensor out, x;
    size_t heads;
};

#endif
