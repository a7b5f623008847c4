/* base/pcg.c - PCG64 with numpy's seeding. */
#include "config.h"

#include "base/pcg.h"

enum { POOL = 4, WORDS = 8 };

/* A hash whose constant changes with each word (SeedSequence's hashmix). */
struct hash {
    uint32_t constant, factor;
};

static uint32_t hash_word(struct hash *hash, uint32_t value)
{
    value ^= hash->constant;
    hash->constant *= hash->factor;
    value *= hash->constant;
    return value ^ value >> 16;
}

static uint32_t mix(uint32_t x, uint32_t y)
{
    uint32_t mixed = 0xca01f9ddu * x - 0x4973f715u * y;

    return mixed ^ mixed >> 16;
}

static void fill_pool(uint64_t seed, uint32_t pool[POOL])
{
    struct hash hash = { 0x43b0d7e5u, 0x931e8875u };
    const uint32_t words[POOL] = { (uint32_t)seed, (uint32_t)(seed >> 32) };

    for (size_t i = 0; i < POOL; i++)
        pool[i] = hash_word(&hash, words[i]);
    for (size_t from = 0; from < POOL; from++)
        for (size_t to = 0; to < POOL; to++)
            if (from != to)
                pool[to] = mix(pool[to], hash_word(&hash, pool[from]));
}

static unsigned __int128 wide(uint64_t high, uint64_t low)
{
    return (unsigned __int128)high << 64 | low;
}

static void step(struct pcg *pcg)
{
    pcg->state =
        pcg->state * wide(0x2360ed051fc65da4u, 0x4385df649fccf645u) + pcg->increment;
}

void pcg_seed(struct pcg *pcg, uint64_t seed)
{
    struct hash hash = { 0x8b51f9ddu, 0x58f38dedu };
    uint32_t pool[POOL], words[WORDS];
    uint64_t longs[WORDS / 2];

    fill_pool(seed, pool);
    for (size_t i = 0; i < WORDS; i++)
        words[i] = hash_word(&hash, pool[i % POOL]);
    for (size_t i = 0; i < WORDS / 2; i++)
        longs[i] = (uint64_t)words[2 * i + 1] << 32 | words[2 * i];
    pcg->increment = wide(longs[2], longs[3]) << 1 | 1;
    pcg->state = pcg->increment + wide(longs[0], longs[1]);
    pcg->kept = 0;
    step(pcg);
}

uint64_t pcg_next(struct pcg *pcg)
{
    uint64_t folded;
    unsigned turn;

    step(pcg);
    folded = (uint64_t)(pcg->state >> 64) ^ (uint64_t)pcg->state;
    turn = (unsigned)(pcg->state >> 122);
    return folded >> turn | folded << (-turn & 63);
}

double pcg_uniform(struct pcg *pcg)
{
    return (double)(pcg_next(pcg) >> 11) * 0x1p-53;
}

/* Return 32 bits of a 64-bit output: the lower ones first, the upper ones on the next
 * call. */
static uint32_t next_half(struct pcg *pcg)
{
    uint64_t kept = pcg->kept, whole;

    pcg->kept = 0;
    if (kept)
        return (uint32_t)kept;
    whole = pcg_next(pcg);
    pcg->kept = whole >> 32 | (uint64_t)1 << 32;
    return (uint32_t)whole;
}

/* Return a value in 0..most, most >= 1: mask random bits to the width of `most` and
 * reject values above it (numpy's random_interval). */
static uint32_t up_to(struct pcg *pcg, uint32_t most)
{
    uint32_t mask = UINT32_MAX >> __builtin_clz(most), number;

    while ((number = next_half(pcg) & mask) > most)
        ;
    return number;
}

void pcg_permutation(struct pcg *pcg, uint32_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        uint32_t other = up_to(pcg, (uint32_t)i - 1), kept = out[i - 1];

        out[i - 1] = out[other];
        out[other] = kept;
    }
}
