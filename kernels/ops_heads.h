/*
 * kernels/ops_heads.h - LayerNorm of the heads of queries and keys, and limits of their values.
 *
 * Letters as in kernels/ops.h.
 */
#ifndef KERNELS_OPS_HEADS_H
#define KERNELS_OPS_HEADS_H

#include <stddef.h>

#include "kernels/tensor.h"

/*
 * LayerNorm of each of `heads` heads of D columns, side by side in x and out (N, heads * D)
 * compute, with the mean and the variance over the head's columns:
 *   out = (x - mean) * rstd * weight + bias,  rstd = 1 / sqrt(variance + eps)
 *   weight (heads, D), or (1, D) for all heads, fp32 or 16-bit; contiguous
 *   bias   like weight, or absent;  D is at most HEAD_SIZE_MAX
 *   stats  (N, 2 * heads) fp32: mean and rstd of a head, then those of the next, for the
 *          backward pass
 * out may share its data with x, but the backward pass requires the original x.
 * Norms of q and k in transformers: models/cohere (CohereLayerNorm), models/stablelm
 * (StableLmLayerNormPerHead), models/phi; Dehghani et al., "Scaling Vision Transformers to 22
 * Billion Parameters", 2023.
 */
struct op_headlayer {
    struct tensor out, stats, x, weight, bias;
    float eps;
    size_t heads;
};

/*
 * With g = dout * weight and h = (x - mean) * rstd, and means over D:
 *   dx (N, heads * D) compute = rstd * (g - mean of g - h * mean of g h);  may share dout's data
 *   dweight fp32 += sums of dout * h, dbias fp32 += sums of dout, both shaped like weight, over
 *   rows, and over heads if they share it; each may be absent
 *   x, weight and stats are those of the forward pass
 */
struct op_headlayer_backward {
    struct tensor dx, dweight, dbias, dout, x, weight, stats;
    size_t heads;
};

/*
 * out (N, C) compute = x, but at least -limit and at most limit, which is above 0; NaN stays
 * NaN.  out may be x.
 * clip_qkv of transformers' models/olmo, models/olmoe and models/dbrx.
 */
struct op_clip {
    struct tensor out, x;
    float limit;
};

/* dx = dout where x is not beyond the limit, otherwise 0; dx may be dout. */
struct op_clip_backward {
    struct tensor dx, dout, x;
    float limit;
};

#endif
