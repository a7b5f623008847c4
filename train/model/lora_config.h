/* train/model/lora_config.h - the adapter_config.json of PEFT: what an adapter that PEFT
 * wrote computes, or why it is not supported. */
#ifndef TRAIN_MODEL_LORA_CONFIG_H
#define TRAIN_MODEL_LORA_CONFIG_H

#include "train/model/lora.h"
#include "train/model/model_config.h"

/*
 * Read the adapter_config.json in `dir`.  Only architecture and layers of `config` are
 * read.  ERROR_DATA, with the key, for an adapter whose values mean something else than one
 * rank and one scale for each module, in all layers or those with cross-attention: another
 * kind of adapter, an initialization that changes the base, a key that is not known.
 */
bool lora_config_read(const char *dir, const struct model_config *config,
                      struct lora *out, struct error *err);

/* Return whether a value of lora_target, or oft_target, is a regular expression, not a list
 * of names. */
bool lora_config_is_pattern(const char *targets);
/* Mark the modules whose whole names a regular expression of PEFT matches, and the layers of the
 * encoder if `encoder`; ERROR_JOB if it matches none of them, a module in some layers only, or a
 * module that cannot have an adapter. */
bool lora_config_mark_pattern(const char *key, const char *pattern,
                              const struct model_config *config, bool encoder,
                              struct lora *out, struct error *err);

#endif
