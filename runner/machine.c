/* runner/machine.c - asks the machine once, and then each job what it wants of it. */
#include "config.h"

#include "runner/machine.h"

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

static const char *wanted_device(const struct document *document)
{
    const struct entry *block, *device = NULL;
    const char *use_cpu;

    if (!document->root)
        return "auto";
    block = document_find(document, "trainspool");
    if (block && block->value->kind == NODE_MAP)
        device = node_find(block->value, "device");
    if (scalar(device))
        return scalar(device);
    use_cpu = scalar(document_find(document, "use_cpu"));
    return use_cpu && strcasecmp(use_cpu, "true") == 0 ? "cpu" : "auto";
}

const struct device *machine_device(const struct machine *machine, const char *data,
                                    size_t len, struct error *err)
{
    struct document document;
    struct arena *arena;
    const struct device *device;

    if (machine->named)
        return &machine->device;
    arena = arena_new();
    document_read(data, len, arena, &document);
    device = probe_pick(&machine->probe, wanted_device(&document), err);
    arena_free(arena);
    return device;
}
