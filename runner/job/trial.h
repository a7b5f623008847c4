/* runner/job/trial.h - reads tokenizer and data as a run would, to report at which of them it
 * would stop. */
#ifndef RUNNER_JOB_TRIAL_H
#define RUNNER_JOB_TRIAL_H

#include "patcher/patcher.h"
#include "runner/options/selection.h"

/* Add an error if the run of a job that is otherwise fine would stop at its data.  Nothing
 * is added where model or data are not on this machine, or reading takes too long. */
void trial_add(const struct selection *selection, struct patch *patch);

#endif
