/*
 * train/model/media_config.h - what a text model does at the rows of images and sounds.
 */
#ifndef TRAIN_MODEL_MEDIA_CONFIG_H
#define TRAIN_MODEL_MEDIA_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "train/model/projector_config.h"
#include "train/model/rope_rows.h"

struct media_config {
    /* attention: the rows of an image also see those of it that follow them */
    bool blocks;
    /* positions have three dimensions; axes without sections: they have one */
    struct rope_axes axes;
    size_t merge; /* patches of an image, in each direction, that are a row */
    /* sets of rows that are added to the residual, one after each of the first layers
     * (DeepStack) */
    size_t deep;
    struct projector_config projector;
};

/* Return whether an image needs its grid of patches. */
static inline bool media_config_has_grids(const struct media_config *config)
{
    const size_t *pairs = config->axes.sections;

    return pairs[0] > 0 || pairs[1] > 0 || pairs[2] > 0;
}

/* Read it, but axes and projector, from the config.json of a whole model of this model_type. */
void media_config_read(const char *model_type, const json_t *root, const char *file,
                       struct media_config *out, struct error *err);

#endif
