/* train/media/patches.c - the rows of a tower's input: patches of a prepared image. */
#include "config.h"

#include "train/media/patches.h"

#include <string.h>

#include "kernels/tensor.h"

size_t patches_width(const struct image_settings *s)
{
    return (size_t)3 * s->copies * s->patch * s->patch;
}

static float rounded(float value)
{
    uint16_t half;

    format_convert(&half, FORMAT_BF16, &value, FORMAT_FP32, 1);
    format_convert(&value, FORMAT_FP32, &half, FORMAT_BF16, 1);
    return value;
}

/* What a byte of each color becomes. */
static void fill_values(const struct image_settings *s, float values[3][256])
{
    for (int c = 0; c < 3; c++) {
        for (int byte = 0; byte < 256 && s->rounded; byte++)
            values[c][byte] =
                rounded(rounded(rounded((float)byte * s->scale) - rounded(s->mean[c])) /
                        rounded(s->std[c]));
        for (int byte = 0; byte < 256 && !s->rounded; byte++)
            values[c][byte] = s->std[0] != 0 ? ((float)byte - s->mean[c]) / s->std[c]
                                             : (float)byte * s->scale;
    }
}

/* Without copies: no encoder has both. */
static void fill_interleaved(const struct image_settings *s, const uint8_t *from,
                             size_t pitch, float values[3][256], float *row)
{
    for (size_t y = 0; y < s->patch; y++) {
        for (size_t i = 0; i < (size_t)3 * s->patch; i++)
            *row++ = values[i % 3][from[y * pitch + i]];
    }
}

static void fill_patch(const struct image_settings *s, const uint8_t *from, size_t pitch,
                       float values[3][256], float *row)
{
    size_t area = (size_t)s->patch * s->patch;

    for (size_t c = 0; c < 3; c++) {
        float *first = row + c * s->copies * area;

        for (size_t y = 0; y < s->patch; y++) {
            for (size_t x = 0; x < s->patch; x++)
                first[y * s->patch + x] = values[c][from[y * pitch + 3 * x + c]];
        }
        for (size_t copy = 1; copy < s->copies; copy++)
            memcpy(first + copy * area, first, area * sizeof(*row));
    }
}

void patches_fill(const struct image_settings *s, const struct image *image, float *rows)
{
    size_t pitch = (size_t)3 * image->size.width, side = s->patch;
    float values[3][256];

    fill_values(s, values);
    for (size_t y = 0; y < image->size.height; y += side) {
        for (size_t x = 0; x < image->size.width; x += side) {
            const uint8_t *from = image->pixels + y * pitch + 3 * x;

            if (s->interleaved)
                fill_interleaved(s, from, pitch, values, rows);
            else
                fill_patch(s, from, pitch, values, rows);
            rows += patches_width(s);
        }
    }
}
