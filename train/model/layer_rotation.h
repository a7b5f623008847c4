/* train/model/layer_rotation.h - the layers of a model that rotate q and k by
 * position. */
#ifndef TRAIN_MODEL_LAYER_ROTATION_H
#define TRAIN_MODEL_LAYER_ROTATION_H

#include <jansson.h>

#include "train/model/model_config.h"

/* Set out->rotated for architectures that list these layers in config.json, `root`; it is
 * in the arena.  ERROR_DATA starts with `file`. */
void layer_rotation_read(const json_t *root, const char *file, struct arena *arena,
                         struct model_config *out, struct error *err);

#endif
