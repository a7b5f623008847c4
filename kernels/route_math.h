/*
 * kernels/route_math.h - the parts of op_route and op_route_backward that both backends
 * share.
 */
#ifndef KERNELS_ROUTE_MATH_H
#define KERNELS_ROUTE_MATH_H

#include <math.h>

#include "kernels/ops.h"

#ifdef __CUDACC__
#define ROUTE_CALL static __host__ __device__ inline
#else
#define ROUTE_CALL static inline
#endif

#define ROUTE_LEAST_SUM    1e-20f /* transformers, DeepseekV3TopkRouter */
#define ROUTE_MIXER_FACTOR 0.3333f

/* Map floats to positive integers in the same order; NaN is above all. */
ROUTE_CALL uint32_t route_key(float x)
{
    union {
        float x;
        uint32_t bits;
    } both;

    both.x = x + 0.0f; /* -0 is 0 */
    if (x != x)
        return UINT32_MAX;
    return both.bits & 0x80000000u ? ~both.bits : both.bits | 0x80000000u;
}

/* The float of a key other than 0. */
ROUTE_CALL float route_value(uint32_t key)
{
    union {
        float x;
        uint32_t bits;
    } both;

    both.bits = key & 0x80000000u ? key & 0x7fffffffu : ~key;
    return both.x;
}

/* Return what is added to the sum of the chosen scores. */
ROUTE_CALL float route_least_sum(const struct op_route *op)
{
    return op->least_sum > 0 ? op->least_sum : ROUTE_LEAST_SUM;
}

/* Return the key of a group's score: its highest, or the sum of its two highest. */
ROUTE_CALL uint32_t route_group_key(const uint32_t *keys, size_t count, bool pairs)
{
    uint32_t first = 0, second = 0;

    for (size_t i = 0; i < count; i++) {
        uint32_t key = keys[i];

        if (key > first) {
            second = first;
            first = key;
        } else if (key > second) {
            second = key;
        }
    }
    return pairs && second ? route_key(route_value(first) + route_value(second)) : first;
}

/* Set best to the indices of the two highest of two or more, ties to the lower index. */
ROUTE_CALL void route_two_best(const float *x, size_t count, size_t best[2])
{
    best[0] = best[1] = SIZE_MAX;
    for (size_t i = 0; i < count; i++) {
        if (best[0] == SIZE_MAX || route_key(x[i]) > route_key(x[best[0]])) {
            best[1] = best[0];
            best[0] = i;
        } else if (best[1] == SIZE_MAX || route_key(x[i]) > route_key(x[best[1]])) {
            best[1] = i;
        }
    }
}

/* Return whether z is in S, whose highest is `most`.  A NaN is in S. */
ROUTE_CALL bool route_mixer_has(float z, float most, float jitter)
{
    float size = fabsf(z);

    return !((most - z) / (size > most ? size : most) > 2 * jitter);
}

/* Return the index of the random bits for choice i of row n and expert e; E is for u'. */
ROUTE_CALL uint64_t route_index(const struct op_route *op, uint64_t rows, uint64_t row,
                                uint64_t choice, uint64_t expert)
{
    uint64_t draw = op->draw ? *op->draw : 0;

    return ((draw * rows + row) * 2 + choice) * (op->logits.cols + 1) + expert;
}

/* Above 0 and below 1; exact in fp32. */
ROUTE_CALL float route_uniform(uint32_t bits)
{
    return ((float)(bits >> 9) + 0.5f) * 0x1p-23f;
}

/* Return the gradient of an expert's probability, for each pair that chose it. */
ROUTE_CALL float route_balance(const struct op_route_backward *op, size_t counted)
{
    double rows = (double)op->layers * (double)counted;
    double factor = op->factor ? (double)*op->factor : 1;

    if (op->coefficient == 0 || counted == 0)
        return 0;
    return (float)((double)op->coefficient * (double)op->dlogits.cols * factor /
                   (rows * rows));
}

/* Return whether shapes and settings agree. */
static inline bool route_is_valid(const struct op_route *op)
{
    size_t experts = op->logits.cols, chosen = op->weights.cols, groups = op->groups;
    bool is_mixer = op->kind == ROUTE_SPARSEMIXER;

    if (experts < 1 || experts > EXPERTS_MAX || chosen < 1 ||
        chosen > EXPERTS_CHOSEN_MAX || chosen > experts ||
        op->weights.rows != op->logits.rows || op->probabilities.cols != experts)
        return false;
    if (is_mixer && (chosen != 2 || op->bias.data || groups || op->normalize))
        return false;
    return groups == 0 ||
           (experts % groups == 0 && op->groups_kept >= 1 && op->groups_kept <= groups &&
            chosen <= op->groups_kept * (experts / groups));
}

#endif
