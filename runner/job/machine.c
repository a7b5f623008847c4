/* runner/job/machine.c - probes the machine once, then chooses the device of each job. */
#include "config.h"

#include "runner/job/machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/arena.h"
#include "base/size.h"
#include "patcher/profiles/trainer_view.h"
#include "precision/memory.h"

bool machine_open(const char *requested, struct machine *machine, struct error *err)
{
    *machine = (struct machine) { 0 };
    if (requested && strcasecmp(requested, "auto") != 0) {
        machine->named = true;
        return device_find(requested, &machine->device, err);
    }
    probe_devices(&machine->probe);
    return true;
}

bool machine_open_check(const char *requested, struct machine *machine, struct error *err)
{
    const char *variable = getenv("TRAINSPOOL_DEVICE");
    bool by_variable = !requested && variable && *variable;
    struct error unknown = { 0 };

    if (!machine_open(by_variable ? variable : requested, machine, &unknown))
        return by_variable
                   ? error_set(err, unknown.code, "TRAINSPOOL_DEVICE: %s", unknown.text)
                   : error_set(err, unknown.code, "%s", unknown.text);
    machine->local = !machine->named && (requested || by_variable);
    machine->source = by_variable ? "TRAINSPOOL_DEVICE" : requested ? "--device" : NULL;
    return true;
}

static const char *scalar(const struct entry *entry)
{
    return entry && entry->value->kind == NODE_SCALAR && entry->value->text[0]
               ? entry->value->text
               : NULL;
}

/* The device that a job's text requests. */
struct request {
    const char *device;
    const char *check_device; /* or NULL */
    size_t ranks;             /* of one machine */
    size_t all_ranks;         /* of all nodes */
    bool external;
};

static struct request read_request(const struct machine *machine,
                                   const struct document *document)
{
    struct request request = { .device = "auto", .ranks = 1, .all_ranks = 1 };
    const struct entry *block, *device = NULL, *ranks = NULL, *nodes = NULL;
    const char *use_cpu;

    if (!document->root)
        return request;
    block = document_find(document, "trainspool");
    if (block && block->value->kind == NODE_MAP) {
        device = node_find(block->value, "device");
        ranks = node_find(block->value, "ranks");
        nodes = node_find(block->value, "nodes");
    }
    if (block && block->value->kind == NODE_MAP)
        request.check_device = scalar(node_find(block->value, "check_device"));
    request.external =
        trainer_of_target(document, machine ? machine->target : NULL) != TRAINER_NATIVE;
    if (scalar(ranks) && atoi(scalar(ranks)) > 1)
        request.all_ranks = request.ranks = (size_t)atoi(scalar(ranks));
    if (scalar(nodes) && atoi(scalar(nodes)) > 1)
        request.ranks = size_divide_up(request.ranks, (size_t)atoi(scalar(nodes)));
    use_cpu = scalar(document_find(document, "use_cpu"));
    if (scalar(device))
        request.device = scalar(device);
    else if (use_cpu && strcasecmp(use_cpu, "true") == 0)
        request.device = "cpu";
    return request;
}

static int capability_of(const struct device *device)
{
    return 10 * device->major + device->minor;
}

/* GPUs of one name and size count as the same; a driver's reserve may differ by a
 * little. */
static bool is_alike(const struct device *a, const struct device *b)
{
    uint64_t more = a->memory > b->memory ? a->memory : b->memory;
    uint64_t less = a->memory > b->memory ? b->memory : a->memory;

    return capability_of(a) == capability_of(b) && strcmp(a->name, b->name) == 0 &&
           more - less <= more / 64;
}

static void report_difference(const struct device *other, struct device *out)
{
    char capability[16], memory[16];

    device_capability_text(other, capability);
    memory_text(other->memory, memory);
    snprintf(out->unlike, sizeof(out->unlike), "%.50s, compute capability %s, %s",
             other->name, capability, memory);
}

void machine_weakest(const struct device *const taken[], size_t count, struct device *out)
{
    const struct device *least = taken[0];

    for (size_t i = 1; i < count; i++)
        if (capability_of(taken[i]) < capability_of(least) ||
            (capability_of(taken[i]) == capability_of(least) &&
             taken[i]->available < least->available))
            least = taken[i];
    *out = *least;
    for (size_t i = 0; i < count; i++) {
        if (taken[i]->memory < out->memory)
            out->memory = taken[i]->memory;
        if (taken[i]->available > 0 &&
            (out->available == 0 || taken[i]->available < out->available))
            out->available = taken[i]->available;
        out->no_tensor_cores |= taken[i]->no_tensor_cores;
        if (!is_alike(taken[i], least))
            report_difference(taken[i], out);
    }
}

static bool take_ranks(const struct probe *probe, const struct request *request,
                       struct device *out, struct error *err)
{
    const struct device *taken[DEVICE_RANKS_MAX];
    const struct device *without = probe_without_code(probe, request->device);
    char capability[16];
    size_t count;

    if (without && strcmp(request->device, "auto") != 0) {
        *out = *without; /* which a rule rejects by its name */
        return true;
    }
    count = probe_select(probe, request->device, request->ranks, taken, err);
    if (count == 0)
        return false;
    machine_weakest(taken, count, out);
    out->peers = probe_peers(probe, taken[0]);
    if (without) {
        device_capability_text(without, capability);
        snprintf(out->passed_over, sizeof(out->passed_over),
                 "%.70s, compute capability %s", without->name, capability);
    }
    return true;
}

/* Return whether it selects one of this machine's devices, rather than naming a GPU
 * model. */
static bool selects_local(const char *requested)
{
    return strcmp(requested, "auto") == 0 || strcmp(requested, "cpu") == 0 ||
           strcmp(requested, "cuda") == 0 || probe_count_named(requested) > 0;
}

/* Describe the GPUs that another program would use: all of them, as torchrun does, even
 * those that this build has no code for. */
static bool take_for_external(const struct probe *probe, const struct request *request,
                              struct device *out, struct error *err)
{
    const struct device *taken[PROBE_MAX];
    size_t count = 0;

    if (!selects_local(request->device))
        return device_find(request->device, out, err);
    for (size_t i = 1; i < probe->count; i++)
        if (probe_name_matches(request->device, probe->devices[i].ordinal))
            taken[count++] = &probe->devices[i];
    if (count == 0)
        return take_ranks(probe, request, out, err);
    machine_weakest(taken, count, out);
    return true;
}

static bool take_here(const struct probe *probe, const struct request *request,
                      struct device *out, struct error *err)
{
    return (request->external ? take_for_external : take_ranks)(probe, request, out, err);
}

/* Describe a device as if no other program used it: a process that asks it for its memory
 * has a context. */
static void take_whole(struct device *device)
{
    const uint64_t own = device->kind == DEVICE_CUDA ? MEMORY_CUDA_CONTEXT : 0;

    if (device->here && device->memory > own && device->available < device->memory - own)
        device->available = device->memory - own;
}

bool machine_device(const struct machine *machine, const char *data, size_t len,
                    struct device *out, struct error *err)
{
    struct document document;
    struct arena *arena;
    struct request request;
    bool ok;

    if (machine->named) {
        *out = machine->device;
        ok = true;
    } else {
        arena = arena_new();
        document_read(data, len, arena, &document);
        request = read_request(machine, &document);
        ok = take_here(&machine->probe, &request, out, err);
        arena_free(arena);
    }
    if (ok && machine->whole)
        take_whole(out);
    return ok;
}

/* Choose between a name and this machine, which "auto" means. */
static bool take_checked(const struct machine *machine, const struct request *request,
                         const char *repository, struct checked_device *out,
                         struct error *err)
{
    bool model = request->external && !selects_local(request->device);
    const char *name = NULL;

    if (!machine->local && request->check_device) {
        name = request->check_device;
        out->source = "trainspool.check_device";
    } else if (!machine->local && !model && *repository) {
        name = repository;
        out->source = ".trainspool.toml";
    }
    if (name && strcasecmp(name, "auto") != 0)
        return device_find(name, &out->device, err);
    out->guessed = !name && !machine->local && !request->external &&
                   strcmp(request->device, "auto") == 0 && machine->probe.count == 1;
    out->source = model ? "trainspool.device" : NULL;
    return take_here(&machine->probe, request, &out->device, err);
}

bool machine_check_device(const struct machine *machine, const char *text,
                          const char *repository, struct checked_device *out,
                          struct error *err)
{
    struct arena *arena;
    struct document document;
    struct request request;
    bool ok;

    *out =
        (struct checked_device) { .device = machine->device, .source = machine->source };
    if (machine->named)
        return true;
    arena = arena_new();
    document_read(text, strlen(text), arena, &document);
    request = read_request(machine, &document);
    ok = take_checked(machine, &request, repository, out, err);
    arena_free(arena);
    return ok;
}

void checked_device_clear(struct checked_device *checked)
{
    free(checked->text);
    *checked = (struct checked_device) { .source = NULL };
}

size_t machine_ranks(const char *data, size_t len)
{
    struct arena *arena = arena_new();
    struct document document;
    size_t ranks;

    document_read(data, len, arena, &document);
    ranks = read_request(NULL, &document).all_ranks;
    arena_free(arena);
    return ranks;
}

char *machine_requested(const char *data, size_t len)
{
    struct arena *arena = arena_new();
    struct document document;
    const char *device;
    char *requested;

    document_read(data, len, arena, &document);
    device = read_request(NULL, &document).device;
    requested = memory_strdup(device);
    if (probe_count_named(device) > 0)
        requested[strcspn(requested, ",")] = '\0';
    arena_free(arena);
    return requested;
}

bool machine_devices(const struct machine *machine, const char *requested, size_t ranks,
                     struct device out[DEVICE_RANKS_MAX], struct error *err)
{
    const struct device *taken[DEVICE_RANKS_MAX];
    size_t count = 0;

    if (machine->named)
        while (count < ranks && (machine->device.kind == DEVICE_CPU || count == 0))
            taken[count++] = &machine->device;
    else
        count = probe_select(&machine->probe, requested, ranks, taken, err);
    if (count < ranks)
        return error_set(err, ERROR_DEVICE,
                         "ranks: %zu requires that many GPUs; device: %s selects %zu "
                         "here",
                         ranks, machine->named ? machine->device.name : requested, count);
    for (size_t i = 0; i < ranks; i++)
        out[i] = *taken[i];
    return true;
}
