/* runner/generation/generation.h - trainspool-train --generate: prompts completed, here and now. */
#ifndef RUNNER_GENERATION_GENERATION_H
#define RUNNER_GENERATION_GENERATION_H

#include <signal.h>

#include "runner/job/machine.h"
#include "runner/options/options.h"

/* The exit status; what went wrong is in *err and has been told. */
int generation_run(const struct options *options, const struct machine *machine,
                   const volatile sig_atomic_t *stop, struct error *err);

#endif
