/* kernels/cpu/cpu_matmul_generic.c - matmul kernels for vectors of four, which every
 * compiler supports. */
#include "config.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "kernels/cpu/cpu_unchecked.h"
#include "precision/format.h"

#define LANES           4
#define ROWS            3
#define HAS_BF16        0
#define KERNELS         matmul_kernels_generic
#define HEIGHTS(X, ...) X(1, __VA_ARGS__) X(2, __VA_ARGS__) X(3, __VA_ARGS__)

typedef float vec __attribute__((vector_size(16)));

static inline vec load_half(const uint16_t *from)
{
    return (vec) { format_from_fp16(from[0]), format_from_fp16(from[1]),
                   format_from_fp16(from[2]), format_from_fp16(from[3]) };
}

static inline void store_half(uint16_t *to, vec value)
{
    for (size_t i = 0; i < LANES; i++)
        to[i] = format_to_fp16(value[i]);
}

UNCHECKED_INLINE vec step_bf16(vec sum, uint32_t left, vec right)
{
    (void)left;
    (void)right;
    return sum;
}

static inline void transpose(float *to, size_t width, const void *from, size_t bytes)
{
    for (size_t i = 0; i < LANES; i++)
        for (size_t j = 0; j < LANES; j++)
            memcpy(&to[j * width + i], (const char *)from + i * bytes + j * sizeof(*to),
                   sizeof(*to));
}

#include "kernels/cpu/cpu_matmul_template.h"
