/*
 * runner/sweep_array.h - the jobs of a sweep that Slurm runs are tasks of one array, though
 * each is followed by a process of its own.
 *
 * One of these processes, which holds SWEEP.run/arrays/lock, submits the array for all jobs
 * that are prepared: whose slurm.json names a submission without an array, and whose lease
 * and state are as the ranks need them.  The others find their tasks in the record of the
 * array.  If that process dies, another one takes the lock: it looks for an array whose
 * number is not known by its name, and submits only what is in no array.
 */
#ifndef RUNNER_SWEEP_ARRAY_H
#define RUNNER_SWEEP_ARRAY_H

#include "runner/cluster/slurm.h"
#include "runner/cluster/slurm_submission.h"
#include "runner/job/job.h"
#include "runner/options/options.h"

struct sweep_array;

/* Return the array that a job belongs to as one of a sweep; NULL: none made it. */
struct sweep_array *sweep_array_open(const struct job *job,
                                     const struct options *options);
void sweep_array_close(struct sweep_array *array); /* NULL is allowed */

/*
 * Look for the task of a submission, or submit.  Called again and again until it returns
 *   SLURM_YES   *submission has the array, the task and the number
 *   SLURM_NO    Slurm refused it, *err says why
 * SLURM_LATER: *err may say what it waits for; SLURM_UNSURE: Slurm does not answer.
 */
enum slurm_answer sweep_array_step(struct sweep_array *array,
                                   struct slurm_submission *submission,
                                   struct error *err);

#endif
