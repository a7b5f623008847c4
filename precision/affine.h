/*
 * precision/affine.h - integer codes with a scale and a zero point for each row and each
 * group of columns, as models in GPTQ and AWQ have them: code c stands for
 * (c - zero) * scale, which fp32 holds exactly if the scale has 16 bits.
 * A group has `group` adjacent columns, unless a table assigns the columns to groups:
 * GPTQ sorts columns by their activations before it groups them (desc_act).
 * Frantar et al., "GPTQ: Accurate Post-Training Quantization for Generative Pre-trained
 * Transformers", 2023; Lin et al., "AWQ: Activation-aware Weight Quantization", 2024.
 */
#ifndef PRECISION_AFFINE_H
#define PRECISION_AFFINE_H

#include <stddef.h>
#include <stdint.h>

/* How codes are kept in memory. */
struct affine {
    unsigned bits; /* 4, or 8; codes of 2 and 3 bits take 4.  0: not affine */
    size_t group;  /* columns; 0: all of a row are one group */
};

static inline size_t affine_groups(struct affine how, size_t cols)
{
    return how.group == 0 ? 1 : cols / how.group + (cols % how.group != 0);
}

/* A matrix in one block of memory, codes first: row after row, of 4 bits the first of two
 * in the upper half of a byte.  Offsets of the other parts, and the total, in bytes:
 *   scales   (rows, groups) fp32
 *   zeros    (rows, groups) bytes
 *   columns  (cols) uint32_t: the group of each column */
struct affine_layout {
    size_t scales, zeros, columns, total;
};
struct affine_layout affine_layout(struct affine how, size_t rows, size_t cols);

#endif
