/* train/model/adapter_check.h - checks whether an adapter belongs to a model. */
#ifndef TRAIN_MODEL_ADAPTER_CHECK_H
#define TRAIN_MODEL_ADAPTER_CHECK_H

#include "train/model/model_config.h"

/*
 * Compare the adapter in folder `dir` with a model: the layers that its
 * adapter_config.json names, and the names and shapes in the header of its
 * adapter_model.safetensors, if it has one.  ERROR_DATA if it belongs to another model or
 * is of a kind that is not supported; a run would fail with it.
 */
bool adapter_check(const char *dir, const struct model_config *config, struct error *err);

#endif
