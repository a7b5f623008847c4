/* train/media/image_prepare.c - an image as a tower reads it. */
#include "config.h"

#include "train/media/image_prepare.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "train/media/image_tiles.h"

/* The sizes that an image goes through.  A step that does not apply repeats the size. */
struct steps {
    struct image_size given;
    struct image_size limited[5]; /* LLaMA-Factory's, each by Pillow */
    struct image_size squared, resized, cropped;
    struct image_size canvas; /* of tiles; 0: the image has none */
};

enum { SIDE_LEAST = 28, ASPECT_MOST = 200, ASPECT_WIDENED = 180 }; /* Qwen2VLPlugin */

static bool is_too_large(double pixels)
{
    return pixels > IMAGE_PIXELS_MAX;
}

static uint64_t pixels_of(struct image_size size)
{
    return (uint64_t)size.width * size.height;
}

static bool refuse_size(const char *what, struct image_size size, struct error *err)
{
    return error_set(err, ERROR_DATA, "an image of %u x %u pixels %s", size.width,
                     size.height, what);
}

/* Scale a size by the square root of pixels over its own, and truncate (mm_plugin.py). */
static struct image_size scale_to(struct image_size size, int64_t pixels)
{
    double factor = sqrt((double)pixels / (double)pixels_of(size));

    return (struct image_size) { (uint32_t)(size.width * factor),
                                 (uint32_t)(size.height * factor) };
}

/* Fill in steps->limited; return the last. */
static bool limit(const struct image_settings *s, struct steps *steps, struct error *err)
{
    struct image_size size = steps->given, *out = steps->limited;

    if (pixels_of(size) > (uint64_t)s->limits.pixels_max)
        size = scale_to(size, s->limits.pixels_max);
    *out++ = size;
    if (pixels_of(size) > 0 && pixels_of(size) < (uint64_t)s->limits.pixels_min)
        size = scale_to(size, s->limits.pixels_min);
    *out++ = size;
    if (pixels_of(size) == 0)
        return refuse_size("has a side of 0 within image_max_pixels and image_min_pixels",
                           steps->given, err);
    if (s->widened && (size.width < SIDE_LEAST || size.height < SIDE_LEAST)) {
        size.width = size.width > SIDE_LEAST ? size.width : SIDE_LEAST;
        size.height = size.height > SIDE_LEAST ? size.height : SIDE_LEAST;
    }
    *out++ = size;
    if (s->widened && (double)size.width / size.height > ASPECT_MOST)
        size.width = size.height * ASPECT_WIDENED;
    *out++ = size;
    if (s->widened && (double)size.height / size.width > ASPECT_MOST)
        size.height = size.width * ASPECT_WIDENED;
    *out = size;
    return true;
}

static bool size_kept(const struct image_settings *s, struct image_size *size,
                      struct error *err)
{
    (void)s;
    (void)size;
    (void)err;
    return true;
}

static bool size_fixed(const struct image_settings *s, struct image_size *size,
                       struct error *err)
{
    (void)err;
    *size = s->size;
    return true;
}

/* get_resize_output_image_size of image_transforms.py */
static bool size_shortest(const struct image_settings *s, struct image_size *size,
                          struct error *err)
{
    bool tall = size->width <= size->height;
    uint32_t shorter = tall ? size->width : size->height;
    uint32_t longer = tall ? size->height : size->width;
    double to = floor((double)((uint64_t)s->size.width * longer) / shorter);

    if (is_too_large(to * s->size.width))
        return refuse_size("is too narrow for the processor of the model", *size, err);
    *size = tall ? (struct image_size) { s->size.width, (uint32_t)to }
                 : (struct image_size) { (uint32_t)to, s->size.width };
    return true;
}

/* get_resize_output_image_size of image_processing_pixtral.py */
static bool size_longest(const struct image_settings *s, struct image_size *size,
                         struct error *err)
{
    double down = (double)size->height / s->size.height;
    double across = (double)size->width / s->size.width;
    double ratio = down > across ? down : across;

    if (ratio > 1) {
        /* (n - 1) // unit + 1 is 0 for a side of 0 */
        if (size->width < ratio || size->height < ratio)
            return refuse_size("is too narrow for the processor of the model", *size,
                               err);
        size->height = (uint32_t)floor(size->height / ratio);
        size->width = (uint32_t)floor(size->width / ratio);
    }
    size->width = (uint32_t)size_divide_up(size->width, s->unit) * s->unit;
    size->height = (uint32_t)size_divide_up(size->height, s->unit) * s->unit;
    return true;
}

/* smart_resize of image_processing_{qwen2_vl,lfm2_vl,glm4v,paddleocr_vl}.py; rint rounds
 * half to even, as Python does */
static bool size_multiple(const struct image_settings *s, struct image_size *size,
                          struct error *err)
{
    double width = size->width, height = size->height, unit = s->unit, scale, w, h;
    double copies = s->counts_copies ? s->copies : 1;

    if (s->counts_copies && fmin(width, height) < unit) {
        scale = fmax(unit / height, unit / width);
        height = floor(height * scale);
        width = floor(width * scale);
    }
    if (s->enlarges && height < unit) {
        width = rint(width * unit / height);
        height = unit;
    }
    if (s->enlarges && width < unit) {
        height = rint(height * unit / width);
        width = unit;
    }
    w = rint(width / unit) * unit;
    h = rint(height / unit) * unit;
    if (s->sizing == IMAGE_ROWS) {
        w = fmax(w, unit);
        h = fmax(h, unit);
    } else if (fmax(width, height) / fmin(width, height) > ASPECT_MOST) {
        return refuse_size("has an aspect ratio of more than 200", *size, err);
    }
    if (copies * w * h > (double)s->pixels_max) {
        scale = sqrt(copies * height * width / (double)s->pixels_max);
        h = fmax(unit, floor(height / scale / unit) * unit);
        w = fmax(unit, floor(width / scale / unit) * unit);
    } else if (copies * w * h < (double)s->pixels_min) {
        scale = sqrt((double)s->pixels_min / (copies * height * width));
        h = ceil(height * scale / unit) * unit;
        w = ceil(width * scale / unit) * unit;
    }
    if (w < 1 || h < 1 || is_too_large(w * h))
        return refuse_size("cannot be resized within min_pixels and max_pixels", *size,
                           err);
    *size = (struct image_size) { (uint32_t)w, (uint32_t)h };
    return true;
}

/* get_aspect_ratio_preserving_size of image_processing_gemma4_unified.py */
static bool size_budget(const struct image_settings *s, struct image_size *size,
                        struct error *err)
{
    const double width = size->width, height = size->height, unit = s->unit;
    const double factor = sqrt((double)s->pixels_max / (width * height));
    const double most = floor((double)s->pixels_max / (unit * unit));
    double w = floor(factor * width / unit), h = floor(factor * height / unit);

    if (w == 0 && h == 0)
        return refuse_size("has no patch of the encoder", *size, err);
    if (h == 0) {
        h = 1;
        w = fmin(floor(width / height), most);
    } else if (w == 0) {
        w = 1;
        h = fmin(floor(height / width), most);
    }
    *size = (struct image_size) { (uint32_t)(w * unit), (uint32_t)(h * unit) };
    return true;
}

/* get_image_size_fit_to_canvas of image_processing_mllama.py */
static bool size_in_tiles(const struct image_settings *s, struct image_size *size,
                          struct error *err)
{
    *size = image_tiles_fit(s, *size, image_tiles_canvas(s, *size));
    (void)err;
    return true;
}

/* crop_image_to_patches of image_processing_got_ocr2.py */
static bool size_in_crops(const struct image_settings *s, struct image_size *size,
                          struct error *err)
{
    const struct image_size shape = image_crops_shape(s, *size);

    *size = (struct image_size) { shape.width * s->size.width,
                                  shape.height * s->size.height };
    (void)err;
    return true;
}

/* Return whether tiles are below each other. */
static bool stacks(const struct image_settings *s)
{
    return s->sizing == IMAGE_CROPS || s->sizing == IMAGE_TILED;
}

/* All tiles of a canvas, and the whole image if there are several. */
static uint32_t crops(const struct image_settings *s, struct image_size canvas)
{
    uint32_t tiles;

    if (!stacks(s))
        return 1;
    tiles = image_tiles_count(s, canvas);
    return tiles > 1 ? tiles + 1 : 1;
}

static struct image_size canvas_of(const struct image_settings *s,
                                   const struct steps *steps)
{
    if (s->sizing == IMAGE_TILES || s->sizing == IMAGE_TILED)
        return image_tiles_canvas(s, steps->squared);
    return s->sizing == IMAGE_CROPS ? steps->resized : (struct image_size) { 0, 0 };
}

static bool plan_steps(const struct image_settings *s, struct image_size from,
                       struct steps *steps, struct error *err)
{
    static bool (*const sizings[IMAGE_SIZINGS])(const struct image_settings *,
                                                struct image_size *, struct error *) = {
        [IMAGE_KEEP] = size_kept,         [IMAGE_FIXED] = size_fixed,
        [IMAGE_SHORTEST] = size_shortest, [IMAGE_LONGEST] = size_longest,
        [IMAGE_TILES] = size_in_tiles,    [IMAGE_CROPS] = size_in_crops,
        [IMAGE_MULTIPLE] = size_multiple, [IMAGE_ROWS] = size_multiple,
        [IMAGE_BUDGET] = size_budget,     [IMAGE_TILED] = size_in_tiles,
    };
    struct image_size size;

    *steps = (struct steps) { .given = from };
    if (pixels_of(from) == 0 || is_too_large((double)pixels_of(from)))
        return refuse_size("is not supported, only from 1 to 178956970 pixels", from,
                           err);
    if (!limit(s, steps, err))
        return false;
    size = steps->limited[TS_COUNT(steps->limited) - 1];
    if (s->square)
        size.width = size.height = size.width > size.height ? size.width : size.height;
    if (is_too_large((double)pixels_of(size)))
        return refuse_size("is too narrow to be made square", from, err);
    steps->squared = size;
    if (!sizings[s->sizing](s, &size, err))
        return false;
    steps->resized = size;
    steps->canvas = canvas_of(s, steps);
    steps->cropped = s->crop.width              ? s->crop
                     : s->sizing == IMAGE_TILES ? steps->canvas
                                                : size;
    if (stacks(s))
        steps->cropped = (struct image_size) { s->size.width,
                                               crops(s, steps->canvas) * s->size.height };
    return image_size_fits(steps->resized, err) && image_size_fits(steps->cropped, err);
}

bool image_prepared_size(const struct image_settings *s, struct image_size from,
                         struct image_size *to, int32_t grid[3], size_t *rows,
                         struct error *err)
{
    struct steps steps;
    size_t unit = (size_t)s->patch * s->merge;

    if (!plan_steps(s, from, &steps, err))
        return false;
    *to = steps.cropped;
    if (to->width % unit != 0 || to->height % unit != 0)
        return error_set(
            err, ERROR_DATA,
            "the prepared image has %u x %u pixels, which are not multiples of "
            "%zu, the pixels of the patches of one row",
            to->width, to->height, unit);
    grid[0] = (int32_t)crops(s, steps.canvas);
    grid[1] = (int32_t)(to->height / s->patch) / grid[0];
    grid[2] = (int32_t)(to->width / s->patch);
    *rows = (size_t)grid[0] * (size_t)grid[1] * (size_t)grid[2] / s->merge / s->merge;
    if (s->sizing == IMAGE_TILED) {
        grid[0] = 1;
        grid[1] = (int32_t)(steps.canvas.height / s->patch);
        grid[2] = (int32_t)(steps.canvas.width / s->patch);
    }
    *rows +=
        (size_t)s->extra * (s->sizing == IMAGE_TILES ? image_tiles_count(s, *to) : 1);
    return true;
}

/* Copy what fits of an image to another from `left` and `top` of it on, whose border has a
 * color. */
static bool put_middle(struct image *image, struct image_size to, const uint8_t color[3],
                       int64_t left, int64_t top, struct error *err)
{
    struct image out;
    uint8_t *pixel;

    if (to.width == image->size.width && to.height == image->size.height)
        return true;
    if (!image_init(&out, to, IMAGE_RGB, err))
        return false;
    pixel = out.pixels;
    for (int64_t y = 0; y < to.height; y++) {
        for (int64_t x = 0; x < to.width; x++, pixel += 3) {
            int64_t from_x = x + left, from_y = y + top;
            bool inside = from_x >= 0 && from_x < image->size.width && from_y >= 0 &&
                          from_y < image->size.height;

            memcpy(pixel,
                   inside ? image->pixels + 3 * (from_y * image->size.width + from_x)
                          : color,
                   3);
        }
    }
    image_clear(image);
    *image = out;
    return true;
}

/* pad_to_square of image_processing_llava.py */
static bool square(const struct image_settings *s, struct image *image,
                   struct image_size to, struct error *err)
{
    int64_t left = ((int64_t)to.width - image->size.width) / 2;
    int64_t top = ((int64_t)to.height - image->size.height) / 2;

    return put_middle(image, to, s->border, -left, -top, err);
}

/* center_crop: pads first, to at least the size, then crops; tiles are filled from the
 * top left */
static bool crop(const struct image_settings *s, struct image *image,
                 struct image_size to, struct error *err)
{
    static const uint8_t black[3];
    int64_t over_x = (int64_t)image->size.width - to.width;
    int64_t over_y = (int64_t)image->size.height - to.height;

    if (s->sizing == IMAGE_TILES)
        over_x = over_y = 0;
    return put_middle(image, to, black, over_x / 2, over_y / 2, err);
}

/* Put the tiles of `image`, which is resized to a canvas of them, and the whole, unless it is
 * absent, below each other. */
static bool stack(const struct image_settings *s, struct image *image,
                  const struct image *whole, struct image_size to, struct error *err)
{
    const size_t pitch = (size_t)3 * s->size.width,
                 across = image->size.width / s->size.width;
    const size_t tiles = across * (image->size.height / s->size.height);
    struct image out;
    uint8_t *row;

    if (!image_init(&out, to, IMAGE_RGB, err))
        return false;
    row = out.pixels;
    for (size_t i = 0; i < tiles; i++) {
        const uint8_t *from =
            image->pixels + (i / across * s->size.height * across + i % across) * pitch;

        for (size_t y = 0; y < s->size.height; y++, row += pitch)
            memcpy(row, from + y * across * pitch, pitch);
    }
    if (whole)
        memcpy(row, whole->pixels, s->size.height * pitch);
    image_clear(image);
    *image = out;
    return true;
}

/* Resize to the canvas and, if it has several tiles, also to one of them. */
static bool cut(const struct image_settings *s, struct image *image,
                const struct steps *steps, struct error *err)
{
    const size_t bytes = (size_t)3 * image->size.width * image->size.height;
    static const uint8_t black[3];
    const bool several = image_tiles_count(s, steps->canvas) > 1;
    struct image whole = { 0 };
    bool ok = !several || image_init(&whole, image->size, IMAGE_RGB, err);

    if (ok && several)
        memcpy(whole.pixels, image->pixels, bytes);
    ok = ok && (!several || image_resize(&whole, s->size, s->filter, IMAGE_TORCH, err)) &&
         image_resize(image, steps->resized, s->filter, IMAGE_TORCH, err) &&
         put_middle(image, steps->canvas, black, 0, 0, err) &&
         stack(s, image, several ? &whole : NULL, steps->cropped, err);
    image_clear(&whole);
    return ok;
}

bool image_prepare(const struct image_settings *s, struct image *image, struct error *err)
{
    struct steps steps;

    if (!plan_steps(s, image->size, &steps, err))
        return false;
    for (size_t i = 0; i < TS_COUNT(steps.limited); i++) {
        /* the conversion comes after image_min_pixels: a palette has no values in
         * between */
        if ((i == 2 && !image_to_rgb(image, err)) ||
            !image_resize(image, steps.limited[i], IMAGE_BICUBIC, IMAGE_PILLOW, err))
            return false;
    }
    if (stacks(s))
        return cut(s, image, &steps, err);
    return square(s, image, steps.squared, err) &&
           image_resize(image, steps.resized, s->filter, IMAGE_TORCH, err) &&
           crop(s, image, steps.cropped, err);
}
