/* kernels/ops_clamped.h - the experts of gpt-oss: a clamped activation, and biases (part of
 * kernels/ops.h). */
#ifndef KERNELS_OPS_CLAMPED_H
#define KERNELS_OPS_CLAMPED_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/tensor.h"

/*
 * out (M, I) = (u + 1) g / (1 + e^(-alpha g)),  g = min(gate, limit),  u = up, at least
 * -limit and at most limit;  NaN stays NaN.  gate, up, out compute; limit > 0.
 * transformers, models/gpt_oss/modeling_gpt_oss.py (GptOssExperts).
 */
struct op_clamped {
    struct tensor out, gate, up;
    float alpha, limit;
};

/* dgate, dup = gradients for dout, 0 where the input is clamped; each may share its data
 * with gate or up.  out, if present, = the output, with the same bits as in op_clamped; it
 * may share its data with dout. */
struct op_clamped_backward {
    struct tensor dgate, dup, out, dout, gate, up;
    float alpha, limit;
};

/* out (M, C) any format += bias[g] in the rows of group g, starts[g] to starts[g + 1] - 1;
 * bias (groups, C) fp32;  starts (groups + 1) as in op_grouped_matmul. */
struct op_group_bias {
    struct tensor out, bias;
    const int32_t *starts;
    size_t groups;
};

/* dbias (groups, C) fp32 += the sums of the rows of each group of dout (M, C), any
 * format. */
struct op_group_bias_backward {
    struct tensor dbias, dout;
    const int32_t *starts;
    size_t groups;
};

#endif
