/*
 * train/media/media_input.h - a sound or an image, decoded and prepared for its encoder.
 */
#ifndef TRAIN_MEDIA_MEDIA_INPUT_H
#define TRAIN_MEDIA_MEDIA_INPUT_H

#include "train/media/image_settings.h"
#include "train/media/mel_settings.h"
#include "train/media/media_kind.h"

/*
 * Of an image, a row for each patch, in raster order, with the values of its pixels:
 * channel, frame (if the encoder's patches have several), y, x; or y, x, channel (SigLIP
 * 2).  Tiles follow each other. Of a sound, a row of mel features for each frame of each
 * window.
 */
struct media_input {
    float *values; /* (rows, columns) */
    size_t rows, columns;
    size_t height, width; /* of an image, or of a tile of it, in patches; 0: a sound */
    /* of a sound, or tiles of an image, all of the same number of rows, which are encoded
     * one after the other; 0 of an image: 1 */
    size_t windows;
    size_t *heard; /* of each window: the frames that have a part of the sound */
};

void media_input_clear(struct media_input *input);

/* What reads the media of one kind as a model's processor does. */
struct media_reader;

struct media_reader_options {
    const char *model_dir, *model_type; /* of its config.json */
    enum media_kind kind;
    struct image_limits limits; /* of the job */
};

struct media_reader *media_reader_open(const struct media_reader_options *options,
                                       struct error *err);
void media_reader_close(struct media_reader *reader); /* NULL is allowed */
/* Fill *out, which must be empty.  ERROR_DATA names the file. */
bool media_reader_read(struct media_reader *reader, const char *path,
                       struct media_input *out, struct error *err);

#endif
