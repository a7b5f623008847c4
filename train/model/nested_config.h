/*
 * train/model/nested_config.h - files whose settings are partly in objects of config.json (DBRX).
 */
#ifndef TRAIN_MODEL_NESTED_CONFIG_H
#define TRAIN_MODEL_NESTED_CONFIG_H

#include "base/json.h"
#include "train/model/architecture.h"

/* Return a copy of a config.json with the members of its objects that the row names, next to its
 * own, which have precedence; an object with a name becomes that name.  NULL: the row names
 * none.  The caller releases it. */
json_t *nested_config_join(const json_t *root, const struct architecture *row);

#endif
