/*
 * train/media/image_prepare.h - an image as a tower reads it: LLaMA-Factory's limits
 * with Pillow's resize, then the model's processor with torchvision's.
 */
#ifndef TRAIN_MEDIA_IMAGE_PREPARE_H
#define TRAIN_MEDIA_IMAGE_PREPARE_H

#include "train/media/image_settings.h"

/*
 * The size of the prepared image, its patches and its feature rows, from the size of the file.
 *   grid   frames (1), patches down, patches across
 *   rows   of features: what the text has positions for, without break tokens
 * ERROR_DATA if the processor refuses the size.
 */
bool image_prepared_size(const struct image_settings *settings, struct image_size from,
                         struct image_size *to, int32_t grid[3], size_t *rows,
                         struct error *err);

/* Replace the image by the prepared one, in RGB. */
bool image_prepare(const struct image_settings *settings, struct image *image,
                   struct error *err);

#endif
