/* runner/job/room.c - compares the plan of a job with the devices of its ranks. */
#include "config.h"

#include "runner/job/room.h"

#include <stdio.h>

#include "precision/memory.h"

static bool wait_for(const struct device *device, uint64_t missing, struct error *err)
{
    char bytes[16], name[32] = "the cpu";

    memory_text(missing, bytes);
    if (device->kind == DEVICE_CUDA)
        snprintf(name, sizeof(name), "cuda:%d", device->ordinal);
    return error_set(err, ERROR_FAULT, "waits for %s on %s", bytes, name);
}

bool room_check(const struct machine *machine, const struct plan *plan, struct error *err)
{
    struct device devices[DEVICE_RANKS_MAX];
    const size_t ranks = plan_trains(plan) ? plan_local_ranks(plan) : 1;
    uint64_t need = plan->memory.total;

    if (plan->backend == RUN_SLURM)
        return true; /* Slurm chose the machine, and gave the job what it asked for */
    if (!machine_devices(machine, plan->device_wanted, ranks, devices, NULL))
        return true; /* the run says why */
    if (devices[0].kind == DEVICE_CPU)
        need *= ranks;
    for (size_t i = 0; i < ranks; i++)
        if (devices[i].available > 0 && need > devices[i].available)
            return wait_for(&devices[i], need - devices[i].available, err);
    return true;
}
