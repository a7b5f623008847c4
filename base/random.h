/*
 * base/random.h - random numbers as a function of a key and a counter, so that there is no
 * state to save: Philox 4x32-10, Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3",
 * SC 2011 (test vectors: Random123 kat_vectors).
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* What a stream is for: keeps streams of one seed apart. */
enum random_site {
    RANDOM_ORDER,
    RANDOM_INIT,
    RANDOM_DROPOUT,
    RANDOM_ROUNDING,
    RANDOM_SPLIT,
    RANDOM_SAMPLE,
    RANDOM_DRAW
};

void random_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/*
 * The index-th value of the stream (seed, site, stream): word index % 4 of the block with
 *     key { seed low, seed high },  counter { index / 4 low, high, stream, site }.
 * All functions below draw on the same bits: give each use a site or stream of its own.
 */
uint32_t random_bits(uint64_t seed, enum random_site site, uint32_t stream, uint64_t index);
double random_uniform(uint64_t seed, enum random_site site, uint32_t stream,
                      uint64_t index); /* [0, 1), 32 bits */
double random_normal(uint64_t seed, enum random_site site, uint32_t stream,
                     uint64_t index); /* mean 0, variance 1; Box-Muller */
/* A permutation of 0..count-1 (Fisher-Yates). */
void random_permutation(uint64_t seed, enum random_site site, uint32_t stream, uint32_t *out,
                        size_t count);

#endif
