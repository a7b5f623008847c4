/* train/schedule.h - learning-rate schedules, as transformers/optimization.py has
 * them. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "train/plan.h"

/* Factor of learning_rate for optimizer step `step` (from 0) of `total`.  Steps that were
 * skipped do not count. */
double schedule_factor(const struct plan *plan, int64_t step, int64_t total);
/* Warm-up steps: warmup_ratio wins where above 0, as in transformers 4; a warmup_steps
 * below 1 is a share; rounded up. */
int64_t schedule_warmup(const struct plan *plan, int64_t total);
const char *schedule_name(enum schedule_kind kind);

#endif
