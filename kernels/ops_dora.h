/*
 * kernels/ops_dora.h - operations of weight-decomposed adapters (part of kernels/ops.h):
 * each output of a linear layer is divided by the norm of its row of weights and multiplied
 * by a trained magnitude.  Liu et al., "DoRA", 2024.
 */
#ifndef KERNELS_OPS_DORA_H
#define KERNELS_OPS_DORA_H

#include "kernels/tensor.h"

/* norm (1, O) fp32: norm[o] = sqrt(sum over C of (w + scale * b a)[o]^2);  w (O, C),
 * a (r, C), b (O, r), each in any of the three formats; r is at most DORA_RANK_MAX */
enum { DORA_RANK_MAX = 4096 };

struct op_dora_norm {
    struct tensor norm, w, a, b;
    float scale;
};

/*
 * out (N, O) = beta * out + x * (magnitude / norm + offset) + bias
 *   x          (N, O) compute;  out  compute or fp32, beta is 0 (not read) or 1
 *   magnitude  (1, O) any format, norm (1, O) fp32; both absent: their quotient is 1
 *   bias       (1, O) fp32, or absent
 */
struct op_dora_scale {
    struct tensor out, x, magnitude, norm, bias;
    float beta, offset;
};

/*
 * dx (N, O) compute = dout * (magnitude / norm + offset); it may be dout
 * dmagnitude (1, O) fp32 += sum over rows of dout * x, divided by norm; it may be absent,
 * and then x may be absent, too
 * The norm counts as a constant, as in PEFT (section 4.3 of the paper).
 */
struct op_dora_scale_backward {
    struct tensor dx, dmagnitude, dout, x, magnitude, norm;
    float offset;
};

#endif
