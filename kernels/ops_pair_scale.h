/* kernels/ops_pair_scale.h - learned factors of the weights of experts (part of
 * kernels/ops.h). */
#ifndef KERNELS_OPS_PAIR_SCALE_H
#define KERNELS_OPS_PAIR_SCALE_H

#include <stdint.h>

#include "kernels/tensor.h"

/*
 * out[n][j] = weights[n][j] * scales[experts[n][j]]
 *   out, weights (N, k) fp32; scales (1, E) fp32
 *   experts (N, k) int32, and the pairs of op_route (kernels/ops_experts.h)
 * transformers, Gemma4TextRouter (per_expert_scale).
 */
struct op_pair_scale {
    struct tensor out, weights, scales;
    const int32_t *experts;
};

/*
 * dweights (N, k) fp32: on entry the gradient of out; on return that of the
 * weights, which is it times the scale of the pair's expert.
 * dscales (1, E) fp32, or absent: += the sum over the pairs of each expert of the gradient
 * of out times the weight, in the order of op_route.
 *   order (N * k), starts (E + 1): those of op_route
 */
struct op_pair_scale_backward {
    struct tensor dweights, dscales, weights, scales;
    const int32_t *order, *starts;
};

#endif
