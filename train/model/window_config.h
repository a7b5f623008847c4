/* train/model/window_config.h - layers whose attention has a window. */
#ifndef TRAIN_MODEL_WINDOW_CONFIG_H
#define TRAIN_MODEL_WINDOW_CONFIG_H

#include "base/json.h"
#include "train/model/model_config.h"

/* Set sliding_window and `windowed` of a config whose layers and rotation are known, and
 * `rotated`, if it follows from them.  Without such layers nothing is set. */
void window_config_read(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err);

#endif
