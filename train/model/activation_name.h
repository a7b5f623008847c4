/* train/model/activation_name.h - activation functions by their names in config.json. */
#ifndef TRAIN_MODEL_ACTIVATION_NAME_H
#define TRAIN_MODEL_ACTIVATION_NAME_H

#include <stdbool.h>

#include "base/error.h"
#include "kernels/ops.h"

/* Find the function that `key` of `file` names.  Fails with ERROR_DATA, which lists the
 * names, if name is NULL or another one. */
bool activation_read(const char *file, const char *key, const char *name,
                     enum activation *out, struct error *err);

#endif
