/* train/media/image_resize.h - resize an image to the bits that Pillow or torchvision
 * gives. */
#ifndef TRAIN_MEDIA_IMAGE_RESIZE_H
#define TRAIN_MEDIA_IMAGE_RESIZE_H

#include "train/media/image.h"

enum image_filter {
    IMAGE_NEAREST,
    IMAGE_BILINEAR,
    IMAGE_BICUBIC,
    IMAGE_LANCZOS,
    IMAGE_FILTERS
};

/*
 * Both widen the filter when they shrink an image, resize rows first, and round to bytes
 * in between.
 * PILLOW    Pillow 12's Image.resize in every mode; BILEVEL and PALETTE are always NEAREST
 * TORCH     torchvision's resize of uint8 with antialias=True, on a processor with AVX2
 */
enum image_kernel { IMAGE_PILLOW, IMAGE_TORCH };

/* Replace the image by one of another size.  ERROR_DATA if it, or one of the new width
 * and the old height, is past the limits of image_init; then, and on ERROR_MEMORY, the
 * image may be cleared. */
bool image_resize(struct image *image, struct image_size to, enum image_filter filter,
                  enum image_kernel kernel, struct error *err);

#endif
