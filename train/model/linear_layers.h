/* train/model/linear_layers.h - the layers of a model that have linear attention, and its
 * sizes. */
#ifndef TRAIN_MODEL_LINEAR_LAYERS_H
#define TRAIN_MODEL_LINEAR_LAYERS_H

#include <jansson.h>

#include "train/model/model_config.h"

/* Set out->linear and out->delta for architectures with such layers, from config.json,
 * `root`.  ERROR_DATA starts with `file`. */
void linear_layers_read(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err);

#endif
