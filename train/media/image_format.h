/* train/media/image_format.h - the formats of image files; only for image_*.c. */
#ifndef TRAIN_MEDIA_IMAGE_FORMAT_H
#define TRAIN_MEDIA_IMAGE_FORMAT_H

#include "train/media/image_file.h"

enum image_format { IMAGE_JPEG, IMAGE_PNG, IMAGE_WEBP, IMAGE_FORMATS };

extern const char *const image_format_names[IMAGE_FORMATS];

/* Return the format that the first bytes have; ERROR_DATA and false for others. */
bool image_format_find(const struct image_bytes *bytes, enum image_format *out,
                       struct error *err);

/* Each sets *out, or fails with "NAME: reason". */
bool image_jpeg_decode(const struct image_bytes *bytes, struct image *out,
                       struct error *err);
bool image_png_decode(const struct image_bytes *bytes, struct image *out,
                      struct error *err);
bool image_webp_decode(const struct image_bytes *bytes, struct image *out,
                       struct error *err);

/* image_init with the name of the file in errors. */
bool image_format_init(struct image *out, const struct image_bytes *bytes,
                       struct image_size size, enum image_mode mode, struct error *err);

#endif
