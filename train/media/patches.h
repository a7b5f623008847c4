/* train/media/patches.h - the rows of a tower's input: patches of a prepared image, in the
 * order of the image. */
#ifndef TRAIN_MEDIA_PATCHES_H
#define TRAIN_MEDIA_PATCHES_H

#include "train/media/image_settings.h"

/* Elements of a row: colors x copies x patch x patch, in this order. */
size_t patches_width(const struct image_settings *settings);

/* Fill rows (patches, patches_width) from a prepared image, normalized. */
void patches_fill(const struct image_settings *settings, const struct image *image,
                  float *rows);

#endif
