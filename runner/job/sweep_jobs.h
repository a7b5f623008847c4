/*
 * runner/job/sweep_jobs.h - the jobs of a sweep, next to the job that has it, and their
 * summary: NAME.run/sweep.json and sweep.md.
 *
 * sweep.json lists the jobs before the first one is made: a watch that dies meanwhile makes
 * the others later, and none twice.
 */
#ifndef RUNNER_JOB_SWEEP_JOBS_H
#define RUNNER_JOB_SWEEP_JOBS_H

#include "runner/job/job.h"
#include "train/plan.h"

/* Make the jobs that are not made yet, on disk when this returns, and note in NAME.run/waits
 * that the sweep waits for them. Jobs have the owner and the mode of the sweep's file. The
 * number of jobs goes into the record. ERROR_JOB: another file has the name of a job. */
bool sweep_jobs_make(const struct job *sweep, const struct text *text,
                     const struct plan *plan, struct job_record *record,
                     struct error *err);

/* All jobs have ended: write the summary, and make the sweep done, or failed if one of them
 * is not done. The caller holds the sweep's lock. */
bool sweep_jobs_finish(const struct job *sweep, struct job_record *record,
                       struct error *err);

#endif
