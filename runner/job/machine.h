/*
 * runner/job/machine.h - the device to check a job for: the one that --device names, or
 * the one of this machine that the job requests.
 */
#ifndef RUNNER_JOB_MACHINE_H
#define RUNNER_JOB_MACHINE_H

#include "base/text.h"
#include "precision/probe.h"

struct machine {
    bool named;         /* by --device or TRAINSPOOL_DEVICE; then use `device` */
    bool local;         /* the same, but as auto: the devices of this machine */
    const char *source; /* of the two that named it */
    const char *target; /* --target, which takes precedence over the job; or NULL */
    /* a spool: check jobs for all memory of a device; they wait until it is free */
    bool whole;
    struct cluster_nodes *cluster; /* of cluster_nodes.h; NULL: sinfo is always asked */
    struct device device;
    struct probe probe; /* otherwise: the devices of this machine */
};

/* `requested` is the value of --device; NULL or "auto" probes the machine. */
bool machine_open(const char *requested, struct machine *machine, struct error *err);
/* The same for check, patch and plan: without --device, TRAINSPOOL_DEVICE names the
 * device. */
bool machine_open_check(const char *requested, struct machine *machine,
                        struct error *err);

/* The device that a job is checked for, which may be in another machine. */
struct checked_device {
    struct device device;
    const char *source; /* what names it, such as "--device"; NULL: this machine has it */
    char *text;         /* `source`, if it is malloc'ed: checked_device_clear */
    bool elsewhere;     /* on other machines, where Slurm runs the job */
    /* nothing names it, and this machine has no GPU: it is its CPU */
    bool guessed;
};

void checked_device_clear(struct checked_device *checked);

/* Take the weakest of several devices, with the least memory of any queried device. */
void machine_weakest(const struct device *const taken[], size_t count,
                     struct device *out);

/*
 * Find the device to check a job for.  In this order: --device, TRAINSPOOL_DEVICE,
 * trainspool.check_device (or, for target external, trainspool.device), `repository` (the
 * name in .trainspool.toml, or ""), this machine as in machine_device.  "auto" is this
 * machine.
 */
bool machine_check_device(const struct machine *machine, const char *text,
                          const char *repository, struct checked_device *out,
                          struct error *err);

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
/* Return the number of processes that a job's text asks for; 1 by default. */
size_t machine_ranks(const char *data, size_t len);
/* Return the devices of a plan's ranks, as probe_select, with what is free on them.
 * ERROR_DEVICE if there are not enough. */
bool machine_devices(const struct machine *machine, const char *requested, size_t ranks,
                     struct device out[DEVICE_RANKS_MAX], struct error *err);

#endif
