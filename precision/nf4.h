/*
 * precision/nf4.h - NormalFloat: 4-bit values with a scale for each block of 64, byte for
 * byte as bitsandbytes produces them.
 * The scale of a block is the largest magnitude in it, its `absmax`.  A 4-bit code c
 * stands for nf4_numbers[c] * absmax.  Double quantization subtracts the mean from the
 * scales and keeps the rest in 8 bits, with an absmax for each group of 256: byte b
 * stands for map[b] * absmax of its group + mean. (bitsandbytes' CPU library finds the
 * nearest of the 256 values in a table of 65536 steps and is sometimes off by one; this
 * code finds the true nearest, as on a GPU.) Dettmers et al., "QLoRA: Efficient
 * Finetuning of Quantized LLMs", 2023; bitsandbytes 0.50, functional.py and
 * backends/default/ops.py; for the 8 bits: Dettmers et al., "8-bit Optimizers via
 * Block-wise Quantization", 2022.
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

/* A matrix in one block of memory, codes first: offsets of the other parts, and the
 * total, in bytes.  `twice` means double quantization; without it there are no bytes and
 * no map (whose last value is the mean), and absmax holds the blocks' scales. */
struct nf4_layout {
    size_t bytes, map, absmax, total;
};
struct nf4_layout nf4_layout(size_t numbers, bool twice);

/* Write the codes of x, two per byte, the first in the upper 4 bits, and the absmax of
 * each block.  Each part of a matrix must begin at a block, and only its last part may
 * end inside one.  A NaN becomes code 15, as in PyTorch's bucketize. */
void nf4_quantize(const float *x, size_t numbers, uint8_t *codes, float *absmax);

/* Fill in the 8-bit values, ascending from -0.993 to 1: bitsandbytes'
 * create_dynamic_map. */
void nf4_map(float map[NF4_MAP]);

/* Compress the blocks' absmax to bytes and the absmax of each group; return the mean.
 * The mean is summed as PyTorch does on one CPU thread: its last bit can differ from a
 * GPU's. */
float nf4_compress(const float *absmax, size_t blocks, uint8_t *bytes, float *nested);

#endif
