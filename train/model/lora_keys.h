/* train/model/lora_keys.h - the keys of adapter_config.json. */
#ifndef TRAIN_MODEL_LORA_KEYS_H
#define TRAIN_MODEL_LORA_KEYS_H

#include <jansson.h>

#include "train/model/lora.h"

/* Return whether a value turns its key off. */
bool lora_keys_are_off(const json_t *value);
/* Read the kind of adapter and how it began, and refuse keys that are not supported.
 * ERROR_DATA. */
bool lora_keys_read(const json_t *root, const char *file, struct lora *out,
                    struct error *err);

#endif
