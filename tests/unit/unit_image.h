/*
 * tests/unit/unit_image.h - images of a formula, the same as in
 * tests/golden/image_resize.py, and digests of their bytes.
 */
#ifndef TESTS_UNIT_UNIT_IMAGE_H
#define TESTS_UNIT_UNIT_IMAGE_H

#include "tests/unit/unit.h"

#include "base/digest.h"
#include "base/json.h"
#include "train/media/image.h"

enum { UNIT_DIGEST = 32 };

static inline uint8_t unit_noise(uint32_t index, uint32_t seed)
{
    uint32_t x = (index + seed) * 2654435761u;

    return (uint8_t)(x >> 24 ^ (x >> 11 & 255));
}

static const char *const unit_modes[IMAGE_MODES] = {
    [IMAGE_BILEVEL] = "1",    [IMAGE_GRAY] = "L",    [IMAGE_GRAY_ALPHA] = "LA",
    [IMAGE_GRAY_16] = "I;16", [IMAGE_PALETTE] = "P", [IMAGE_RGB] = "RGB",
    [IMAGE_RGBA] = "RGBA",    [IMAGE_CMYK] = "CMYK",
};

static inline enum image_mode unit_image_mode(const char *name)
{
    enum image_mode mode = 0;

    while (mode < IMAGE_MODES && strcmp(unit_modes[mode], name) != 0)
        mode++;
    assert_true(mode < IMAGE_MODES);
    return mode;
}

/* Noise, or squares of 8 x 8 pixels. */
static inline void unit_image(enum image_mode mode, struct image_size size, bool smooth,
                              struct image *out)
{
    uint32_t step = smooth ? 8 : 1, columns = (size.width + step - 1) / step;
    uint32_t channels = (uint32_t)image_channels(mode);
    struct error err = { 0 };
    size_t at = 0;

    assert_true(image_init(out, size, mode, &err));
    for (uint32_t y = 0; y < size.height; y++) {
        for (uint32_t x = 0; x < size.width; x++) {
            for (uint32_t c = 0; c < channels; c++) {
                uint32_t index = (y / step * columns + x / step) * channels + c;
                uint8_t byte = unit_noise(index, 7);

                out->pixels[at++] = mode == IMAGE_BILEVEL ? (byte & 1) * 255 : byte;
            }
        }
    }
    for (uint32_t i = 0; i < 768; i++)
        out->palette[i / 3][i % 3] = unit_noise(i, 99);
}

static inline void unit_digest_is(const void *data, size_t bytes, const json_t *row,
                                  const char *key)
{
    const char *expected = json_string_value(json_object_get(row, key));
    char digest[DIGEST_TEXT];

    digest_bytes(data, bytes, digest);
    assert_non_null(expected);
    if (strncmp(digest, expected, UNIT_DIGEST) != 0)
        fail_msg("%s of %s differs", key, json_dumps(row, 0));
}

static inline struct image_size unit_size(const json_t *row, const char *key)
{
    const json_t *pair = json_object_get(row, key);

    return (struct image_size) {
        (uint32_t)json_integer_value(json_array_get(pair, 0)),
        (uint32_t)json_integer_value(json_array_get(pair, 1)),
    };
}

static inline json_t *unit_golden(const char *name)
{
    char *file = unit_source(name);
    struct error err = { 0 };
    json_t *root = json_read_file(file, 4 << 20, &err);

    if (!root)
        fail_msg("%s", err.text);
    free(file);
    return root;
}

#endif
