/* train/model/rope_config.h - the rotation of positions that config.json describes. */
#ifndef TRAIN_MODEL_ROPE_CONFIG_H
#define TRAIN_MODEL_ROPE_CONFIG_H

#include <jansson.h>

#include "train/model/model_config.h"

/* Set what is rotated and by which angles, of a config whose sizes are read. */
void rope_config_read(const json_t *root, const char *file, struct arena *arena,
                      struct model_config *out, struct error *err);

#endif
