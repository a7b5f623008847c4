/*
 * runner/job/machine.h - the device to check a job for: the one that --device names, or
 * the one of this machine that the job requests.
 */
#ifndef RUNNER_JOB_MACHINE_H
#define RUNNER_JOB_MACHINE_H

#include "base/text.h"
#include "precision/probe.h"

struct machine {
    bool named; /* by --device; then use `device` */
    struct device device;
    struct probe probe; /* otherwise: the devices of this machine */
};

/* `requested` is the value of --device; NULL or "auto" probes the machine. */
bool machine_open(const char *requested, struct machine *machine, struct error *err);

/*
 * Find the device for a job's text: what `trainspool.device` or `use_cpu` requests; of
 * the several that `trainspool.ranks` takes, the one with the least memory free; a
 * requested GPU that this build has no code for, so that TS201 rejects it. Several
 * different devices become one with the minimum of each property, and `unlike` says so
 * (TS209).
 *
 * For target external, where the capabilities of this build do not matter: the device of
 * the table that trainspool.device names, or else the weakest of the GPUs here.
 *
 * ERROR_DEVICE if the machine has no such device, ERROR_USAGE if the table has none. The
 * text need not be a valid job.
 */
bool machine_device(const struct machine *machine, const char *data, size_t len,
                    struct device *out, struct error *err);
/* Return what a job's text requests, as probe_name_matches; of the GPUs that it names,
 * the first, which is rank 0's. The text need not be a valid job. malloc'ed. */
char *machine_requested(const char *data, size_t len);
/* Return the devices of a plan's ranks, as probe_select. ERROR_DEVICE if there are not
 * enough. */
bool machine_devices(const struct machine *machine, const char *requested, size_t ranks,
                     struct device out[DEVICE_RANKS_MAX], struct error *err);

#endif
