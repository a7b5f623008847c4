/*
 * precision/dynamic_map.h - the 256 values of bitsandbytes' dynamic 8-bit format: decades
 * from 1e-6 to 1, each with twice as many steps as the one below.  A code c stands for
 * map[c], times the absmax of its block.  Dettmers et al., "8-bit Optimizers via Block-wise
 * Quantization", 2022; bitsandbytes 0.50, functional.py, create_dynamic_map.
 */
#ifndef PRECISION_DYNAMIC_MAP_H
#define PRECISION_DYNAMIC_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Elements of a block of optimizer moments that share an absmax. */
enum { DYNAMIC_CODES = 256, DYNAMIC_BLOCK = 256 };

#ifdef __cplusplus
extern "C" {
#endif

/* Fill in the values, ascending: from -0.993 to 1, or from 0 to 1. */
void dynamic_map(bool has_sign, float map[DYNAMIC_CODES]);

/* A map, and the midpoints between its values; the last is not used. */
struct dynamic_map {
    float values[DYNAMIC_CODES], between[DYNAMIC_CODES];
};
void dynamic_map_fill(struct dynamic_map *map, bool has_sign);

#ifdef __cplusplus
}
#endif

static inline size_t dynamic_blocks(size_t elements)
{
    return elements / DYNAMIC_BLOCK + (elements % DYNAMIC_BLOCK != 0);
}

/* Return the code of the value nearest to x; the lower one between two. */
static inline uint8_t dynamic_code(const float between[DYNAMIC_CODES], float x)
{
    unsigned code = 0;

    for (unsigned step = DYNAMIC_CODES / 2; step > 0; step /= 2)
        code += x > between[code + step - 1] ? step : 0;
    return (uint8_t)code;
}

#endif
