/*
 * train/media/image_file.h - files of images: JPEG, PNG and WebP.  An animation is its
 * first image. Orientation in EXIF and color profiles are not applied, as LLaMA-Factory
 * applies none.  Errors name the file.
 */
#ifndef TRAIN_MEDIA_IMAGE_FILE_H
#define TRAIN_MEDIA_IMAGE_FILE_H

#include "train/media/image.h"

#define IMAGE_FILE_BYTES_MAX ((size_t)512 << 20)

/* The bytes of a file, and the name that errors give it. */
struct image_bytes {
    const uint8_t *data;
    size_t len;
    const char *name;
};

/* Read the size from the header, without a library.  ERROR_DATA for anything but an
 * image of a format above within the limits of image_init. */
bool image_size(const char *path, struct image_size *out, struct error *err);
bool image_bytes_size(const struct image_bytes *bytes, struct image_size *out,
                      struct error *err);

/* Decode.  ERROR_DATA also for damaged and truncated files, and formats whose library
 * this build lacks. The caller clears *out. */
bool image_read(const char *path, struct image *out, struct error *err);
bool image_decode(const struct image_bytes *bytes, struct image *out, struct error *err);

#endif
