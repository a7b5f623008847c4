/*
 * train/model/config_refusals.h - settings of config.json that change the arithmetic of a model
 * and are not supported.
 */
#ifndef TRAIN_MODEL_CONFIG_REFUSALS_H
#define TRAIN_MODEL_CONFIG_REFUSALS_H

#include "base/json.h"
#include "train/model/architecture.h"

/* Report ERROR_DATA for the first of them.  `row` is fitted to the file. */
void config_refuse(const json_t *root, const char *file, const struct architecture *row,
                   struct error *err);

#endif
