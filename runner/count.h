/* runner/count.h - reads and tokenises a job's data only to count its steps (--steps). */
#ifndef RUNNER_COUNT_H
#define RUNNER_COUNT_H

#include "runner/job/machine.h"
#include "runner/options/options.h"

/* Prints the line of steps.h; the exit status. */
int count_steps(const struct options *options, const struct machine *machine);

#endif
