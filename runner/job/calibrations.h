/*
 * runner/job/calibrations.h - measured rates of devices, stored in the user's state
 * folder: $XDG_STATE_HOME/trainspool/calibrations.json, or below ~/.local/state.
 */
#ifndef RUNNER_JOB_CALIBRATIONS_H
#define RUNNER_JOB_CALIBRATIONS_H

#include "precision/calibration.h"
#include "precision/device.h"

/* Have trainspool-train measure a device of this machine ("cpu", "cuda:1"); takes a few
 * seconds. */
bool calibrations_measure(const char *device, struct calibration *out, struct error *err);

/* Store a calibration, replacing an older one of the same device, threads and version. A
 * file that is not a list of calibrations is replaced. */
bool calibrations_save(const struct calibration *calibration, struct error *err);

/* Find the calibration of the device by this version. Return false if there is none; *err
 * is set only if the file cannot be read. */
bool calibrations_find(const struct device *device, struct calibration *out,
                       struct error *err);

#endif
