/* precision/mxfp4.c - decodes MXFP4. */
#include "config.h"

#include "precision/mxfp4.h"

#include <math.h>
#include <string.h>

static const float values[16] = { 0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                  -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };

/* 2^(s - 127); the exponent of 0 is below those of normal numbers */
static float scale_of(uint8_t s)
{
    uint32_t bits = s == 0 ? 0x00400000u : (uint32_t)s << 23;
    float scale;

    if (s == UINT8_MAX)
        return NAN;
    memcpy(&scale, &bits, sizeof(scale));
    return scale;
}

void mxfp4_read(const uint8_t *codes, const uint8_t *scales, size_t blocks, float *out)
{
    for (size_t b = 0; b < blocks; b++) {
        float scale = scale_of(scales[b]);

        for (size_t i = 0; i < MXFP4_BYTES; i++) {
            uint8_t two = codes[b * MXFP4_BYTES + i];

            out[b * MXFP4_BLOCK + 2 * i] = values[two & 15] * scale;
            out[b * MXFP4_BLOCK + 2 * i + 1] = values[two >> 4] * scale;
        }
    }
}
