/* train/model/expert_config.h - the experts that config.json describes. */
#ifndef TRAIN_MODEL_EXPERT_CONFIG_H
#define TRAIN_MODEL_EXPERT_CONFIG_H

#include <jansson.h>

#include "train/model/model_config.h"
#include "train/plan.h"

/* Set the experts of a config whose sizes are read. */
void expert_config_read(const json_t *root, const char *file, struct arena *arena,
                        struct model_config *out, struct error *err);
/* Return the coefficient of the load balancing loss of a run; 0: it has none. */
double expert_config_balance(const struct plan *plan, const struct model_config *config);

#endif
