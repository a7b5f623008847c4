/* base/random.c - Philox 4x32-10 and distributions built on it. */
#include "config.h"

#include "base/random.h"

#include <math.h>

/* Multipliers and key increments from the paper: table 2 and section 3.3. */
#define MULTIPLY_0 0xd2511f53u
#define MULTIPLY_1 0xcd9e8d57u
#define WEYL_0     0x9e3779b9u
#define WEYL_1     0xbb67ae85u

enum { ROUNDS = 10 };

void random_philox(const uint32_t key[2], const uint32_t counter[4], uint32_t out[4])
{
    uint32_t a = counter[0], b = counter[1], c = counter[2], d = counter[3];
    uint32_t k0 = key[0], k1 = key[1];

    for (int round = 0; round < ROUNDS; round++) {
        uint64_t left = (uint64_t)a * MULTIPLY_0, right = (uint64_t)c * MULTIPLY_1;

        a = (uint32_t)(right >> 32) ^ b ^ k0;
        b = (uint32_t)right;
        c = (uint32_t)(left >> 32) ^ d ^ k1;
        d = (uint32_t)left;
        k0 += WEYL_0;
        k1 += WEYL_1;
    }
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}

uint32_t random_bits(uint64_t seed, enum random_site site, uint32_t stream,
                     uint64_t index)
{
    uint64_t block = index / 4;
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), stream,
                            (uint32_t)site };
    uint32_t out[4];

    random_philox(key, counter, out);
    return out[index % 4];
}

double random_uniform(uint64_t seed, enum random_site site, uint32_t stream,
                      uint64_t index)
{
    return random_bits(seed, site, stream, index) * 0x1p-32;
}

uint32_t random_weight(struct random_head head, uint32_t query, uint32_t key)
{
    const uint32_t seed[2] = { (uint32_t)head.seed, (uint32_t)(head.seed >> 32) };
    const uint32_t counter[4] = { query, key / 32 * 4 + key / 2 % 4,
                                  head.stream + (head.head << 16),
                                  RANDOM_ATTENTION + ((uint32_t)head.draw << 4) };
    uint32_t out[4];

    random_philox(seed, counter, out);
    return out[key / 8 % 4] >> key % 2 * 16 & 0xffff;
}

/* Values 2n and 2n+1 come from the same pair of uniform values.  The first uniform value
 * is in (0, 1], where the logarithm is finite. */
double random_normal(uint64_t seed, enum random_site site, uint32_t stream,
                     uint64_t index)
{
    uint64_t pair = index & ~(uint64_t)1;
    double radius =
        sqrt(-2 * log((random_bits(seed, site, stream, pair) + 1.0) * 0x1p-32));
    double angle = 2 * M_PI * random_uniform(seed, site, stream, pair + 1);

    return radius * (index & 1 ? sin(angle) : cos(angle));
}

/*
 * Return a value below `bound`, uniformly distributed; consumes as much of the stream as
 * it needs. Lemire, "Fast Random Integer Generation in an Interval", 2019.
 */
static uint32_t below(uint32_t bound, uint64_t seed, enum random_site site,
                      uint32_t stream, uint64_t *index)
{
    uint32_t refused = -bound % bound;
    uint64_t product;

    do
        product = (uint64_t)random_bits(seed, site, stream, (*index)++) * bound;
    while ((uint32_t)product < refused);
    return (uint32_t)(product >> 32);
}

void random_permutation(uint64_t seed, enum random_site site, uint32_t stream,
                        uint32_t *out, size_t count)
{
    uint64_t index = 0;

    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        uint32_t other = below((uint32_t)i, seed, site, stream, &index);
        uint32_t kept = out[i - 1];

        out[i - 1] = out[other];
        out[other] = kept;
    }
}
