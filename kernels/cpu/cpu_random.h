/* kernels/cpu/cpu_random.h - the random bits of base/random.h for many consecutive
 * elements, in vectors of the instruction set. */
#ifndef KERNELS_CPU_CPU_RANDOM_H
#define KERNELS_CPU_CPU_RANDOM_H

#include "base/random.h"
#include "kernels/cpu/cpu_vector.h"

/* A stream of bits: seed, purpose, and stream number. */
struct random_key {
    uint64_t seed;
    uint32_t site, stream;
};

/* Blocks of four generated at once, and room for vector reads past the end. */
enum { RANDOM_BLOCKS = 64, RANDOM_NUMBERS = 4 * RANDOM_BLOCKS };
enum { RANDOM_ROOM = RANDOM_NUMBERS + LANES };

/* LANES / 2 counters, or their results. A word is the lower half of a lane; the upper
 * half is undefined. */
struct random_lanes {
    wvec a, b, c, d;
};

/* first, first + 1, ... */
CPU_INLINE wvec random_count(uint64_t first)
{
    wvec lanes = { 0 };

    for (int i = 0; i < LANES / 2; i++)
        lanes[i] = first + (uint64_t)i;
    return lanes;
}

/* Same as random_philox. */
CPU_INLINE struct random_lanes random_rounds(uint64_t seed, struct random_lanes x)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);

    for (int round = 0; round < 10; round++) {
        wvec left = wvec_product(x.a, 0xd2511f53 - (wvec) {});
        wvec right = wvec_product(x.c, 0xcd9e8d57 - (wvec) {});

        x.a = (right >> 32) ^ x.b ^ key0;
        x.b = right;
        x.c = (left >> 32) ^ x.d ^ key1;
        x.d = left;
        key0 += 0x9e3779b9;
        key1 += 0xbb67ae85;
    }
    return x;
}

/* Generate four words each of LANES / 2 counters from `block` on. */
CPU_INLINE void random_words(const struct random_key *key, uint64_t block, uint32_t *bits)
{
    wvec first = random_count(block);
    struct random_lanes x = random_rounds(
        key->seed, (struct random_lanes) { first, first >> 32, key->stream - (wvec) {},
                                           key->site - (wvec) {} });

    for (int i = 0; i < LANES / 2; i++) {
        bits[4 * i] = (uint32_t)x.a[i];
        bits[4 * i + 1] = (uint32_t)x.b[i];
        bits[4 * i + 2] = (uint32_t)x.c[i];
        bits[4 * i + 3] = (uint32_t)x.d[i];
    }
}

/* Generate random_bits for elements 4 * block onwards, RANDOM_NUMBERS of them. */
static inline void random_fill(const struct random_key *key, uint64_t block,
                               uint32_t *bits)
{
    for (int i = 0; i < RANDOM_BLOCKS; i += LANES / 2)
        random_words(key, block + (uint64_t)i, bits + 4 * i);
}

#endif
