/*
 * kernels/dropout.h - the threshold and the factor that both backends derive from
 * attention's p: 16 bits are compared with the threshold, so p is rounded to the nearest
 * 2^-16, and kept values are multiplied by 1 / (1 - that).
 */
#ifndef KERNELS_DROPOUT_H
#define KERNELS_DROPOUT_H

#include <stdint.h>

/* What the bits of a weight that is kept reach, 0 to 65535. */
static inline uint32_t dropout_threshold(float p)
{
    uint32_t nearest = (uint32_t)(p * 65536.0f + 0.5f);

    return nearest < 65535 ? nearest : 65535;
}

/* What it is multiplied by. */
static inline float dropout_factor(float p)
{
    return 65536.0f / (float)(65536 - dropout_threshold(p));
}

#endif
