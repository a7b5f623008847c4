/*
 * runner/generation/generation.h - trainspool-train --generate: completes prompts in this
 * process.
 */
#ifndef RUNNER_GENERATION_GENERATION_H
#define RUNNER_GENERATION_GENERATION_H

#include "runner/job/machine.h"
#include "runner/options/options.h"

/* Return the exit status; the error is in *err and has been reported. */
int generation_run(const struct options *options, const struct machine *machine,
                   struct error *err);

#endif
