/* runner/job/trial.h - reads tokenizer and data as a run would, to report at which of them it
 * would stop. */
#ifndef RUNNER_JOB_TRIAL_H
#define RUNNER_JOB_TRIAL_H

#include "patcher/patcher.h"
#include "runner/job/steps.h"
#include "runner/options/selection.h"

/* A check of more jobs in one call reads no data: starting a process for each would take
 * most of its time. */
enum { TRIAL_MAX_JOBS = 32 };

/* Return whether trial_add would read the data of a job: it is otherwise fine, and its
 * model and data are on this machine. */
bool trial_applies(const struct selection *selection, const struct patch *patch);
/* Add an error if the run of such a job would stop at its data.  Nothing is added where
 * reading takes too long: *steps is then empty. */
void trial_add(const struct selection *selection, struct patch *patch,
               struct steps *steps);
/* Add the error that trial_add would add, for a caller that has read the data: why is the
 * ERROR_DATA of steps_query.  Nothing is added where trial_applies returns false. */
void trial_report(const struct selection *selection, const struct error *why,
                  struct patch *patch);

#endif
