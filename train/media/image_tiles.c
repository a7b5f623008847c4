/* train/media/image_tiles.c - the tiles of Llama 3.2 Vision (image_processing_mllama.py), of
 * Llama 4 (image_processing_llama4.py) and of InternVL (image_processing_got_ocr2.py). */
#include "config.h"

#include "train/media/image_tiles.h"

#include <math.h>

/* How much the image can grow in a canvas.  transformers divides in fp32 for Llama 4. */
static double fit(const struct image_settings *s, struct image_size canvas,
                  struct image_size image)
{
    if (s->sizing == IMAGE_TILED)
        return (double)fminf((float)canvas.height / (float)image.height,
                             (float)canvas.width / (float)image.width);
    return fmin((double)canvas.height / image.height, (double)canvas.width / image.width);
}

/* Of all shapes that hold the image, the one that enlarges it least, or else the one
 * that shrinks it least; of equal ones, the smallest.  Shapes are in the order of the
 * model's tables. */
struct image_size image_tiles_canvas(const struct image_settings *s,
                                     struct image_size image)
{
    struct image_size best = { 0, 0 };
    double chosen = 0;

    for (uint32_t down = 1; down <= s->tiles; down++) {
        for (uint32_t across = 1; across * down <= s->tiles; across++) {
            struct image_size canvas = { across * s->size.width, down * s->size.height };
            double scale = fit(s, canvas, image);
            bool better = scale >= 1 ? chosen < 1 || scale < chosen : scale > chosen;
            bool smaller = (uint64_t)canvas.width * canvas.height <
                           (uint64_t)best.width * best.height;

            if (best.width == 0 || better || (scale == chosen && smaller)) {
                best = canvas;
                chosen = scale;
            }
        }
    }
    return best;
}

static double clip(double value, double low, double high)
{
    return fmin(fmax(value, low), high);
}

/* A side of 0 becomes 1. */
static double scaled(double side, double scale, double most)
{
    return fmin(fmax(floor(side * scale), 1), most);
}

struct image_size image_tiles_fit(const struct image_settings *s, struct image_size image,
                                  struct image_size canvas)
{
    double width = clip(image.width, s->size.width, canvas.width);
    double height = clip(image.height, s->size.height, canvas.height);
    double across = width / image.width, down = height / image.height;

    if (across < down)
        height = scaled(image.height, across, height);
    else
        width = scaled(image.width, down, width);
    return (struct image_size) { (uint32_t)width, (uint32_t)height };
}

uint32_t image_tiles_count(const struct image_settings *s, struct image_size canvas)
{
    return canvas.width / s->size.width * (canvas.height / s->size.height);
}

uint32_t image_tiles_shape(const struct image_settings *s, struct image_size canvas)
{
    uint32_t id = canvas.width / s->size.width;

    for (uint32_t down = 1; down < canvas.height / s->size.height; down++)
        id += s->tiles / down;
    return id;
}

/* get_optimal_tiled_canvas: of equally close shapes the first, or a later one if the image has
 * more than half its pixels.  Shapes are in the order of their tiles, then of their width. */
struct image_size image_crops_shape(const struct image_settings *s,
                                    struct image_size image)
{
    const double area = (double)image.width * image.height;
    const double aspect = (double)image.width / image.height;
    const double tile = 0.5 * s->size.height * s->size.width;
    struct image_size best = { 1, 1 };
    double closest = INFINITY;

    for (uint32_t tiles = s->tiles_least; tiles <= s->tiles; tiles++) {
        for (uint32_t across = 1; across <= tiles; across++) {
            const uint32_t down = tiles / across;
            const double far = fabs(aspect - (double)across / down);

            if (down * across != tiles)
                continue;
            if (far < closest || (far == closest && area > tile * tiles))
                best = (struct image_size) { across, down };
            closest = fmin(far, closest);
        }
    }
    return best;
}
