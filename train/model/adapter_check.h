/* train/model/adapter_check.h - checks whether an adapter belongs to a model. */
#ifndef TRAIN_MODEL_ADAPTER_CHECK_H
#define TRAIN_MODEL_ADAPTER_CHECK_H

#include "train/model/model_config.h"

/*
 * Compare the adapter in folder `dir` with a model: the layers that its adapter_config.json
 * names, and the names and shapes of the tensors in its adapter_model.safetensors or
 * adapter_model.bin, if there is one. ERROR_DATA, with the message that a run would fail
 * with, if the adapter belongs to another model or has an unsupported kind.
 */
bool adapter_check(const char *dir, const struct model_config *config, struct error *err);
/* Return whether an adapter has layers in blocks of the model's encoder. */
bool adapter_check_encoder(const char *dir, const struct model_config *config);

#endif
