/* runner/count_steps.h - reads and tokenizes a job's data only to count its steps
 * (--steps). */
#ifndef RUNNER_COUNT_STEPS_H
#define RUNNER_COUNT_STEPS_H

#include "runner/job/machine.h"
#include "runner/options/options.h"

/* Print the line of steps.h and return the exit status. */
int count_steps(const struct options *options, const struct machine *machine);

#endif
