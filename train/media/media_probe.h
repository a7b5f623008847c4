/* train/media/media_probe.h - how many rows of features a file has, as a model's processor
 * prepares it, and whether it can be decoded. */
#ifndef TRAIN_MEDIA_MEDIA_PROBE_H
#define TRAIN_MEDIA_MEDIA_PROBE_H

#include "train/media/image_settings.h"
#include "train/media/media_family.h"
#include "train/media/mel_settings.h"
#include "train/plan.h"

struct media_settings {
    const struct media_family *family;
    struct image_settings image; /* of the family's kind: one of the two */
    struct mel_settings mel;
};

/* Read the settings of the job's model. ERROR_DATA if its files do not have them, or its
 * processor is not supported; ERROR_JOB if those of the job do not suit it. */
bool media_settings_read(const struct media_family *family, const struct plan *plan,
                         struct media_settings *out, struct error *err);

struct media_probe {
    uint32_t rows;
    int32_t grid[3]; /* of an image: frames, rows and columns of patches */
};

/* Read the header, and whether the end is there.  ERROR_DATA with the name of a file that is
 * damaged, empty, or beyond the limits. */
bool media_probe(const struct media_settings *settings, const char *path,
                 struct media_probe *out, struct error *err);

/* The contents of a file, and the name that errors give it. */
struct media_bytes {
    const void *data;
    size_t len;
    const char *name;
};
bool media_probe_bytes(const struct media_settings *settings,
                       const struct media_bytes *bytes, struct media_probe *out,
                       struct error *err);

/* Decode a file that media_probe accepts: there may be damage, or samples that are not finite,
 * inside.  *large: it is an image of more pixels than these, which is not decoded. */
bool media_verify(const struct media_settings *settings, const char *path,
                  uint64_t pixels_max, bool *large, struct error *err);
bool media_verify_bytes(const struct media_settings *settings,
                        const struct media_bytes *bytes, uint64_t pixels_max, bool *large,
                        struct error *err);

#endif
