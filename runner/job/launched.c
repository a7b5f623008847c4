/* runner/job/launched.c - the text and the device of a job of launched ranks. */
#include "config.h"

#include "runner/job/launched.h"

#include <stdio.h>
#include <stdlib.h>

#include "patcher/setting.h"
#include "runner/cluster/assembly.h"

char *launched_file(const struct job *job)
{
    struct text name;

    text_init(&name, 0);
    text_addf(&name, "%s/ranks.json", job->run_dir);
    return text_detach(&name, NULL);
}

bool launched_agree(const struct world *world, const struct text *text, struct error *err)
{
    const size_t wanted = machine_ranks(text->data, text->len);

    return wanted == 1 || wanted == (size_t)world->size ||
           error_set(
               err, ERROR_USAGE,
               "the job has ranks: %zu, but %s started %d: start as many, or remove "
               "ranks from the job",
               wanted, world->launcher, world->size);
}

bool launched_fit(const struct world *world, struct arena *arena, struct text *text,
                  struct error *err)
{
    char ranks[48], nodes[48];
    const char *set[] = { ranks, nodes, NULL };
    const char *data = text->data;
    size_t len = text->len;

    snprintf(ranks, sizeof(ranks), "trainspool.ranks=%d", world->size);
    snprintf(nodes, sizeof(nodes), "trainspool.nodes=%d", world->nodes);
    if (!setting_apply(set, arena, &data, &len, err))
        return false;
    if (data != text->data) {
        text_reset(text);
        text_add(text, data, len);
    }
    return true;
}

static bool choose_device(const struct world *world, const struct machine *machine,
                          enum device_kind kind, struct device *out, struct error *err)
{
    const struct probe *probe = &machine->probe;
    const size_t gpus = probe->count - 1;
    size_t own = gpus == 1 ? 0 : (size_t)world->local_rank;

    if (kind == DEVICE_CPU) {
        *out = probe->devices[0];
        return true;
    }
    if (gpus == 0)
        return error_set(err, ERROR_DEVICE,
                         "rank %d: this machine has no GPU that trainspool can use, and "
                         "rank 0 has one%s%s",
                         world->rank, *probe->note ? ": " : "", probe->note);
    if (own >= gpus)
        return error_set(
            err, ERROR_DEVICE,
            "rank %d: %d ranks on a machine with %zu GPUs; start one for each "
            "GPU",
            world->rank, world->local_size, gpus);
    *out = probe->devices[1 + own];
    out->peers = world->local_size;
    return true;
}

bool launched_name_device(const struct world *world, enum device_kind kind,
                          struct machine *machine, struct error *err)
{
    machine->named = true;
    return choose_device(world, machine, kind, &machine->device, err);
}

bool launched_machine(const struct world *world, const struct text *text,
                      struct machine *machine, struct error *err)
{
    struct device device;

    return machine_device(machine, text->data, text->len, &device, err) &&
           launched_name_device(world, device.kind, machine, err);
}

void launched_dismiss(const struct world *world, const struct job *job,
                      const volatile sig_atomic_t *stop)
{
    char *file = launched_file(job);

    assembly_dismiss(world, file, NULL, stop);
    free(file);
}
