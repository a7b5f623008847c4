/* train/model/adapter_check.h - is an adapter of this model? */
#ifndef TRAIN_MODEL_ADAPTER_CHECK_H
#define TRAIN_MODEL_ADAPTER_CHECK_H

#include "train/model/model_config.h"

/*
 * Hold the adapter in the folder `dir` against a model: the layers that its
 * adapter_config.json names, and the names and shapes in the header of its
 * adapter_model.safetensors, where that is there.  ERROR_DATA where it is of another
 * model, or of a kind that is not supported; a run would end with it.
 */
bool adapter_check(const char *dir, const struct model_config *config, struct error *err);

#endif
