/* kernels/ops_alibi.h - attention with linear biases (part of kernels/ops.h). */
#ifndef KERNELS_OPS_ALIBI_H
#define KERNELS_OPS_ALIBI_H

#include <math.h>
#include <stddef.h>

#ifdef __CUDACC__
#define ALIBI_CALL static __host__ __device__ inline
#else
#define ALIBI_CALL static inline
#endif

/*
 * A bias of scores in place of positions: factor * slope_h * (key - query) is added to the
 * scaled score of a pair of head h, before the softmax.  With P the largest power of two up
 * to the number of heads H,
 *   slope_h = 2^(-most (h + 1) / P),  h < P;  2^(-most (2 (h - P) + 1) / (2 P)) for others
 * Press, Smith and Lewis, "Train Short, Test Long", 2022, whose code has most = 8; a factor
 * other than 1: Falcon, which scales the bias like the scores.
 * factor 0: no bias.  Not together with a softcap.
 */
struct attention_slopes {
    float most, factor;
};

/* Return factor * slope_h, 0 without a bias. */
ALIBI_CALL float alibi_slope(struct attention_slopes slopes, size_t heads, size_t head)
{
    size_t power = 1, part, parts;

    if (slopes.factor <= 0)
        return 0;
    while (2 * power <= heads)
        power *= 2;
    part = head < power ? head + 1 : 2 * (head - power) + 1;
    parts = head < power ? power : 2 * power;
    return slopes.factor * exp2f(-slopes.most * (float)part / (float)parts);
}

#endif
