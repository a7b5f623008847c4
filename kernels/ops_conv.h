/*
 * kernels/ops_conv.h - a causal convolution of each column alone; a part of kernels/ops.h,
 * whose letters and promises apply.
 *
 * Linear attention filters q, k and v with it, followed by SiLU (kernels/ops_delta.h).  The
 * layers of LFM2 that have no attention are such a filter between two gates: Lfm2ShortConv of
 * transformers/models/lfm2/modeling_lfm2.py.
 */
#ifndef KERNELS_OPS_CONV_H
#define KERNELS_OPS_CONV_H

#include <stdbool.h>

#include "kernels/tensor.h"

/* Most taps. */
enum { CONV_TAPS_MAX = 8 };

/*
 * out[n, c] = silu(s[n, c]), or with gates after[n, c] * s[n, c];
 * s[n, c] = bias[c] + sum over j < J of weight[c, j] * u[n - J + 1 + j, c];
 * u = x, or with gates before * x.  Rows of u before the first of a sequence are 0.  Each
 * column is filtered separately and reads J rows.
 *   x, out  (N, C) compute, not sharing their data;  offsets, sequences as in op_attention
 *   weight  (C, J) fp32 or 16-bit (frozen), J from 2 to CONV_TAPS_MAX
 *   state   (sequences * (J - 1), C) fp32, or absent: = the last J - 1 rows of u of each
 *           sequence, the oldest first, from which a later call can continue.  resumes:
 *           read the rows before the first from the state, instead of zeros.
 *   before, after  (N, C) compute, the gates; both absent: there are none
 *   bias    (1, C) any format, or absent: 0
 */
struct op_conv {
    struct tensor out, x, weight, state, before, after, bias;
    const int32_t *offsets;
    size_t sequences;
    bool resumes;
};

/* dx, dbefore, dafter (N, C) compute = the gradients for dout, the last two with gates;
 * dweight (C, J), dbias (1, C) fp32 += their own, or absent.  The rest is as in the forward
 * pass, without a state.  The gradients share their data with none of the others. */
struct op_conv_backward {
    struct tensor dx, dweight, dout, x, weight;
    struct tensor dbefore, dafter, dbias, before, after, bias;
    const int32_t *offsets;
    size_t sequences;
};

#endif
