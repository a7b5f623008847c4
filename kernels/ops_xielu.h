/*
 * kernels/ops_xielu.h - an activation with learned slopes.
 *
 * Letters as in kernels/ops.h.
 */
#ifndef KERNELS_OPS_XIELU_H
#define KERNELS_OPS_XIELU_H

#include "kernels/tensor.h"

/* Scalars of the activation, (1, 1) each: parameters of the slopes, fp32 or 16-bit, of which
 * the softplus is used; and constants of the model, fp32. */
struct xielu {
    struct tensor alpha_p, alpha_n, beta, eps;
};

/*
 * out (N, I) = xIELU(x), with p = log(1 + e^alpha_p) and n = beta + log(1 + e^alpha_n):
 *   x > 0   p x^2 + beta x
 *   else    n (e^min(x, eps) - 1 - x) + beta x
 * x, out compute; out may be x; eps is at most 0.
 * Huang and Schlag, "Deriving Activation Functions Using Integration", 2024; transformers,
 * activations.py, XIELUActivation.
 */
struct op_xielu {
    struct tensor out, x;
    struct xielu by;
};

/*
 * dx = dout * xIELU'(x); dx may share its data with x or dout.  From eps on, e^min(x, eps)
 * does not depend on x.  out, if present, = xIELU(x) to the bits of op_xielu, and may share
 * its data with the other of the two.
 *   dalpha_p, dalpha_n (1, 1) fp32 += the gradients of the parameters, or absent
 */
struct op_xielu_backward {
    struct tensor dx, out, dout, x, dalpha_p, dalpha_n;
    struct xielu by;
};

#endif
