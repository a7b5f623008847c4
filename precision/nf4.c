/* precision/nf4.c - quantize values to 4 bits, and their block scales to 8 bits. */
#include "config.h"

#include "precision/nf4.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "precision/dynamic_map.h"

/* PyTorch's array summation (aten/src/ATen/native/cpu/SumKernel.cpp): four rows of
 * vectors side by side, accumulated in levels; each level is added to the next after a
 * number of steps. */
enum { SUM_LANES = 8, SUM_ROWS = 4, SUM_LEVELS = 4, SUM_POWER = 4 };

const float nf4_numbers[NF4_NUMBERS] = NF4_LIST;

/* Round an offset up to the alignment of fp32. */
static size_t aligned(size_t at)
{
    return (at + sizeof(float) - 1) / sizeof(float) * sizeof(float);
}

struct nf4_layout nf4_layout(size_t numbers, bool twice)
{
    size_t blocks = nf4_blocks(numbers);
    struct nf4_layout at = { .bytes = aligned(nf4_bytes(numbers)) };

    at.map = at.absmax = at.bytes;
    if (twice) {
        at.map = aligned(at.bytes + blocks);
        at.absmax = at.map + (NF4_MAP + 1) * sizeof(float);
    }
    at.total = at.absmax + (twice ? nf4_groups(blocks) : blocks) * sizeof(float);
    return at;
}

/* Compare bit patterns, which order values by magnitude; a NaN is above all. */
static float max_magnitude(const float *x, size_t count)
{
    int32_t most = 0, bits;
    float largest;

    for (size_t i = 0; i < count; i++) {
        memcpy(&bits, &x[i], sizeof(bits));
        bits &= INT32_MAX;
        most = bits > most ? bits : most;
    }
    memcpy(&largest, &most, sizeof(largest));
    return largest;
}

/* For each value, count the midpoints between neighboring codes that are below it. */
static void codes_of(const float x[NF4_BLOCK], int32_t out[NF4_BLOCK])
{
    for (int j = 0; j < NF4_BLOCK; j++)
        out[j] = NF4_NUMBERS - 1;
    for (int i = 1; i < NF4_NUMBERS; i++) {
        float bound = (nf4_numbers[i - 1] + nf4_numbers[i]) / 2;

        for (int j = 0; j < NF4_BLOCK; j++)
            out[j] -= x[j] <= bound;
    }
}

static void pack(const int32_t *codes, size_t count, uint8_t *out)
{
    for (size_t i = 0; i < count; i += 2)
        out[i / 2] = (uint8_t)(codes[i] << 4 | codes[i + 1]);
}

void nf4_quantize(const float *x, size_t numbers, uint8_t *codes, float *absmax)
{
    static const float least = 1e-38f;

    for (size_t first = 0; first < numbers; first += NF4_BLOCK) {
        size_t left = numbers - first, count = left < NF4_BLOCK ? left : NF4_BLOCK;
        float most = max_magnitude(x + first, count),
              divisor = most < least ? least : most;
        float scaled[NF4_BLOCK] = { 0 };
        int32_t block[NF4_BLOCK];

        /* bitsandbytes handles the partial block at the end separately */
        absmax[first / NF4_BLOCK] = count == NF4_BLOCK ? most : divisor;
        for (size_t i = 0; i < count; i++)
            scaled[i] = count == NF4_BLOCK ? x[first + i] * (1 / divisor)
                                           : x[first + i] / divisor;
        codes_of(scaled, block);
        pack(block, count, codes + first / 2);
    }
}

void nf4_map(float map[NF4_MAP])
{
    dynamic_map(true, map);
}

static int log2_above(size_t x)
{
    int log = 0;

    while (((size_t)1 << log) < x)
        log++;
    return log;
}

/* Partial sums of each lane of each row. */
struct level {
    float at[SUM_ROWS][SUM_LANES];
};

static void add_steps(struct level *to, const float *x, size_t steps, size_t lanes)
{
    for (size_t i = 0; i < steps * SUM_ROWS; i++)
        for (size_t j = 0; j < lanes; j++)
            to->at[i % SUM_ROWS][j] += x[i * lanes + j];
}

static void merge_level(struct level *to, struct level *from)
{
    for (size_t i = 0; i < SUM_ROWS; i++)
        for (size_t j = 0; j < SUM_LANES; j++)
            to->at[i][j] += from->at[i][j];
    *from = (struct level) { 0 };
}

static float sum_of(const float *x, size_t count)
{
    size_t lanes = count < SUM_LANES ? 1 : SUM_LANES;
    size_t vectors = count / lanes, steps = vectors / SUM_ROWS, done = 0;
    int power = log2_above(steps) / SUM_LEVELS;
    struct level levels[SUM_LEVELS] = { 0 };
    float sum = 0;

    power = power < SUM_POWER ? SUM_POWER : power;
    while (done + ((size_t)1 << power) <= steps) {
        size_t mask = ((size_t)1 << power) - 1;

        add_steps(&levels[0], x + done * SUM_ROWS * lanes, mask + 1, lanes);
        done += mask + 1;
        for (int j = 1; j < SUM_LEVELS; j++) {
            merge_level(&levels[j], &levels[j - 1]);
            if (done & mask << j * power)
                break;
        }
    }
    add_steps(&levels[0], x + done * SUM_ROWS * lanes, steps - done, lanes);
    for (int j = 1; j < SUM_LEVELS; j++)
        merge_level(&levels[0], &levels[j]);
    for (size_t i = steps * SUM_ROWS * lanes; i < vectors * lanes; i++)
        levels[0].at[0][i % lanes] += x[i];
    for (size_t i = 1; i < SUM_ROWS; i++)
        for (size_t j = 0; j < lanes; j++)
            levels[0].at[0][j] += levels[0].at[i][j];
    for (size_t i = vectors * lanes; i < count; i++)
        sum += x[i];
    for (size_t j = 0; j < lanes; j++)
        sum += levels[0].at[0][j];
    return sum;
}

/* Find the nearest value of the map; ties go to the lower one. */
static uint8_t nearest(const float map[NF4_MAP], float x)
{
    /* the first entry not below x is between these bounds */
    size_t low = 0, high = NF4_MAP - 1;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (map[middle] < x)
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && !(fabsf(map[low] - x) < fabsf(x - map[low - 1])))
        low--;
    return (uint8_t)low;
}

float nf4_compress(const float *absmax, size_t blocks, uint8_t *bytes, float *nested)
{
    float mean = blocks > 0 ? sum_of(absmax, blocks) / (float)blocks : 0;
    float map[NF4_MAP], rest[NF4_GROUP];

    nf4_map(map);
    for (size_t first = 0; first < blocks; first += NF4_GROUP) {
        size_t left = blocks - first, count = left < NF4_GROUP ? left : NF4_GROUP;
        float most;

        for (size_t i = 0; i < count; i++)
            rest[i] = absmax[first + i] - mean;
        most = max_magnitude(rest, count);
        nested[first / NF4_GROUP] = most;
        for (size_t i = 0; i < count; i++)
            bytes[first + i] = most == 0 ? 0 : nearest(map, rest[i] * (1 / most));
    }
    return mean;
}
