/*
 * kernels/ops_scan.h - the selective scan of Mamba-2; a part of kernels/ops.h, whose letters
 * and promises apply.
 *
 * A layer computes a gate, x, b, c (these three side by side) and dt from its input, by one
 * matmul.  op_conv mixes the last few rows of x, b and c; op_scan is the state space model.
 * Its output is multiplied by silu(gate), with a norm before, after or without one.  Dao and
 * Gu, "Transformers are SSMs", 2024; mamba2_chunk_scan of
 * transformers/models/falcon_h1/modeling_falcon_h1.py.
 */
#ifndef KERNELS_OPS_SCAN_H
#define KERNELS_OPS_SCAN_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* Rows of a chunk of op_scan_backward; most columns of a head; most of its state's. */
enum { SCAN_CHUNK = 32, SCAN_SIZE_MAX = 128, SCAN_STATE_MAX = 256 };

/*
 * Each of H heads has a state S (P, D), which starts at 0 with every sequence; H / G adjacent
 * heads share the columns of b and c of one of G groups:
 *   step = softplus(dt + bias), from low to high
 *   S = e^(-e^a_log step) S + step x b^T;  out = S c + skip x
 * for each row.  softplus x is log(1 + e^x), and x above 20.
 *   x, out        (N, H*P) compute;  P up to SCAN_SIZE_MAX
 *   b, c          (N, G*D) compute;  D up to SCAN_STATE_MAX
 *   dt            (N, H) compute
 *   a_log, bias, skip  (1, H) any format
 *   state         (sequences, H*P*D) fp32, or absent: = S after the last row of each sequence,
 *                 P rows for each head; for an empty sequence unchanged if resumes, else 0.
 *                 resumes: S starts from it.
 */
struct op_scan {
    struct tensor out, x, b, c, dt, a_log, bias, skip, state;
    const int32_t *offsets;
    size_t sequences, heads, groups;
    float low, high;
    bool resumes;
};

/* Return the number of rows that the states of op_scan_backward need for a batch. */
static inline size_t op_scan_chunks(size_t rows, size_t sequences)
{
    return rows / SCAN_CHUNK + sequences;
}

/* Return the row of the first chunk of sequence s, which begins with row `first`. */
static inline size_t op_scan_first_chunk(size_t first, size_t s)
{
    return first / SCAN_CHUNK + s;
}

/*
 * dx, db, dc, ddt (shapes and format of x, b, c, dt) = gradients for dout;  da_log, dbias,
 * dskip (1, H) fp32 += theirs, or absent.  `forward` has the operands of the forward pass,
 * without a state; its out is not read.
 *   states, dstates  (op_scan_chunks, H*P*D) fp32: scratch
 *   sums             (op_scan_chunks, 3*H) fp32: scratch
 */
struct op_scan_backward {
    struct tensor dx, db, dc, ddt, da_log, dbias, dskip, dout, states, dstates, sums;
    struct op_scan forward;
};

#endif
