/*
 * runner/job/eta.h - how long a step of a job takes, by what was measured: the job's own
 * last run on this kind of device, or else a calibration of the device.  Never invented.
 */
#ifndef RUNNER_JOB_ETA_H
#define RUNNER_JOB_ETA_H

#include "runner/job/inspect.h"
#include "runner/job/steps.h"
#include "train/duration.h"

struct eta {
    struct duration step; /* seconds */
    char source[64]; /* "the last run of this job", "the calibration of 2026-11-20" */
};

/* False: *err tells what is missing and what would help. */
bool eta_find(const struct inspection *inspection, const struct model_config *config,
              const struct steps *steps, struct eta *out, struct error *err);

/* The seconds a step took by the lines of a metrics.jsonl, of which there are enough: at
 * least two logged steps.  The first, in which all warms up, is left out. */
bool eta_read(const char *metrics, size_t len, struct duration *out);

#endif
