/* train/schedule.h - learning-rate schedules, as in transformers/optimization.py. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include "train/plan.h"

/* Return the factor of learning_rate for optimizer step `step` (from 0) of `total`.
 * Skipped steps do not count. */
double schedule_factor(const struct plan *plan, int64_t step, int64_t total);
/* Return the warm-up steps: a warmup_ratio above 0 overrides warmup_steps, as in
 * transformers 4; a warmup_steps below 1 is a share; rounded up. */
int64_t schedule_warmup(const struct plan *plan, int64_t total);
/* The sum of the weights of past steps, for schedule-free AdamW; zero before the first. */
struct schedule_average {
    int64_t steps;
    double most, sum;
};

/* Return the share of optimizer step `step` (from 0) in the average of the weights: the
 * square of the highest learning rate so far, divided by the sum of those of all steps. */
double schedule_average_share(struct schedule_average *average, const struct plan *plan,
                              int64_t step, int64_t total);
const char *schedule_name(enum schedule_kind kind);

#endif
