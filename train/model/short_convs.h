/* train/model/short_convs.h - the layers of a model that have short convolutions, and the
 * sizes of LFM2. */
#ifndef TRAIN_MODEL_SHORT_CONVS_H
#define TRAIN_MODEL_SHORT_CONVS_H

#include <jansson.h>

#include "train/model/model_config.h"

/* Set out->linear and out->delta for architectures with such layers, and the size of their
 * MLPs and whether they are tied, from config.json, `root`.  ERROR_DATA starts with
 * `file`. */
void short_convs_read(const json_t *root, const char *file, struct arena *arena,
                      struct model_config *out, struct error *err);

#endif
