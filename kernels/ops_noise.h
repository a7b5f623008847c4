/* kernels/ops_noise.h - noise on embeddings (part of kernels/ops.h). */
#ifndef KERNELS_OPS_NOISE_H
#define KERNELS_OPS_NOISE_H

#include <stdint.h>

#include "kernels/tensor.h"

/*
 * x (N, C) fp32 += factor * *magnitude * (2 u - 1);  u of element i is random_uniform(seed,
 * RANDOM_NOISE, 0, *draw * *rows * C + i).  magnitude, draw and rows are in the backend's
 * memory: rows is the number of rows counted per draw if x has more.
 * Jain et al., "NEFTune: Noisy Embeddings Improve Instruction Finetuning", 2023.
 */
struct op_noise {
    struct tensor x;
    float factor;
    uint64_t seed;
    const float *magnitude;
    const uint64_t *draw, *rows;
};

#endif
