/* train/media/image_source.h - values of a JSON file of a model, with the ranges that
 * they must be in. */
#ifndef TRAIN_MEDIA_IMAGE_SOURCE_H
#define TRAIN_MEDIA_IMAGE_SOURCE_H

#include "base/json.h"
#include "train/media/image_settings.h"

/* An object of a file, and the name that errors give the file.  NULL has no keys. */
struct image_source {
    const json_t *json;
    const char *file;
    struct error *err;
};

enum { IMAGE_SOURCE_SIDE_MAX = 1 << 14, IMAGE_SOURCE_PATCH_MAX = 256 };

/* Set err to "FILE: KEY why", with ERROR_DATA.  False. */
bool image_source_refuse(const struct image_source *from, const char *key,
                         const char *why);

/* Return whether there is a key, and not null. */
bool image_source_has(const struct image_source *from, const char *key);
/* An object inside. */
struct image_source image_source_inside(const struct image_source *from, const char *key);

/* Each returns `missing` for a missing key or null; on an error, something in range. */
bool image_source_bool(const struct image_source *from, const char *key, bool missing);
int64_t image_source_int(const struct image_source *from, const char *key,
                         int64_t missing, int64_t min, int64_t max);
/* A side from 1 to max that is given as a number, or as a list of two equal ones. */
uint32_t image_source_side(const struct image_source *from, const char *key,
                           int64_t missing, int64_t max);
/* {"height", "width"}, a list of both, or one number for both, from 1 to max. */
struct image_size image_source_size(const struct image_source *from, const char *key,
                                    struct image_size missing, int64_t max);

#endif
