/* runner/count.h - reads and tokenises a job's data only to count its steps (--steps). */
#ifndef RUNNER_COUNT_H
#define RUNNER_COUNT_H

#include "runner/machine.h"
#include "runner/options.h"

/* Prints the line of steps.h; the exit status. */
int count_steps(const struct options *options, const struct machine *machine);

#endif
