/*
 * runner/handover.h - a job that Slurm runs, as a process of this machine: it holds the
 * lock of the job, submits it, follows it, and ends as its trainer ended.
 *
 * Files in NAME.run, in addition to those of every job:
 *   slurm.json     the submission, on disk before sbatch is called: another process finds
 *                  by its name what became of it
 *   lease          the name of the submission that may work; each start of rank 0 replaces
 *                  the file, so that ranks of an earlier start, on a node that Slurm has
 *                  lost, notice and end
 *   cluster.json   the state that rank 0 writes; this process, which holds the lock, copies
 *                  it to state.json
 *   slurm.exit     the name of the submission and the exit status of rank 0
 *   slurm.sh, slurm.log   the batch script and its output
 */
#ifndef RUNNER_HANDOVER_H
#define RUNNER_HANDOVER_H

#include <signal.h>

#include "runner/job/job.h"
#include "runner/options/options.h"
#include "train/plan.h"

/* Return whether Slurm is to run the job of the options, and this process is not one of
 * its ranks. */
bool handover_is_due(const struct options *options);

/*
 * Submit the job or find its submission, and follow it.  Return the exit status of its
 * trainer, or one that says what happened instead:
 *   EXIT_AGAIN      Slurm or a node failed, or *stop was set: the job continues in Slurm, or
 *                   continues from its checkpoint with the next submission
 */
int handover_run(const struct options *options, const volatile sig_atomic_t *stop,
                 struct error *err);

#endif
