/*
 * train/model/shared_keys.h - layers that attend to the keys and values of an earlier layer
 * (Gemma 4 E2B and E4B): the last ones, each to those of the last other layer that has a
 * window, or has none, as it has.
 */
#ifndef TRAIN_MODEL_SHARED_KEYS_H
#define TRAIN_MODEL_SHARED_KEYS_H

#include "base/error.h"
#include "base/json.h"
#include "train/model/model_config.h"

/* Read how many layers do, after the windows of all. */
void shared_keys_read(const json_t *root, const char *file, struct model_config *out,
                      struct error *err);
/* Return the layer whose keys and values a layer attends to: its own, or an earlier one. */
size_t shared_keys_layer(const struct model_config *config, size_t layer);
/* Return whether other layers use those of a layer, and whether no later layer uses those
 * that this one does. */
bool shared_keys_are_shared(const struct model_config *config, size_t layer);
bool shared_keys_is_last(const struct model_config *config, size_t layer);
/* Return whether a tensor is of a layer for keys or values that the model does not use.
 * Published files have them, and transformers ignores them. */
bool shared_keys_ignores(const struct model_config *config, const char *blocks,
                         const char *name);

#endif
