/*
 * runner/job/machine.h - the device a job is looked at for: the one --device names, or else
 * what the job asks for of what is in this machine.
 */
#ifndef RUNNER_JOB_MACHINE_H
#define RUNNER_JOB_MACHINE_H

#include "base/text.h"
#include "precision/probe.h"

struct machine {
    bool named; /* by --device; then `device` is it */
    struct device device;
    struct probe probe; /* else: what there is */
};

/* `wanted` is what --device says; NULL or "auto" asks the machine. */
bool machine_open(const char *wanted, struct machine *machine, struct error *err);

/*
 * The device for a job's text: what `trainspool.device` or `use_cpu` ask for; of the
 * several that `trainspool.ranks` takes the one with the least memory free; a GPU that
 * was asked for and that this build has no code for, so that TS201 refuses it.  Several
 * that are not alike make one with the least of each, `unlike` says so (TS209).
 *
 * For target external, where this build has no say: the card that trainspool.device names
 * in the words of the device table, or else the least of the GPUs here.
 *
 * ERROR_DEVICE when the machine has no such thing, ERROR_USAGE when the table has no such
 * card.  Any text will do, also one that is no job.
 */
bool machine_device(const struct machine *machine, const char *data, size_t len,
                    struct device *out, struct error *err);
/* What a job's text asks for, as probe_means; of the GPUs that it names the first, which
 * is rank 0's.  Any text will do.  malloc'ed. */
char *machine_wanted(const char *data, size_t len);
/* The devices of a plan's ranks, as probe_take.  ERROR_DEVICE where there are not as
 * many. */
bool machine_devices(const struct machine *machine, const char *wanted, size_t ranks,
                     struct device out[DEVICE_RANKS_MAX], struct error *err);

#endif
