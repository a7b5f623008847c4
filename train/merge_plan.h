/*
 * train/merge_plan.h - the plan for laying out the model of a merge (plan_merges): the
 * smallest possible batch, on one device.
 */
#ifndef TRAIN_MERGE_PLAN_H
#define TRAIN_MERGE_PLAN_H

#include "train/plan.h"

struct plan merge_plan(const struct plan *plan);

#endif
