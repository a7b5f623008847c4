/*
 * train/merge_plan.h - the plan for laying out the model of a merge (plan_merges): the
 * smallest possible batch, on one device.
 */
#ifndef TRAIN_MERGE_PLAN_H
#define TRAIN_MERGE_PLAN_H

#include "train/model/model_config.h"
#include "train/plan.h"

/* config: NULL until it is read, which requires such a plan. */
struct plan merge_plan(const struct plan *plan, const struct model_config *config);

#endif
