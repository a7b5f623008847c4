/*
 * kernels/cuda/select.cuh - the k-th largest logit of a row.
 *
 * Logits, mapped to integers of the same order, are read four times, 8 bits each: a
 * histogram of the digit among those whose upper digits are those of the smallest kept
 * logit. Then this logit and the number of its equals to keep are known. Counts are
 * integers: no result depends on timing.
 */
#ifndef KERNELS_CUDA_SELECT_CUH
#define KERNELS_CUDA_SELECT_CUH

#include "kernels/cuda/block.cuh"

enum { DIGITS = 256 };

struct select_shared {
    unsigned counts[DIGITS];
    unsigned digit, left;
};

/* Map floats to integers of the same order; NaN is above all. */
__device__ static inline uint32_t key_of(float x)
{
    uint32_t bits = __float_as_uint(x);

    if (x != x)
        return 0xffffffffu;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The digit of the smallest kept logit among the keys that begin with `prefix`; *left of
 * those kept have this digit too. */
__device__ static inline unsigned find_digit(select_shared *s, const float *logits,
                                             size_t words, uint32_t mask, uint32_t prefix,
                                             int shift, unsigned *left)
{
    for (int i = threadIdx.x; i < DIGITS; i += blockDim.x)
        s->counts[i] = 0;
    __syncthreads();
    for (size_t i = threadIdx.x; i < words; i += blockDim.x) {
        uint32_t key = key_of(logits[i]);

        if ((key & mask) == prefix)
            atomicAdd(&s->counts[key >> shift & (DIGITS - 1)], 1u);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned digit = DIGITS - 1, wanted = *left;

        for (; digit > 0 && s->counts[digit] < wanted; digit--)
            wanted -= s->counts[digit];
        s->digit = digit;
        s->left = wanted;
    }
    __syncthreads();
    *left = s->left;
    return s->digit;
}

/* The key of the *left-th largest logit; then *left of its equals are among the largest. */
__device__ static inline uint32_t find_least(select_shared *s, const float *logits,
                                             size_t words, unsigned *left)
{
    uint32_t mask = 0, least = 0;

    for (int shift = 24; shift >= 0; shift -= 8) {
        least |= (uint32_t)find_digit(s, logits, words, mask, least, shift, left)
                 << shift;
        mask |= (uint32_t)(DIGITS - 1) << shift;
    }
    return least;
}

#endif
