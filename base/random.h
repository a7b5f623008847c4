/*
 * base/random.h - random numbers as a function of a key and a counter, so that there is
 * no state to save: Philox 4x32-10, Salmon et al., "Parallel Random Numbers: As Easy as
 * 1, 2, 3", SC 2011 (test vectors: Random123 kat_vectors).
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* The purpose of a stream: separates the streams of one seed. */
enum random_site {
    RANDOM_ORDER,
    RANDOM_INIT,
    RANDOM_DROPOUT,
    RANDOM_ROUNDING,
    RANDOM_SPLIT,
    RANDOM_SAMPLE,
    RANDOM_DRAW,
    RANDOM_ATTENTION, /* and this + 16 i */
    RANDOM_ROUTING,
    RANDOM_NOISE,
    RANDOM_PROJECTION
};

void random_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4]);

/*
 * Return value `index` of the stream (seed, site, stream): word index % 4 of the block
 * with
 *     key { seed low, seed high },  counter { index / 4 low, high, stream, site }.
 * All functions below use the same bits: give each use its own site or stream.
 */
uint32_t random_bits(uint64_t seed, enum random_site site, uint32_t stream,
                     uint64_t index);
double random_uniform(uint64_t seed, enum random_site site, uint32_t stream,
                      uint64_t index); /* [0, 1), 32 bits */
double random_normal(uint64_t seed, enum random_site site, uint32_t stream,
                     uint64_t index); /* mean 0, variance 1; Box-Muller */

/* Identifies the dropout mask of one attention head. */
struct random_head {
    uint64_t seed, draw;
    uint32_t stream, head;
};

/*
 * Return 16 bits for the weight of row `query` of a batch for `key`, counted from the
 * first row of its sequence: half key % 2 (0 is the lower) of word key / 8 % 4 of the
 * block with
 *     key      seed low, seed high
 *     counter  query, key / 32 * 4 + key / 2 % 4, stream + 2^16 head,
 *              RANDOM_ATTENTION + 16 draw
 * Eight keys share a block, two of each eight in 32: the elements that one thread holds
 * when two tiles are multiplied on tensor cores.
 */
uint32_t random_weight(struct random_head head, uint32_t query, uint32_t key);
/* Write a permutation of 0..count-1 (Fisher-Yates). */
void random_permutation(uint64_t seed, enum random_site site, uint32_t stream,
                        uint32_t *out, size_t count);

#endif
