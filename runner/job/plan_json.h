/* runner/job/plan_json.h - parts of a plan as JSON, shared by plan --json and
 * run.json. */
#ifndef RUNNER_JOB_PLAN_JSON_H
#define RUNNER_JOB_PLAN_JSON_H

#include "base/json.h"
#include "train/plan.h"

json_t *plan_json_precision(const struct plan *plan);
json_t *plan_json_batch(const struct plan *plan);
/* For stage distill; null for other stages. */
json_t *plan_json_distillation(const struct plan *plan);
/* For stage dpo; null for other stages. */
json_t *plan_json_preference(const struct plan *plan);
/* Names and whole numbers. */
json_t *plan_json_integers(const char *const names[], const int64_t values[],
                           size_t count);
/* The parts of an estimate, without the limit it is compared with. */
/* null for a job that trains; else what it measures: {"loss":..,"answers":..} */
json_t *plan_json_evaluation(const struct plan *plan);
json_t *plan_json_memory(const struct memory_use *use);

#endif
