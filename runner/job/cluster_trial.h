/* runner/job/cluster_trial.h - asks Slurm whether it would take a job, without submitting
 * it. */
#ifndef RUNNER_JOB_CLUSTER_TRIAL_H
#define RUNNER_JOB_CLUSTER_TRIAL_H

#include "patcher/patcher.h"
#include "runner/options/options.h"
#include "runner/options/selection.h"

/* Ask about a script.  False with the words of sbatch: Slurm refuses it.  It is not known
 * without sbatch, or without an answer within some seconds; then *silent is set, and while
 * it is set nothing is asked. */
bool cluster_trial_ask(const struct text *script, bool *silent, struct error *err);

/* Add an error (TS729) if Slurm would refuse a job that is otherwise fine.  selection: NULL
 * selects all rules. */
void cluster_trial_add(const struct options *options, const struct selection *selection,
                       bool *silent, struct patch *patch);

#endif
