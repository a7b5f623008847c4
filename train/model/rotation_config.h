/* train/model/rotation_config.h - the adapter_config.json of orthogonal adapters: PEFT's
 * OFTConfig. */
#ifndef TRAIN_MODEL_ROTATION_CONFIG_H
#define TRAIN_MODEL_ROTATION_CONFIG_H

#include <jansson.h>

#include "base/error.h"
#include "train/model/rotation.h"
#include "train/plan.h"

/* Read the settings of a job; ERROR_JOB, starting with the key, if the number of blocks and
 * their size are both given, or neither. */
bool rotation_config_of_job(const struct plan *plan, struct rotation *out,
                            struct error *err);
/* Return whether a key of OFTConfig is read, or does not change what a saved adapter
 * computes. */
bool rotation_config_knows(const char *key);
/* Read those of a file; ERROR_DATA for values that PEFT rejects, or that are not
 * supported. */
bool rotation_config_read(const json_t *root, const char *file, struct rotation *out,
                          struct error *err);
/* Return the keys of the settings. */
json_t *rotation_config_write(const struct rotation *rotation);

#endif
