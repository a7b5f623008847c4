/* runner/job/submitted.h - a job that waits in Slurm's queue, as its state shows it. */
#ifndef RUNNER_JOB_SUBMITTED_H
#define RUNNER_JOB_SUBMITTED_H

#include "runner/job/job.h"

/* `wanted` of a job that Slurm runs. */
#define SUBMITTED_WANTED "slurm"

/* Return whether a process has the job, and its ranks have not begun: it is being submitted,
 * or waits in Slurm's queue. */
bool submitted_waits(const struct job *job);
/* Return whether a submission of the job is to be followed, or to be ended: Slurm may have it,
 * whatever keeps the job itself from starting. */
bool submitted_is_left(const struct job *job);
/* Ask that process to take it back, and to leave the job ready. False, without an error: it
 * was asked before. */
bool submitted_withdraw(const struct job *job, uid_t user, struct error *err);

#endif
