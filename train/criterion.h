/*
 * train/criterion.h - the criterion for the best model: metric_for_best_model and
 * greater_is_better, and whether the run measures that metric.
 */
#ifndef TRAIN_CRITERION_H
#define TRAIN_CRITERION_H

#include "train/plan.h"

/* "loss" and "eval_loss" are the same; an unknown name yields METRIC_LOSS. */
enum metric_kind criterion_metric(const struct plan *plan);
/* "eval_loss" */
const char *criterion_name(const struct plan *plan);
/* best NaN: none yet.  A NaN metric is never better. */
bool criterion_is_better(const struct plan *plan, double metric, double best);

/* Fail with ERROR_JOB if the run does not measure the metric, or if a key needs
 * evaluations and there are none.  *key (key may be NULL) is the key at fault. */
bool criterion_check(const struct plan *plan, const char **key, struct error *err);

#endif
