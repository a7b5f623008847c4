/*
 * base/pcg.h - the generator of numpy.random.default_rng(seed), for orders that must
 * match those of Python programs: PCG64 (XSL-RR 128/64), O'Neill, "PCG: A Family of
 * Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
 * Generation", 2014, seeded by numpy's SeedSequence (numpy/random/bit_generator.pyx).
 * Everything else uses base/random.h.
 */
#ifndef BASE_PCG_H
#define BASE_PCG_H

#include <stddef.h>
#include <stdint.h>

struct pcg {
    unsigned __int128 state, increment;
    /* the unused upper 32 bits of the last output, plus 2^32 */
    uint64_t kept;
};

void pcg_seed(struct pcg *pcg, uint64_t seed);
uint64_t pcg_next(struct pcg *pcg);
double pcg_uniform(struct pcg *pcg); /* [0, 1), 53 bits: Generator.random() */
/* Same as Generator.permutation(count); count is at most 2^32 - 1. */
void pcg_permutation(struct pcg *pcg, uint32_t *out, size_t count);

#endif
