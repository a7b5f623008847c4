/* train/reinforcement.h - whether the settings of stage grpo fit together. */
#ifndef TRAIN_REINFORCEMENT_H
#define TRAIN_REINFORCEMENT_H

#include "train/plan.h"

/* "dapo", "grpo", .. */
extern const char *const policy_loss_names[POLICY_LOSSES];

/* ERROR_JOB, and *key, unless key is NULL, is the key that is wrong.  Other stages: true. */
bool reinforcement_check(const struct plan *plan, const char **key, struct error *err);

#endif
