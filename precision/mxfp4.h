/*
 * precision/mxfp4.h - MXFP4: 4-bit values with a scale for each block of 32 elements.
 *
 * A value is E2M1: a sign, two bits of exponent, one of mantissa: 0, 0.5, 1, 1.5, 2, 3, 4
 * or 6.  A byte holds two, the first in its lower half.  A scale is E8M0, the byte s for
 * 2^(s - 127); 255 is NaN.  bf16 holds every product exactly, except those that overflow.
 * Open Compute Project, "OCP Microscaling Formats (MX) Specification", version 1.0, 2023.
 */
#ifndef PRECISION_MXFP4_H
#define PRECISION_MXFP4_H

#include <stddef.h>
#include <stdint.h>

enum { MXFP4_BLOCK = 32, MXFP4_BYTES = MXFP4_BLOCK / 2 };

/* out (blocks * MXFP4_BLOCK) = the values of blocks of MXFP4_BYTES each, with a scale
 * each. */
void mxfp4_read(const uint8_t *codes, const uint8_t *scales, size_t blocks, float *out);

#endif
