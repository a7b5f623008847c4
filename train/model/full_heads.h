/*
 * train/model/full_heads.h - models whose layers without a window have heads of another
 * size and number (Gemma 4).
 */
#ifndef TRAIN_MODEL_FULL_HEADS_H
#define TRAIN_MODEL_FULL_HEADS_H

#include "base/json.h"
#include "train/model/model_config.h"

/* Read what config.json says about these heads, once those of the other layers are known.
 * Older files have global_head_dim and num_global_key_value_heads, transformers 5.24 writes
 * per_layer_config, which has what differs, the same for each such layer. */
void full_heads_read(const json_t *root, const char *file, struct model_config *out,
                     struct error *err);
/* Once the layers with a window are known: check that per_layer_config says the same for
 * all others, and nothing for them. */
void full_heads_check(const json_t *root, const char *file,
                      const struct model_config *config, struct error *err);

#endif
