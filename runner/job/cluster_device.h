/*
 * runner/job/cluster_device.h - the device to check a job for that Slurm runs: not this
 * machine's.
 */
#ifndef RUNNER_JOB_CLUSTER_DEVICE_H
#define RUNNER_JOB_CLUSTER_DEVICE_H

#include "runner/job/machine.h"

struct cluster_job {
    const struct machine *machine;
    const char *data; /* its text, which need not be a valid job */
    size_t len;
    const char *const *set; /* --set; or NULL */
};

/* Return whether the text is a job that Slurm runs. */
bool cluster_job_is_due(const struct cluster_job *job);

/*
 * Find its device, with all memory free, and say what names it.  In this order: --device,
 * TRAINSPOOL_DEVICE, trainspool.check_device, the models in trainspool.gres, those that
 * sinfo shows for the nodes that the job may get; without a GPU in gres, or for device:
 * cpu, the CPU.  The weakest of several models counts, and the smallest of several sizes.
 *
 * ERROR_DEVICE with the reason if it is not known; ERROR_USAGE for a name that is not in
 * the table; no error if gres cannot be read, which TS726 reports.
 */
bool cluster_device_find(const struct cluster_job *job, struct checked_device *out,
                         struct error *err);

#endif
