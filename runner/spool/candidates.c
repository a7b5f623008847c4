/* runner/spool/candidates.c - compares the devices that the nodes show to each other. */
#include "config.h"

#include "runner/spool/candidates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

enum { NODES_MOST = 256 };

static int capability_of(const struct device *device)
{
    return 10 * device->major + device->minor;
}

/* The GPU that a job would get, as far as that can be said of all jobs. */
static const struct device *first_gpu(const struct probe *probe)
{
    const struct device *best = NULL;

    for (size_t i = 1; i < probe->count; i++)
        if (probe->devices[i].runnable &&
            (!best || probe->devices[i].memory > best->memory))
            best = &probe->devices[i];
    return best;
}

static size_t count_gpus(const struct probe *probe, int capability)
{
    size_t count = 0;

    for (size_t i = 1; i < probe->count; i++)
        count +=
            probe->devices[i].runnable && capability_of(&probe->devices[i]) == capability;
    return count;
}

/* Return whether `a` has a device of the kind of this one, and at least its memory up to what
 * a driver reserves. */
static bool has_alike(const struct probe *a, const struct device *device)
{
    for (size_t i = 0; i < a->count; i++)
        if (a->devices[i].kind == device->kind &&
            a->devices[i].runnable == device->runnable &&
            capability_of(&a->devices[i]) == capability_of(device) &&
            a->devices[i].memory + a->devices[i].memory / 64 >= device->memory)
            return true;
    return false;
}

/* Return whether a check for `a` finds what one for `b` would. */
static bool covers(const struct probe *a, const struct probe *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (!has_alike(a, &b->devices[i]) ||
            count_gpus(a, capability_of(&b->devices[i])) <
                count_gpus(b, capability_of(&b->devices[i])))
            return false;
    return true;
}

static void add(struct candidates *candidates, const char *node,
                const struct machine *machine)
{
    struct candidate *candidate = &candidates->list[candidates->count];
    const struct device *gpu = first_gpu(&machine->probe);

    if (candidates->count == CANDIDATES_MAX)
        return;
    for (size_t i = 0; i < candidates->count; i++)
        if (covers(&candidates->list[i].machine.probe, &machine->probe))
            return;
    *candidate = (struct candidate) { .machine = *machine,
                                      .capability = gpu ? capability_of(gpu) : 0,
                                      .memory = gpu ? gpu->memory
                                                    : machine->probe.devices[0].memory };
    snprintf(candidate->node, sizeof(candidate->node), "%s", node);
    candidates->count++;
}

void candidates_make(struct candidates *candidates, const struct machine *own,
                     const struct nodes *nodes)
{
    struct node_devices devices[NODES_MOST];
    const size_t count = nodes_devices(nodes, devices, NODES_MOST);
    struct machine machine = *own;

    candidates_clear(candidates);
    candidates->list = memory_resize(NULL, CANDIDATES_MAX, sizeof(*candidates->list));
    add(candidates, nodes_name(nodes), own);
    for (size_t i = 0; i < count; i++) {
        machine.probe = *devices[i].probe;
        add(candidates, devices[i].node, &machine);
    }
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->list[i];

        candidate->gpus = count_gpus(&own->probe, candidate->capability);
        for (size_t j = 0; j < count; j++)
            candidate->gpus += count_gpus(devices[j].probe, candidate->capability);
    }
    candidates->version++;
}

void candidates_clear(struct candidates *candidates)
{
    free(candidates->list);
    candidates->list = NULL;
    candidates->count = 0;
}

/* Return the jobs per GPU that wait for those of a candidate. */
static double backlog(const struct candidate *candidate, const struct queue *queue)
{
    size_t jobs = 0;

    for (size_t i = queue->head; i < queue->head + queue->count; i++)
        jobs += queue->list[i].waiting.need.capability == candidate->capability;
    return candidate->gpus > 0 ? (double)jobs / (double)candidate->gpus : 0;
}

void candidates_order(const struct candidates *candidates, const struct queue *queue,
                      uint8_t order[CANDIDATES_MAX])
{
    double loads[CANDIDATES_MAX];

    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->list[i];
        size_t at = i;

        loads[i] = backlog(candidate, queue);
        /* a CPU trains what no GPU can */
        while (at > 0 &&
               ((candidate->capability > 0 &&
                 candidates->list[order[at - 1]].capability == 0) ||
                (candidate->capability > 0 && loads[i] < loads[order[at - 1]]))) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = (uint8_t)i;
    }
}

size_t candidates_largest(const struct candidates *candidates)
{
    size_t largest = 0;

    for (size_t i = 1; i < candidates->count; i++) {
        const struct candidate *one = &candidates->list[i];
        const struct candidate *best = &candidates->list[largest];

        if ((one->capability > 0) != (best->capability > 0) ? one->capability > 0
                                                            : one->memory > best->memory)
            largest = i;
    }
    return largest;
}

static bool fits(const struct node_devices *from, const struct placement_need *need)
{
    struct placement_device devices[PROBE_MAX];
    const struct placement placement = { .devices = devices,
                                         .device_count = from->probe->count };

    for (size_t i = 0; i < from->probe->count; i++)
        devices[i] = (struct placement_device) { .device = from->probe->devices[i],
                                                 .usable = i > 0 || from->cpu };
    return (from->cpu || strcmp(need->wanted, "cpu") != 0) &&
           placement_is_possible(&placement, need);
}

bool candidates_fit_elsewhere(const struct nodes *nodes,
                              const struct placement_need *need)
{
    struct node_devices devices[NODES_MOST];
    const size_t count = nodes_devices(nodes, devices, NODES_MOST);

    for (size_t i = 0; i < count; i++)
        if (fits(&devices[i], need))
            return true;
    return false;
}
