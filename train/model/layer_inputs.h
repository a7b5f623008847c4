/*
 * train/model/layer_inputs.h - inputs that each layer has next to the residual (Gemma 4 E2B and
 * E4B): train/model/model_inputs.c has their formulas.
 */
#ifndef TRAIN_MODEL_LAYER_INPUTS_H
#define TRAIN_MODEL_LAYER_INPUTS_H

#include "base/error.h"
#include "base/json.h"
#include "train/model/model_config.h"

/* Return the columns that a layer's input has according to config.json; 0: there are none. */
size_t layer_inputs_size(const struct architecture *row, const json_t *root,
                         const char *file, struct error *err);
/* Set them, after the other sizes. */
void layer_inputs_read(const json_t *root, const char *file, struct model_config *out,
                       struct error *err);

#endif
