/*
 * precision/packed.h - matrices in few bits, with a scale for each block of elements.
 *
 * An element is the value of its code times the scale of its block, in fp32.  A code is
 * E4M3, 8 bits as torch.float8_e4m3fn has them (Micikevicius et al., "FP8 Formats for Deep
 * Learning", 2022), or E2M1: 4 bits, a sign, two of exponent, one of mantissa, for 0, 0.5,
 * 1, 1.5, 2, 3, 4 or 6.  A byte holds two of those, the first in its lower half.
 *
 * FP8: E4M3; blocks have any shape.  MXFP4: E2M1 in blocks of 32 elements of a row, with
 * scales in E8M0; bf16 holds every product exactly, except those that overflow (Open
 * Compute Project, "OCP Microscaling Formats (MX) Specification", version 1.0, 2023).
 * NVFP4: E2M1 in blocks of 16 elements of a row, with scales in E4M3 and one fp32 factor
 * for all of them (compressed-tensors 0.20, nvfp4; NVIDIA's Model Optimizer).
 */
#ifndef PRECISION_PACKED_H
#define PRECISION_PACKED_H

#include <stdbool.h>
#include <stddef.h>

enum packed_code { PACKED_E4M3, PACKED_E2M1 };
/* E8M0: the byte s for 2^(s - 127); 255 is NaN. */
enum packed_scale {
    SCALE_FP32,
    SCALE_FP16,
    SCALE_BF16,
    SCALE_E4M3,
    SCALE_E8M0,
    PACKED_SCALES
};

enum { MXFP4_BLOCK = 32, MXFP4_BYTES = MXFP4_BLOCK / 2, NVFP4_BLOCK = 16 };

struct packed {
    enum packed_code code;
    enum packed_scale scale;
    const void *codes, *scales; /* at any address */
    size_t cols;                /* elements of a row */
    /* shape of a block; those at the ends of rows and columns may be smaller */
    size_t block_rows, block_cols;
    /* row i of the matrix is row first + i * step of the codes and scales; step 0: 1 */
    size_t first, step;
    float factor; /* of all scales */
    bool divides; /* by the factor */
};

/* Return the bytes of a scale. */
size_t packed_scale_bytes(enum packed_scale scale);

/* out (cols) = row `row`. */
void packed_read(const struct packed *packed, size_t row, float *out);

#endif
