/* train/model/adapter_methods.h - kinds of adapters, and what they do not go together
 * with. */
#ifndef TRAIN_MODEL_ADAPTER_METHODS_H
#define TRAIN_MODEL_ADAPTER_METHODS_H

#include "train/model/lora.h"

/* Fail with ERROR_JOB, starting with the key, if the plan cannot train or merge these
 * adapters. */
bool adapter_methods_check(const struct plan *plan, const struct model_config *config,
                           const struct lora *lora, struct error *err);

#endif
