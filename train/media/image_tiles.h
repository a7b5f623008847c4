/* train/media/image_tiles.h - the tiles of an image: a canvas of up to settings->tiles
 * squares of settings->size.  That of Llama 3.2 Vision holds the image with its aspect; that
 * of InternVL has the aspect that is closest to the image's. */
#ifndef TRAIN_MEDIA_IMAGE_TILES_H
#define TRAIN_MEDIA_IMAGE_TILES_H

#include "train/media/image_settings.h"

enum { IMAGE_TILES_MAX = 64 };

/* The canvas for an image, and the size of the image in it. */
struct image_size image_tiles_canvas(const struct image_settings *settings,
                                     struct image_size image);
struct image_size image_tiles_fit(const struct image_settings *settings,
                                  struct image_size image, struct image_size canvas);

/* Tiles of a canvas, and the number of its shape, from 1, in the order of the model's
 * tables (aspect_ratio_ids). */
uint32_t image_tiles_count(const struct image_settings *settings,
                           struct image_size canvas);
uint32_t image_tiles_shape(const struct image_settings *settings,
                           struct image_size canvas);

/* How many tiles InternVL's canvas has in each direction. */
struct image_size image_crops_shape(const struct image_settings *settings,
                                    struct image_size image);

#endif
