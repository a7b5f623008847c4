/*
 * train/evaluation_plan.h - the plan of a job that only evaluates (plan_only_evaluates):
 * the same model and data on one device, without anything that only training needs.
 */
#ifndef TRAIN_EVALUATION_PLAN_H
#define TRAIN_EVALUATION_PLAN_H

#include "train/plan.h"

struct plan evaluation_plan(const struct plan *plan);

#endif
