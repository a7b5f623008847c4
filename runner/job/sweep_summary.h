/* runner/job/sweep_summary.h - NAME.run/sweep.json for programs, and sweep.md for people:
 * the jobs of a sweep with their values, and what came of them. */
#ifndef RUNNER_JOB_SWEEP_SUMMARY_H
#define RUNNER_JOB_SWEEP_SUMMARY_H

#include "base/json.h"
#include "patcher/sweep.h"
#include "runner/job/job.h"
#include "train/plan.h"

/* Return sweep.json, or NULL.  The caller json_decrefs it. */
json_t *sweep_summary_read(const struct job *sweep);
/* List the jobs, on disk when this returns. The plan says by which metric they are
 * compared. */
bool sweep_summary_begin(const struct job *job, const struct sweep *sweep,
                         const struct plan *plan, struct error *err);

struct sweep_result {
    size_t count, done; /* jobs */
    double best;        /* the metric of the best job; NaN: none */
    char reason[512];   /* for people */
};

/* Add the results of the jobs to sweep.json, and write sweep.md. */
bool sweep_summary_finish(const struct job *sweep, struct sweep_result *out,
                          struct error *err);

#endif
