/* runner/job/plan_slurm.h - what a job asks of Slurm, as text and as JSON. */
#ifndef RUNNER_JOB_PLAN_SLURM_H
#define RUNNER_JOB_PLAN_SLURM_H

#include "base/json.h"
#include "base/text.h"
#include "runner/job/inspect.h"

/* Append the lines of plan; nothing for a job that Slurm does not run. */
void plan_slurm_text(const struct inspection *inspection, struct text *out);
/* The same as an object; null. */
json_t *plan_slurm_json(const struct inspection *inspection);

#endif
