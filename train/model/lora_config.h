/* train/model/lora_config.h - the adapter_config.json of PEFT: what an adapter that PEFT
 * wrote computes, or why it is not supported. */
#ifndef TRAIN_MODEL_LORA_CONFIG_H
#define TRAIN_MODEL_LORA_CONFIG_H

#include "train/model/lora.h"
#include "train/model/model_config.h"

/*
 * Read the adapter_config.json in `dir`.  Only architecture and layers of `config` are
 * read.  ERROR_DATA, with the key, for an adapter whose values mean something else than
 * one rank and one scale for each module, in all layers: another kind of adapter, an
 * initialization that changes the base, a key that is not known.
 */
bool lora_config_read(const char *dir, const struct model_config *config,
                      struct lora *out, struct error *err);

#endif
