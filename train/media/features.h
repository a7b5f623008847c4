/* train/media/features.h - feature rows of media, mapped from a safetensors file: what a
 * model reads in place of the embeddings of media tokens.
 *
 * A tensor KEY of shape (rows, width) has the rows of one medium, in F32, F16 or BF16.
 * KEY is the path of the medium as the records have it (the user's file), or the digest
 * of its content (the cache). Next to it may be
 *
 *     KEY#grid     I32 (3)   frames, rows and columns of patches: models with 3-D positions
 *     KEY#deep0..  as KEY    rows that are added after the first layers (DeepStack); they have
 *                            the width of the text model, the others may have an encoder's
 */
#ifndef TRAIN_MEDIA_FEATURES_H
#define TRAIN_MEDIA_FEATURES_H

#include "base/error.h"
#include "precision/format.h"

enum { FEATURE_DEEP_MAX = 4 };

/* The rows of one medium, borrowed from the file. */
struct feature {
    const void *rows; /* (count, width) */
    enum format format;
    size_t count, width;
    int32_t grid[3]; /* 0: the file has none */
    /* (count, deep_width) of the same format; NULL after the last */
    const void *deep[FEATURE_DEEP_MAX];
    size_t deep_width;
};

struct features;

/* `path` may be a folder with features.safetensors, or its index and shards. ERROR_DATA
 * for a file that is not like this; all media have the same width and the same number of
 * deep rows. */
struct features *features_open(const char *path, struct error *err);
void features_close(struct features *set);         /* NULL is allowed */
size_t features_count(const struct features *set); /* media */
size_t features_width(const struct features *set);
size_t features_deep(const struct features *set); /* tensors of deep rows of a medium */
size_t features_deep_width(const struct features *set);
/* Return false if the file does not have the medium. */
bool features_find(const struct features *set, const char *key, struct feature *out);

#endif
