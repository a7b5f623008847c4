/*
 * runner/job/eta.h - the time per step of a job, from measurements: the job's last run on
 * this kind of device, or else a calibration of the device. Never guessed.
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

/* Return false if the time is unknown; *err says what is missing and what would help. */
bool eta_find(const struct inspection *inspection, const struct model_config *config,
              const struct steps *steps, struct eta *out, struct error *err);

/* Compute the seconds per step from the lines of a metrics.jsonl with at least two logged
 * steps. The first step is left out because it includes warm-up. */
bool eta_read(const char *metrics, size_t len, struct duration *out);

#endif
