/* runner/machine.c - asks the machine once, and then each job what it wants of it. */
#include "config.h"

#include "runner/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "patcher/document.h"

bool machine_open(const char *wanted, struct machine *machine, struct error *err)
{
    *machine = (struct machine) { 0 };
    if (wanted && strcasecmp(wanted, "auto") != 0) {
        machine->named = true;
        return device_find(wanted, &machine->device, err);
    }
    probe_devices(&machine->probe);
    return true;
}

static const char *scalar(const struct entry *entry)
{
    return entry && entry->value->kind == NODE_SCALAR && entry->value->text[0]
               ? entry->value->text
               : NULL;
}

/* What a text asks for. */
struct wish {
    const char *device;
    size_t ranks;
};

static struct wish read_wish(const struct document *document)
{
    struct wish wish = { "auto", 1 };
    const struct entry *block, *device = NULL, *ranks = NULL;
    const char *use_cpu;

    if (!document->root)
        return wish;
    block = document_find(document, "trainspool");
    if (block && block->value->kind == NODE_MAP) {
        device = node_find(block->value, "device");
        ranks = node_find(block->value, "ranks");
    }
    if (scalar(ranks) && atoi(scalar(ranks)) > 1)
        wish.ranks = (size_t)atoi(scalar(ranks));
    use_cpu = scalar(document_find(document, "use_cpu"));
    if (scalar(device))
        wish.device = scalar(device);
    else if (use_cpu && strcasecmp(use_cpu, "true") == 0)
        wish.device = "cpu";
    return wish;
}

static bool take_scarcest(const struct probe *probe, const struct wish *wish,
                          struct device *out, struct error *err)
{
    const struct device *taken[DEVICE_RANKS_MAX], *scarcest;
    const struct device *without = probe_without_code(probe, wish->device);
    char capability[16];
    size_t count;

    if (without && strcmp(wish->device, "auto") != 0) {
        *out = *without; /* which a rule refuses, by its name */
        return true;
    }
    count = probe_take(probe, wish->device, wish->ranks, taken, err);
    if (count == 0)
        return false;
    scarcest = taken[0];
    for (size_t i = 1; i < count; i++)
        if (taken[i]->available < scarcest->available)
            scarcest = taken[i];
    *out = *scarcest;
    out->peers = probe_peers(probe, scarcest);
    if (without) {
        device_capability_text(without, capability);
        snprintf(out->passed_over, sizeof(out->passed_over),
                 "%.70s, compute capability %s", without->name, capability);
    }
    return true;
}

bool machine_device(const struct machine *machine, const char *data, size_t len,
                    struct device *out, struct error *err)
{
    struct document document;
    struct arena *arena;
    struct wish wish;
    bool ok;

    if (machine->named) {
        *out = machine->device;
        return true;
    }
    arena = arena_new();
    document_read(data, len, arena, &document);
    wish = read_wish(&document);
    ok = take_scarcest(&machine->probe, &wish, out, err);
    arena_free(arena);
    return ok;
}

bool machine_devices(const struct machine *machine, const char *wanted, size_t ranks,
                     struct device out[DEVICE_RANKS_MAX], struct error *err)
{
    const struct device *taken[DEVICE_RANKS_MAX];
    size_t count = 0;

    if (machine->named)
        while (count < ranks && (machine->device.kind == DEVICE_CPU || count == 0))
            taken[count++] = &machine->device;
    else
        count = probe_take(&machine->probe, wanted, ranks, taken, err);
    if (count < ranks)
        return error_set(err, ERROR_DEVICE,
                         "ranks: %zu wants as many GPUs, and device: %s is %zu here",
                         ranks, machine->named ? machine->device.name : wanted, count);
    for (size_t i = 0; i < ranks; i++)
        out[i] = *taken[i];
    return true;
}
