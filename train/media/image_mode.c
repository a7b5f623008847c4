/* train/media/image_mode.c - images in memory and Pillow's conversions between their
 * modes. */
#include "config.h"

#include "train/media/image.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"

static const uint8_t channels[IMAGE_MODES] = {
    [IMAGE_BILEVEL] = 1, [IMAGE_GRAY] = 1, [IMAGE_GRAY_ALPHA] = 2, [IMAGE_GRAY_16] = 2,
    [IMAGE_PALETTE] = 1, [IMAGE_RGB] = 3,  [IMAGE_RGBA] = 4,       [IMAGE_CMYK] = 4,
};

size_t image_channels(enum image_mode mode)
{
    return channels[mode];
}

static size_t image_pixels(const struct image *image)
{
    return (size_t)image->size.width * image->size.height;
}

bool image_size_fits(struct image_size size, struct error *err)
{
    size_t pixels = (size_t)size.width * size.height;

    if (size.width <= IMAGE_SIDE_MAX && size.height <= IMAGE_SIDE_MAX && pixels > 0 &&
        pixels <= IMAGE_PIXELS_MAX)
        return true;
    return error_set(err, ERROR_DATA,
                     "an image of %u x %u pixels is not supported, only up to %u pixels "
                     "and sides from 1 to %u",
                     size.width, size.height, IMAGE_PIXELS_MAX, IMAGE_SIDE_MAX);
}

bool image_init(struct image *out, struct image_size size, enum image_mode mode,
                struct error *err)
{
    size_t pixels = (size_t)size.width * size.height;

    *out = (struct image) { .size = size, .mode = mode };
    if (!image_size_fits(size, err))
        return false;
    out->pixels = malloc(pixels * channels[mode]);
    if (!out->pixels)
        return error_set(err, ERROR_MEMORY,
                         "not enough memory for an image of %u x %u pixels", size.width,
                         size.height);
    return true;
}

void image_clear(struct image *image)
{
    free(image->pixels);
    image->pixels = NULL;
}

/* a * b / 255, rounded (Pillow's MULDIV255) */
static inline uint8_t scaled(unsigned a, unsigned b)
{
    unsigned t = a * b + 128;

    return (uint8_t)(((t >> 8) + t) >> 8);
}

static void gray_to_rgb(const struct image *from, uint8_t *to, size_t count)
{
    size_t step = channels[from->mode];

    for (size_t i = 0; i < count; i++)
        memset(to + 3 * i, from->pixels[step * i], 3);
}

static void gray_16_to_rgb(const struct image *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint16_t value;

        memcpy(&value, from->pixels + 2 * i, 2);
        memset(to + 3 * i, value < 255 ? value : 255, 3);
    }
}

static void palette_to_rgb(const struct image *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + 3 * i, from->palette[from->pixels[i]], 3);
}

static void rgba_to_rgb(const struct image *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++)
        memcpy(to + 3 * i, from->pixels + 4 * i, 3);
}

static void cmyk_to_rgb(const struct image *from, uint8_t *to, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const uint8_t *ink = from->pixels + 4 * i;
        int light = 255 - ink[3];

        for (size_t c = 0; c < 3; c++)
            to[3 * i + c] = (uint8_t)(light - scaled(ink[c], (unsigned)light));
    }
}

bool image_to_rgb(struct image *image, struct error *err)
{
    static void (*const convert[IMAGE_MODES])(const struct image *, uint8_t *, size_t) = {
        [IMAGE_BILEVEL] = gray_to_rgb,    [IMAGE_GRAY] = gray_to_rgb,
        [IMAGE_GRAY_ALPHA] = gray_to_rgb, [IMAGE_GRAY_16] = gray_16_to_rgb,
        [IMAGE_PALETTE] = palette_to_rgb, [IMAGE_RGBA] = rgba_to_rgb,
        [IMAGE_CMYK] = cmyk_to_rgb,
    };
    struct image out;

    if (image->mode == IMAGE_RGB)
        return true;
    if (!image_init(&out, image->size, IMAGE_RGB, err))
        return false;
    convert[image->mode](image, out.pixels, image_pixels(image));
    image_clear(image);
    *image = out;
    return true;
}

void image_premultiply(struct image *image)
{
    size_t step = channels[image->mode], count = image_pixels(image);

    for (size_t i = 0; i < count; i++) {
        uint8_t *pixel = image->pixels + step * i;

        for (size_t c = 0; c + 1 < step; c++)
            pixel[c] = scaled(pixel[c], pixel[step - 1]);
    }
}

void image_unpremultiply(struct image *image)
{
    size_t step = channels[image->mode], count = image_pixels(image);

    for (size_t i = 0; i < count; i++) {
        uint8_t *pixel = image->pixels + step * i;
        unsigned alpha = pixel[step - 1];

        for (size_t c = 0; alpha > 0 && c + 1 < step; c++) {
            unsigned value = 255 * pixel[c] / alpha;

            pixel[c] = (uint8_t)(value < 255 ? value : 255);
        }
    }
}
