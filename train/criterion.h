/*
 * train/criterion.h - what makes a model the best: the plan's metric_for_best_model and
 * greater_is_better, and whether they go with what it evaluates.
 */
#ifndef TRAIN_CRITERION_H
#define TRAIN_CRITERION_H

#include "train/plan.h"

/* "loss" and "eval_loss" are one; METRIC_LOSS for a word that is no metric. */
enum metric_kind criterion_metric(const struct plan *plan);
/* "eval_loss" */
const char *criterion_name(const struct plan *plan);
/* best NaN: there is none yet; a metric that is NaN never is better. */
bool criterion_is_better(const struct plan *plan, double metric, double best);

/* ERROR_JOB where the metric is not taken, or early_stopping_steps counts evaluations
 * that there are none of; *key (or NULL) is the key that it is about. */
bool criterion_check(const struct plan *plan, const char **key, struct error *err);

#endif
