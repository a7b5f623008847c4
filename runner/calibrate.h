/*
 * runner/calibrate.h - trainspool-train --calibrate: the measurement that calibrations.h
 * starts and stores.
 */
#ifndef RUNNER_CALIBRATE_H
#define RUNNER_CALIBRATE_H

#include "runner/job/machine.h"
#include "runner/options/options.h"

/* Measure the requested device and print one object. Return the exit status; the error is
 * in *err and has been reported. */
int calibrate_print(const struct options *options, const struct machine *machine,
                    struct error *err);

#endif
