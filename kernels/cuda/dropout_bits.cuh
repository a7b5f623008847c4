/*
 * kernels/cuda/dropout_bits.cuh - which attention weights dropout keeps: random_weight of
 * base/random.h, eight weights at a time.
 *
 * A block of random bits is for one query and eight keys of an aligned group of 32: block
 * t of the group for keys 8 n + 2 t and 8 n + 2 t + 1, n from 0 to 3.
 */
#ifndef KERNELS_CUDA_DROPS_CUH
#define KERNELS_CUDA_DROPS_CUH

#include "base/random.h"
#include "kernels/cuda/block.cuh"
#include "kernels/dropout.h"

/* Dropout in the form kernels use. */
struct drops {
    uint64_t seed;
    const uint64_t *draw; /* in device memory, or NULL */
    uint32_t stream;
    uint32_t threshold; /* 0: nothing is dropped */
    float factor;       /* of kept weights */
};

static inline struct drops dropout_bits_of(const struct attention_dropout *dropout)
{
    return { dropout->seed, dropout->draw, dropout->stream, dropout_threshold(dropout->p),
             dropout_factor(dropout->p) };
}

/* Word 3 of all counters, part of which is known only when the kernel runs. */
__device__ inline uint32_t dropout_bits_site(const struct drops &drops)
{
    bool drawn = drops.threshold > 0 && drops.draw;

    return RANDOM_ATTENTION + (drawn ? (uint32_t)*drops.draw << 4 : 0);
}

/* Dropout of a head of the queries; stream and site are words 2 and 3 of its counters. */
struct dropout_bits_head {
    uint64_t seed;
    uint32_t stream, site, threshold;
    float factor;
};

__device__ inline struct dropout_bits_head dropout_bits_head_of(const struct drops &drops,
                                                                uint32_t site, int head)
{
    return { drops.seed, drops.stream + ((uint32_t)head << 16), site, drops.threshold,
             drops.factor };
}

/* The four words of a block; word n has keys 8 n + 2 t (lower 16 bits) and 8 n + 2
 * t + 1. query: row of the batch; block: key / 32 * 4 + t, the key being a row of
 * its sequence. */
__device__ inline void dropout_bits_words(uint32_t words[4],
                                          const struct dropout_bits_head &drops,
                                          int query, int block)
{
    uint4 four = random_words(drops.seed, (uint32_t)query, (uint32_t)block, drops.stream,
                              drops.site);

    words[0] = four.x;
    words[1] = four.y;
    words[2] = four.z;
    words[3] = four.w;
}

/* Return whether the weight of this 16-bit part of a word is kept. */
__device__ inline bool dropout_bits_keep(const struct dropout_bits_head &drops,
                                         uint32_t word, int half)
{
    return (half ? word >> 16 : word & 0xffff) >= drops.threshold;
}

/* All bits of each 16-bit part of the word whose weight is kept. */
__device__ inline uint32_t
dropout_bits_halfword_mask(const struct dropout_bits_head &drops, uint32_t word)
{
    return (dropout_bits_keep(drops, word, 0) ? 0xffffu : 0) |
           (dropout_bits_keep(drops, word, 1) ? 0xffff0000u : 0);
}

/* For a block: bit 8 n + h is 1 if part h of word n keeps its weight. */
__device__ inline uint32_t dropout_bits_mask(const struct dropout_bits_head &drops,
                                             int query, int block)
{
    uint32_t words[4], kept = 0;

    dropout_bits_words(words, drops, query, block);
#pragma unroll
    for (int i = 0; i < 8; i++)
        kept |=
            dropout_bits_keep(drops, words[i / 2], i % 2) ? 1u << (i / 2 * 8 + i % 2) : 0;
    return kept;
}

#endif
