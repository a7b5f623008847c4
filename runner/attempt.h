/*
 * runner/attempt.h - one attempt at a job, in trainspool-train: takes or inherits its
 * lock, reads the text, trains, and writes how it ended into state.json before the lock
 * is let go.
 */
#ifndef RUNNER_ATTEMPT_H
#define RUNNER_ATTEMPT_H

#include <signal.h>

#include "runner/job/machine.h"
#include "runner/options/options.h"

/*
 * `stop` is set by a signal to its number: finish the step, save, leave.  Returns the
 * exit status; what went wrong is in *err and has been told.
 */
int attempt_run(const struct options *options, const struct machine *machine,
                volatile sig_atomic_t *stop, struct error *err);

#endif
