/* runner/spool/placement_names.c - what a placement says, and the names of its devices. */
#include "config.h"

#include "runner/spool/placement.h"

#include <stdio.h>
#include <string.h>

#include "precision/memory.h"

static bool is_on_cpu(const struct placement_need *need)
{
    return strcmp(need->wanted, "cpu") == 0;
}

static device_set bit(size_t device)
{
    return (device_set)1 << device;
}

static void name_device(const struct placement *placement, size_t i, char out[32])
{
    if (i == 0)
        snprintf(out, 32, "the cpu");
    else
        snprintf(out, 32, "cuda:%d", placement->devices[i].device.ordinal);
}

void placement_describe(const struct placement *placement,
                        const struct placement_need *need,
                        const struct placement_answer *answer, char out[160])
{
    char device[32], bytes[16];

    name_device(placement, answer->device, device);
    memory_text(answer->bytes, bytes);
    out[0] = 0;
    switch (answer->verdict) {
    case PLACEMENT_STARTS:
        break;
    case PLACEMENT_MEMORY:
        snprintf(out, 160, "waits for %s on %s", bytes, device);
        break;
    case PLACEMENT_DEVICES:
        if (!need->wanted[0])
            snprintf(out, 160, "waits for the jobs before it");
        else if (placement_ranks(need) > 1 && !is_on_cpu(need))
            snprintf(out, 160, "waits for %zu GPUs", placement_ranks(need));
        else
            snprintf(out, 160, "waits for %s",
                     is_on_cpu(need)                        ? "the cpu"
                     : probe_count_named(need->wanted) == 1 ? need->wanted
                                                            : "a GPU");
        break;
    case PLACEMENT_CORES:
        snprintf(out, 160, "waits for %d cores", placement_cores(placement, need));
        break;
    case PLACEMENT_RESERVED:
        snprintf(out, 160, "waits for a job before it that needs the same device");
        break;
    case PLACEMENT_SLOTS:
        snprintf(out, 160, "waits for a slot");
        break;
    case PLACEMENT_ILL:
        snprintf(out, 160, "waits for a device that does not work now");
        break;
    case PLACEMENT_ABSENT:
        snprintf(out, 160, "waits for a device that this watch does not have");
        break;
    case PLACEMENT_NEVER:
        snprintf(out, 160, "%s has %s, which is too little", device, bytes);
        break;
    case PLACEMENT_RUNNING:
    case PLACEMENT_HOURS:
        break;
    }
}

void placement_name(const struct placement *placement, device_set devices, char out[64])
{
    const char *before = "cuda:";
    size_t len = 0;

    out[0] = 0;
    if (devices & bit(0))
        snprintf(out, 64, "cpu");
    for (size_t i = 1; i < placement->device_count; i++)
        if (devices & bit(i) && len < 56) {
            len += (size_t)snprintf(out + len, 64 - len, "%s%d", before,
                                    placement->devices[i].device.ordinal);
            before = ",";
        }
}

device_set placement_read(const struct placement *placement, const char *name)
{
    device_set set = strcmp(name, "cpu") == 0 ? bit(0) : 0;

    for (size_t i = 1; i < placement->device_count; i++)
        if (probe_count_named(name) > 0 &&
            probe_name_matches(name, placement->devices[i].device.ordinal))
            set |= bit(i);
    return set;
}
