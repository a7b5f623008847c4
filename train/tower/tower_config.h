/*
 * train/tower/tower_config.h - the encoder of sound or images, and its projector, that a
 * model's config.json describes.
 */
#ifndef TRAIN_TOWER_TOWER_CONFIG_H
#define TRAIN_TOWER_TOWER_CONFIG_H

#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"
#include "kernels/ops.h"
#include "train/tower/tower_family.h"

/* Most layers whose outputs a projector reads side by side, and of DeepStack. */
enum { TOWER_CHOSEN_MAX = 8, TOWER_DEEP_MAX = 4 };

/* Width: columns of a row.  A sound has `positions` rows for each window of 2 * positions
 * frames, an image one row for each patch, and one for the class if the encoder has one. */
struct tower_config {
    const struct tower_family *family;
    size_t layers; /* that the file has */
    size_t run;    /* the first of them, which are computed */
    size_t width, inner, heads, head_size;
    double eps;
    enum activation activation;
    bool rms;        /* norms of the blocks are RMSNorm, not LayerNorm */
    bool qkv_biases; /* if the encoder has a key for them */
    uint64_t absent; /* bit i: layer i of the table does not exist here */

    size_t mels, positions; /* of sound */

    /* of a Conformer: channels of its first convolutions, rows that the convolution of a
     * block reads, and distances with biases of their own in each direction, or in both */
    size_t channels, taps, distances;
    bool symmetric;
    enum activation input_activation, glu_activation, conv_activation;

    /* of images in tiles: the most of them, the rows of one, and the rows that follow these in
     * attention; and the layers before the global ones */
    size_t tiles, tile_rows, tile_padding, local;

    size_t patch;         /* pixels of the side of a patch */
    size_t frames;        /* of a patch (temporal_patch_size) */
    size_t patch_columns; /* values of a patch: 3 * frames * patch * patch */
    /* the side, in patches, of the images that a learned position belongs to; 0: any */
    size_t side;
    size_t axes;  /* learned positions of columns, and of rows; 0: of patches, if any */
    size_t block; /* the side, in patches, of the square that becomes one row */
    /* the side of the windows in which the layers attend that are not in `whole`, in
     * blocks; 0: all layers attend to the whole image */
    size_t window;
    const bool *whole; /* of each layer */
    double rope_theta;

    /* after how many layers the outputs are that the projector reads; `chosen` of them */
    size_t chosen, chosen_at[TOWER_CHOSEN_MAX];
    bool drops_class;
    size_t deep, deep_after[TOWER_DEEP_MAX]; /* the same for DeepStack */
    size_t group;     /* rows that become one, by their mean or side by side */
    size_t row_width; /* columns of a row that the projector reads */
    size_t encoded;   /* and of one that a trained projector reads */

    size_t projected; /* columns of its output: the width of the text model */
    size_t middle;    /* columns between its two layers */
    size_t merged;    /* columns after TOWER_PROJECTOR_MERGE */
    size_t expanded;  /* columns of each part of TOWER_PROJECTOR_UP */
    double projector_eps;
    enum activation projector_activation;
    bool projector_biases;
};

/*
 * Read a config.json, whose text model has this width.  Strings are borrowed from tables.
 * *out is valid as long as the arena.  ERROR_DATA names the file and the key; also for a model
 * without towers, or whose towers are not supported.
 */
bool tower_config_parse(const json_t *root, const char *file, size_t text_width,
                        struct arena *arena, struct tower_config *out, struct error *err);
/* The same of the config.json of a folder. */
bool tower_config_read(const char *model_dir, size_t text_width, struct arena *arena,
                       struct tower_config *out, struct error *err);

/* Return whether a layer has parameters in this model. */
bool tower_config_has(const struct tower_config *config, enum tower_layer layer);
/* Return whether part `part` of a layer has a bias. */
bool tower_config_has_bias(const struct tower_config *config, enum tower_layer layer,
                           size_t part);

#endif
