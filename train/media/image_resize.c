/* train/media/image_resize.c - resize an image to the bits that Pillow or torchvision
 * gives. */
#include "config.h"

#include "train/media/image_resize.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "train/media/image_pass.h"

/* Pillow adds up the step (Geometry.c); a position that rounding moves past the end is
 * not filled. */
static void nearest_pillow(uint32_t *at, uint32_t from, uint32_t to)
{
    double step = (double)from / to, position = step * 0.5;

    for (uint32_t i = 0; i < to; i++, position += step)
        at[i] = (uint32_t)position;
}

/* of 16 bits */
static void nearest_pillow_16(uint32_t *at, uint32_t from, uint32_t to)
{
    double step = (double)from / to;

    for (uint32_t i = 0; i < to; i++)
        at[i] = (uint32_t)((i + 0.5) * step);
}

/* nearest-exact, which transformers asks for; the scale is a float */
static void nearest_torch(uint32_t *at, uint32_t from, uint32_t to)
{
    float scale = (float)from / (float)to;

    for (uint32_t i = 0; i < to; i++) {
        uint32_t position = (uint32_t)floorf((float)((i + 0.5) * scale));

        at[i] = position < from ? position : from - 1;
    }
}

static void copy_nearest(const struct image *in, const uint32_t *columns,
                         const uint32_t *rows, struct image *out)
{
    size_t step = image_channels(in->mode);
    uint8_t *to = out->pixels;

    for (uint32_t y = 0; y < out->size.height; y++) {
        const uint8_t *from = in->pixels + step * rows[y] * in->size.width;

        for (uint32_t x = 0; x < out->size.width; x++, to += step) {
            if (rows[y] < in->size.height && columns[x] < in->size.width)
                memcpy(to, from + step * columns[x], step);
            else
                memset(to, 0, step);
        }
    }
}

static void resize_nearest(const struct image *in, enum image_kernel kernel,
                           struct image *out)
{
    void (*positions)(uint32_t *, uint32_t, uint32_t) =
        kernel == IMAGE_TORCH       ? nearest_torch
        : in->mode == IMAGE_GRAY_16 ? nearest_pillow_16
                                    : nearest_pillow;
    uint32_t *columns = memory_alloc(out->size.width * sizeof(*columns));
    uint32_t *rows = memory_alloc(out->size.height * sizeof(*rows));

    positions(columns, in->size.width, out->size.width);
    positions(rows, in->size.height, out->size.height);
    copy_nearest(in, columns, rows, out);
    free(columns);
    free(rows);
}

/* Pillow adds 16 bits up in double. */
static uint16_t clip_16(double sum)
{
    double value = sum >= 0 ? floor(sum + 0.5) : 0;

    return (uint16_t)(value < UINT16_MAX ? value : UINT16_MAX);
}

static void pass_16(const struct image_weights *w, const struct image *in, bool across,
                    struct image *out)
{
    const uint16_t *from = (const void *)in->pixels;
    uint16_t *to = (void *)out->pixels;

    for (uint32_t y = 0; y < out->size.height; y++) {
        for (uint32_t x = 0; x < out->size.width; x++) {
            uint32_t i = across ? x : y;
            size_t step = across ? 1 : in->size.width;
            size_t at = across ? (size_t)y * in->size.width + w->first[i]
                               : (size_t)w->first[i] * in->size.width + x;
            double sum = 0;

            for (uint32_t j = 0; j < w->taps[i]; j++)
                sum += from[at + j * step] * w->real[w->start[i] + j];
            to[(size_t)y * out->size.width + x] = clip_16(sum);
        }
    }
}

static bool pass_8(struct image_weights *w, const struct image *in, bool across,
                   enum image_kernel kernel, struct image *out, struct error *err)
{
    size_t channels = image_channels(in->mode);

    if (!image_weights_fix(w, kernel, err))
        return false;
    if (across)
        return image_pass_across(w, in->pixels, in->size.height, in->size.width, channels,
                                 out->pixels, err);
    image_pass_down(w, in->pixels, in->size.width * channels, out->pixels);
    return true;
}

/* Resize one axis, unless it has that size. */
static bool pass(struct image *image, bool across, uint32_t to, enum image_filter filter,
                 enum image_kernel kernel, struct error *err)
{
    uint32_t from = across ? image->size.width : image->size.height;
    struct image_size size = { across ? to : image->size.width,
                               across ? image->size.height : to };
    struct image_weights w;
    struct image out;
    bool ok = true;

    if (from == to)
        return true;
    if (!image_init(&out, size, image->mode, err))
        return false;
    if (!image_weights_init(&w, from, to, filter, err)) {
        image_clear(&out);
        return false;
    }
    if (image->mode == IMAGE_GRAY_16)
        pass_16(&w, image, across, &out);
    else
        ok = pass_8(&w, image, across, kernel, &out, err);
    image_weights_clear(&w);
    image_clear(image);
    *image = out;
    return ok;
}

bool image_resize(struct image *image, struct image_size to, enum image_filter filter,
                  enum image_kernel kernel, struct error *err)
{
    bool indexed = image->mode == IMAGE_BILEVEL || image->mode == IMAGE_PALETTE;
    bool blended = image->mode == IMAGE_GRAY_ALPHA || image->mode == IMAGE_RGBA;
    struct image out;

    if (to.width == image->size.width && to.height == image->size.height)
        return true;
    if (filter == IMAGE_NEAREST || indexed) {
        if (!image_init(&out, to, image->mode, err))
            return false;
        memcpy(out.palette, image->palette, sizeof(out.palette));
        resize_nearest(image, kernel, &out);
        image_clear(image);
        *image = out;
        return true;
    }
    if (blended)
        image_premultiply(image);
    if (!pass(image, true, to.width, filter, kernel, err) ||
        !pass(image, false, to.height, filter, kernel, err))
        return false;
    if (blended)
        image_unpremultiply(image);
    return true;
}
