/* train/media/image.h - an image in memory, in one of the modes of Pillow that files
 * have. */
#ifndef TRAIN_MEDIA_IMAGE_H
#define TRAIN_MEDIA_IMAGE_H

#include "base/error.h"

/* Pillow refuses images of more pixels (twice its MAX_IMAGE_PIXELS).  A side has its
 * own limit, because the weights of a resize take memory for each row and column. */
#define IMAGE_PIXELS_MAX 178956970u
#define IMAGE_SIDE_MAX   (1u << 20)

/* Each sample is a byte; GRAY_16 has the bytes of a uint16_t of this machine. */
enum image_mode {
    IMAGE_BILEVEL, /* 0 or 255 */
    IMAGE_GRAY,
    IMAGE_GRAY_ALPHA,
    IMAGE_GRAY_16,
    IMAGE_PALETTE, /* indices of colors */
    IMAGE_RGB,
    IMAGE_RGBA,
    IMAGE_CMYK, /* 255 is all ink */
    IMAGE_MODES
};

struct image_size {
    uint32_t width, height;
};

struct image {
    struct image_size size;
    enum image_mode mode;
    uint8_t *pixels; /* rows from the top, without padding */
    uint8_t palette[256][3];
};

/* Return whether a size is within the limits; ERROR_DATA if not. */
bool image_size_fits(struct image_size size, struct error *err);

/* Bytes of a pixel. */
size_t image_channels(enum image_mode mode);

/* Set *out to an image of undefined pixels, which image_clear frees.  ERROR_DATA for a
 * side of 0 or an image past the limits, ERROR_MEMORY. */
bool image_init(struct image *out, struct image_size size, enum image_mode mode,
                struct error *err);
void image_clear(struct image *image);

/* Convert to RGB as Pillow does: alpha is dropped, 16 bits are clipped to 255, inks
 * become colors. */
bool image_to_rgb(struct image *image, struct error *err);

/* Multiply the colors of GRAY_ALPHA or RGBA by alpha, or divide them by it, as Pillow
 * does. */
void image_premultiply(struct image *image);
void image_unpremultiply(struct image *image);

#endif
