/* precision/packed.c - decodes rows of matrices in FP8, NVFP4 and MXFP4. */
#include "config.h"

#include "precision/packed.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "precision/format.h"

static const float e2m1[16] = { 0,     0.5f,  1,  1.5f,  2,  3,  4,  6,
                                -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6 };

size_t packed_scale_bytes(enum packed_scale scale)
{
    static const size_t bytes[PACKED_SCALES] = { [SCALE_FP32] = 4,
                                                 [SCALE_FP16] = 2,
                                                 [SCALE_BF16] = 2,
                                                 [SCALE_E4M3] = 1,
                                                 [SCALE_E8M0] = 1 };

    return bytes[scale];
}

static float scale_at(const struct packed *p, size_t index)
{
    static const enum format formats[PACKED_SCALES] = {
        [SCALE_FP32] = FORMAT_FP32, [SCALE_FP16] = FORMAT_FP16, [SCALE_BF16] = FORMAT_BF16
    };
    const size_t bytes = packed_scale_bytes(p->scale);
    union {
        uint8_t byte;
        uint32_t word; /* aligned */
    } bits;
    float scale;

    memcpy(&bits, (const uint8_t *)p->scales + index * bytes, bytes);
    if (p->scale == SCALE_E8M0)
        scale = bits.byte == UINT8_MAX ? NAN : ldexpf(1, (int)bits.byte - 127);
    else if (p->scale == SCALE_E4M3)
        scale = format_from_e4m3(bits.byte);
    else
        format_convert(&scale, FORMAT_FP32, &bits, formats[p->scale], 1);
    return p->divides ? scale / p->factor : scale * p->factor;
}

static void read_e4m3(const uint8_t *codes, size_t count, const float values[256],
                      float scale, float *out)
{
    for (size_t i = 0; i < count; i++)
        out[i] = values[codes[i]] * scale;
}

/* Elements `first` to `end` of the row at `codes`. */
static void read_e2m1(const uint8_t *codes, size_t first, size_t end, float scale,
                      float *out)
{
    for (size_t i = first; i < end; i++)
        out[i] = e2m1[codes[i / 2] >> i % 2 * 4 & 15] * scale;
}

void packed_read(const struct packed *p, size_t row, float *out)
{
    const size_t scales = (p->cols + p->block_cols - 1) / p->block_cols;
    const size_t at = p->first + row * (p->step > 0 ? p->step : 1);
    const size_t bytes = p->code == PACKED_E2M1 ? p->cols / 2 : p->cols;
    const uint8_t *codes = (const uint8_t *)p->codes + at * bytes;
    float values[256];

    for (unsigned i = 0; i < 256 && p->code == PACKED_E4M3; i++)
        values[i] = format_from_e4m3((uint8_t)i);
    for (size_t b = 0; b < scales; b++) {
        const size_t first = b * p->block_cols;
        const size_t end =
            p->cols - first < p->block_cols ? p->cols : first + p->block_cols;
        const float scale = scale_at(p, at / p->block_rows * scales + b);

        if (p->code == PACKED_E4M3)
            read_e4m3(codes + first, end - first, values, scale, out + first);
        else
            read_e2m1(codes, first, end, scale, out);
    }
}
