/*
 * runner/attempt.h - one attempt at a job, in trainspool-train: takes or inherits the
 * job's lock, reads the text, trains, and writes how it ended into state.json before it
 * releases the lock.
 */
#ifndef RUNNER_ATTEMPT_H
#define RUNNER_ATTEMPT_H

#include <signal.h>

#include "runner/cluster/world.h"
#include "runner/job/machine.h"
#include "runner/options/options.h"

/* Train the job. A signal sets `stop` to its number: finish the step, save, leave. Return
 * the exit status; the error is in *err and has been reported. */
int attempt_run(const struct options *options, const struct machine *machine,
                const struct world *world, volatile sig_atomic_t *stop,
                struct error *err);

#endif
