/* kernels/ops_noise.h - noise on embeddings and inputs (part of kernels/ops.h). */
#ifndef KERNELS_OPS_NOISE_H
#define KERNELS_OPS_NOISE_H

#include <stdbool.h>
#include <stdint.h>

#include "kernels/tensor.h"

/*
 * x (N, C) fp32 += factor * *magnitude * (2 u - 1);  u of element i is random_uniform(seed,
 * RANDOM_NOISE, 0, *draw * *rows * C + i).  magnitude, draw and rows are in the backend's
 * memory.  rows is the number of rows per draw; x may have more.
 * Jain et al., "NEFTune: Noisy Embeddings Improve Instruction Finetuning", 2023.
 */
struct op_noise {
    struct tensor x;
    float factor;
    uint64_t seed;
    const float *magnitude;
    const uint64_t *draw, *rows;
};

/*
 * x (N, C) any format *= 1 + size (2 u - 1), and again with u' if twice, computed in fp32;
 * u and u' of element i are random_uniform(seed, RANDOM_NOISE, stream, 2 (*draw * *rows * C
 * + i)) and the next one.  0 <= size < 1.  draw and rows as in op_noise.  The backward pass
 * is the same operation on the gradient.
 * transformers, models/mixtral/modeling_mixtral.py: router_jitter_noise, of the rows that
 * both the router and the experts read;  twice: models/phimoe/modeling_phimoe.py,
 * input_jitter_noise, which the block of experts and then the router apply to the same
 * rows.
 */
struct op_jitter {
    struct tensor x;
    bool twice;
    float size;
    uint64_t seed;
    uint32_t stream; /* not 0, that of op_noise */
    const uint64_t *draw, *rows;
};

#endif
