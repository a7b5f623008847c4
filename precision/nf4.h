/*
 * precision/nf4.h - NormalFloat: numbers in 4 bits, with a factor for each block of 64 of
 * them, byte for byte as bitsandbytes makes them.
 *
 * A block's factor is the largest of its numbers without sign, its `absmax`.  A code c of
 * 4 bits stands for nf4_numbers[c] * absmax.  Double quantisation takes the mean off the
 * factors and keeps the rest in 8 bits, with an absmax for each group of 256: byte b
 * stands for map[b] * absmax of its group + mean.
 * (bitsandbytes' library for CPUs looks the nearest of the 256 numbers up in a table of
 * 65536 steps and so misses it now and then by one; here it is the nearest, as on a GPU.)
 * Dettmers et al., "QLoRA: Efficient Finetuning of Quantized LLMs", 2023; bitsandbytes
 * 0.50, functional.py and backends/default/ops.py; of the 8 bits: Dettmers et al., "8-bit
 * Optimizers via Block-wise Quantization", 2022.
 */
#ifndef PRECISION_NF4_H
#define PRECISION_NF4_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { NF4_NUMBERS = 16, NF4_BLOCK = 64, NF4_GROUP = 256, NF4_MAP = 256 };

/* Quantiles of the normal distribution, ascending: bitsandbytes' get_4bit_type. */
#define NF4_LIST                                                                       \
    {                                                                                  \
        -1.0f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f,      \
            -0.28444138169288635f, -0.18477343022823334f, -0.09105003625154495f, 0.0f, \
            0.07958029955625534f, 0.16093020141124725f, 0.24611230194568634f,          \
            0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f,           \
            0.7229568362236023f, 1.0f                                                  \
    }
extern const float nf4_numbers[NF4_NUMBERS];

static inline size_t nf4_blocks(size_t numbers)
{
    return numbers / NF4_BLOCK + (numbers % NF4_BLOCK != 0);
}

static inline size_t nf4_groups(size_t blocks)
{
    return blocks / NF4_GROUP + (blocks % NF4_GROUP != 0);
}

static inline size_t nf4_bytes(size_t numbers)
{
    return numbers / 2 + numbers % 2;
}

/* A matrix in one piece of memory, its codes first: where its other parts begin, and what
 * all takes, in bytes.  `twice` is with double quantisation; without it there are no
 * bytes and no map (whose last number is the mean), and absmax is of the blocks. */
struct nf4_layout {
    size_t bytes, map, absmax, total;
};
struct nf4_layout nf4_layout(size_t numbers, bool twice);

/* Codes of x, two a byte, the first in the upper half, and the absmax of each block.  A
 * part of a matrix begins with a block, and only its last part ends inside one.  A NaN
 * becomes code 15, as PyTorch's bucketize has it. */
void nf4_quantize(const float *x, size_t numbers, uint8_t *codes, float *absmax);

/* The 8-bit numbers, ascending from -0.993 to 1: bitsandbytes' create_dynamic_map. */
void nf4_map(float map[NF4_MAP]);

/* Bytes of the blocks' absmax, the absmax of each group, and the mean.  The mean is added
 * up as PyTorch adds on one thread of a CPU: its last bit can differ from a GPU's. */
float nf4_compress(const float *absmax, size_t blocks, uint8_t *bytes, float *nested);

#endif
