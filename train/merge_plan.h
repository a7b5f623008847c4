/*
 * train/merge_plan.h - the plan by which a merge (plan_merges) lays its model out: the
 * smallest batch there is, on one device.
 */
#ifndef TRAIN_MERGE_PLAN_H
#define TRAIN_MERGE_PLAN_H

#include "train/plan.h"

struct plan merge_plan(const struct plan *plan);

#endif
