/* train/model/state_space.h - the layers of a model that have a state space model (Mamba-2),
 * its sizes, and the factors of Falcon-H1. */
#ifndef TRAIN_MODEL_STATE_SPACE_H
#define TRAIN_MODEL_STATE_SPACE_H

#include <jansson.h>

#include "train/model/model_config.h"

/* Set out->ssm, out->linear and the factors, if the architecture has such layers.  After the
 * sizes of attention. */
void state_space_read(const json_t *root, const char *file, struct arena *arena,
                      struct model_config *out, struct error *err);

#endif
