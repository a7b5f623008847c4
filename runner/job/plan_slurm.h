/*
 * runner/job/plan_slurm.h - what a job asks of Slurm, and the script that sbatch would get
 * from `trainspool run`, as text and as JSON.
 */
#ifndef RUNNER_JOB_PLAN_SLURM_H
#define RUNNER_JOB_PLAN_SLURM_H

#include "base/json.h"
#include "base/text.h"
#include "runner/job/inspect.h"
#include "runner/options/options.h"

/* Return whether Slurm runs the job. */
bool plan_slurm_is_due(const struct plan *plan);
/* Append the lines of plan; nothing for a job that Slurm does not run. */
void plan_slurm_text(const struct inspection *inspection, const struct options *options,
                     struct text *out);
/* The same as an object; null. */
json_t *plan_slurm_json(const struct inspection *inspection,
                        const struct options *options);

#endif
