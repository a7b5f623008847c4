/* runner/calibrate.h - trainspool-train --calibrate: what calibrations.h starts and
 * keeps. */
#ifndef RUNNER_CALIBRATE_H
#define RUNNER_CALIBRATE_H

#include "runner/job/machine.h"
#include "runner/options/options.h"

/* Measures the device asked for and prints one object; the exit status.  What went wrong
 * is in *err and has been told. */
int calibrate_print(const struct options *options, const struct machine *machine,
                    struct error *err);

#endif
