/* precision/probe.c - detect the devices of this machine. */
#include "config.h"

#include "precision/probe.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "base/spawn.h"
#include "precision/cgroup.h"

#define HEADER     "trainspool-probe 1"
#define TIMEOUT_MS 30000 /* a cold driver takes seconds to start */
#define MEASURE_MS 4000  /* one that runs answers in milliseconds */

/* Read a small file of /proc or /sys; false if it cannot be read. */
static bool read_small(const char *name, struct text *out)
{
    FILE *file = fopen(name, "re");
    char buffer[4096];
    size_t len;

    text_reset(out);
    if (!file)
        return false;
    len = fread(buffer, 1, sizeof(buffer), file);
    fclose(file);
    return text_add(out, buffer, len) && len > 0;
}

/* Return a row of /proc/meminfo in bytes; 0 if absent. */
static uint64_t meminfo(const char *text, const char *key)
{
    const char *row = strstr(text, key);
    uint64_t kib = 0;

    if (row)
        sscanf(row + strlen(key), ": %" SCNu64, &kib);
    return kib << 10;
}

/* Apply what the control groups of this process allow. */
static void limit_by_groups(struct device *out)
{
    struct cgroup_limits limits;

    cgroup_read("", &limits);
    if (limits.cores > 0 && (size_t)out->threads > limits.cores)
        out->threads = (int)limits.cores;
    if (out->memory > limits.memory)
        out->memory = limits.memory;
    if (out->available > limits.available)
        out->available = limits.available;
}

static void cpu_name(struct device *out)
{
    struct text text;
    const char *row;

    snprintf(out->name, sizeof(out->name), "cpu");
    text_init(&text, 0);
    if (read_small("/proc/cpuinfo", &text) && (row = strstr(text.data, "model name")) &&
        (row = strchr(row, ':'))) {
        size_t len = strcspn(row + 2, "\n");

        snprintf(out->name, sizeof(out->name), "%.*s", (int)len, row + 2);
    }
    text_clear(&text);
}

void probe_cpu_memory(struct device *out)
{
    struct text text;

    text_init(&text, 0);
    if (read_small("/proc/meminfo", &text)) {
        out->memory = meminfo(text.data, "MemTotal");
        out->available = meminfo(text.data, "MemAvailable");
    }
    text_clear(&text);
    limit_by_groups(out);
}

void probe_cpu(struct device *out)
{
    cpu_set_t set;

    *out = (struct device) {
        .kind = DEVICE_CPU, .ordinal = -1, .here = true, .runnable = true
    };
    cpu_name(out);
    out->threads = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
    probe_cpu_memory(out);
}

static void write_cuda(const struct device *device, struct text *out)
{
    text_addf(out, "cuda\t%d\t%s\t%d.%d\t%" PRIu64 "\t%" PRIu64 "\t%d", device->ordinal,
              device->name, device->major, device->minor, device->memory,
              device->available, device->runnable);
    if (device->ill[0] || device->context)
        text_addf(out, "\t%s", device->ill);
    if (device->context)
        text_addf(out, "\t%" PRIu64 "\t%s", device->context, device->bus);
    text_addc(out, '\n');
}

void probe_write(const struct probe *probe, struct text *out)
{
    text_adds(out, HEADER "\n");
    for (size_t i = 0; i < probe->count; i++) {
        const struct device *device = &probe->devices[i];

        if (device->kind == DEVICE_CPU)
            text_addf(out, "cpu\t%s\t%d\t%" PRIu64 "\t%" PRIu64 "\n", device->name,
                      device->threads, device->memory, device->available);
        else
            write_cuda(device, out);
    }
    if (*probe->note)
        text_addf(out, "note\t%s\n", probe->note);
}

/* Split a line at tabs in place; return the number of fields. */
static size_t split(char *line, char *fields[], size_t room)
{
    size_t count = 0;

    for (char *field = line; field && count < room; count++) {
        char *tab = strchr(field, '\t');

        fields[count] = field;
        if (tab)
            *tab++ = '\0';
        field = tab;
    }
    return count;
}

static bool read_bytes(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return *text != '\0' && *text != '-' && *end == '\0';
}

static bool read_cpu(char *fields[], struct device *out)
{
    *out = (struct device) {
        .kind = DEVICE_CPU, .ordinal = -1, .here = true, .runnable = true
    };
    snprintf(out->name, sizeof(out->name), "%s", fields[1]);
    out->threads = atoi(fields[2]);
    return out->threads > 0 && read_bytes(fields[3], &out->memory) &&
           read_bytes(fields[4], &out->available);
}

static bool read_cuda(char *fields[], size_t count, struct device *out)
{
    int used = 0;

    *out =
        (struct device) { .kind = DEVICE_CUDA, .ordinal = atoi(fields[1]), .here = true };
    snprintf(out->name, sizeof(out->name), "%s", fields[2]);
    out->runnable = strcmp(fields[6], "1") == 0;
    snprintf(out->ill, sizeof(out->ill), "%s", count > 7 ? fields[7] : "");
    if (sscanf(fields[3], "%d.%d%n", &out->major, &out->minor, &used) != 2 ||
        fields[3][used] != '\0' || out->ordinal < 0)
        return false;
    device_recognize(out);
    snprintf(out->bus, sizeof(out->bus), "%s", count > 9 ? fields[9] : "");
    return (count <= 9 || read_bytes(fields[8], &out->context)) &&
           read_bytes(fields[4], &out->memory) && read_bytes(fields[5], &out->available);
}

static bool read_line(char *line, struct probe *out)
{
    char *fields[10];
    size_t count = split(line, fields, TS_COUNT(fields));

    if (count == 2 && strcmp(fields[0], "note") == 0) {
        snprintf(out->note, sizeof(out->note), "%s", fields[1]);
        return true;
    }
    if (out->count == PROBE_MAX)
        return true; /* more devices than the table holds */
    if (count == 5 && strcmp(fields[0], "cpu") == 0)
        return read_cpu(fields, &out->devices[out->count++]);
    if ((count == 7 || count == 8 || count == 10) && strcmp(fields[0], "cuda") == 0)
        return read_cuda(fields, count, &out->devices[out->count++]);
    return false;
}

bool probe_read(const char *text, struct probe *out, struct error *err)
{
    char *copy = memory_strdup(text), *line = copy, *next;
    bool ok = true, first = true;

    *out = (struct probe) { 0 };
    for (; ok && *line != '\0'; line = next) {
        next = line + strcspn(line, "\n");
        if (*next == '\n')
            *next++ = '\0';
        ok = first ? strcmp(line, HEADER) == 0 : read_line(line, out);
        if (!ok)
            error_set(err, ERROR_SYSTEM,
                      "unexpected probe line '%.80s'; trainspool and trainspool-train "
                      "must be the same version",
                      line);
        first = false;
    }
    free(copy);
    if (ok && (out->count == 0 || out->devices[0].kind != DEVICE_CPU))
        return error_set(err, ERROR_SYSTEM, "the probe found no CPU");
    return ok;
}

void probe_devices(struct probe *out)
{
    char *program = spawn_sibling("trainspool-train");
    char *argv[] = { program, (char *)"--probe", NULL };
    struct spawn_result result;
    struct error err = { 0 };
    struct text text;
    bool ok;

    text_init(&text, (size_t)1 << 16);
    ok = spawn_capture(argv, TIMEOUT_MS, &text, NULL, &result, &err);
    if (ok && result.timed_out)
        ok = error_set(&err, ERROR_DEVICE,
                       "trainspool-train --probe did not answer in %d s",
                       TIMEOUT_MS / 1000);
    else if (ok && result.status != 0)
        ok = error_set(&err, ERROR_DEVICE,
                       "trainspool-train --probe ended with status %d", result.status);
    ok = ok && probe_read(text.data, out, &err);
    if (!ok) {
        *out = (struct probe) { .count = 1 };
        probe_cpu(&out->devices[0]);
        snprintf(out->note, sizeof(out->note), "%.255s", err.text);
    }
    text_clear(&text);
    free(program);
}

/* ---- Without a context ---- */

size_t probe_read_buses(const char *list, struct device *out, size_t room)
{
    size_t count = 0;
    int used;

    for (; count < room; list += used + (list[used] == ',')) {
        struct device *device = &out[count];

        *device = (struct device) { .kind = DEVICE_CUDA };
        used = 0;
        if (sscanf(list, "%d/%23[0-9a-fA-F:.]%n", &device->ordinal, device->bus, &used) !=
                2 ||
            used == 0 || (list[used] && list[used] != ','))
            break;
        count++;
    }
    return *list ? 0 : count;
}

void probe_write_free(const struct device *list, size_t count, struct text *out)
{
    for (size_t i = 0; i < count; i++)
        text_addf(out, "free\t%d\t%" PRIu64 "%s%s\n", list[i].ordinal, list[i].available,
                  list[i].ill[0] ? "\t" : "", list[i].ill);
}

/* Return false if the context of a GPU is not known. */
static bool list_buses(const struct probe *known, struct text *out)
{
    for (size_t i = 1; i < known->count; i++) {
        const struct device *device = &known->devices[i];

        if (!device->context || !device->bus[0])
            return false;
        text_addf(out, "%s%d/%s", i > 1 ? "," : "", device->ordinal, device->bus);
    }
    return known->count > 1;
}

/* The lines have the order of the list. */
static bool read_free(char *line, struct device *device)
{
    char *fields[4];
    size_t count = split(line, fields, TS_COUNT(fields));
    uint64_t bytes;

    if (count < 3 || strcmp(fields[0], "free") != 0 ||
        atoi(fields[1]) != device->ordinal || !read_bytes(fields[2], &bytes))
        return false;
    device->available = bytes > device->context ? bytes - device->context : 0;
    snprintf(device->ill, sizeof(device->ill), "%s", count > 3 ? fields[3] : "");
    return true;
}

static bool read_measured(char *text, struct probe *out)
{
    size_t i = 1;

    for (char *line; i < out->count && (line = strsep(&text, "\n")); i++)
        if (!read_free(line, &out->devices[i]))
            return false;
    return i == out->count;
}

bool probe_measure(const struct probe *known, struct probe *out)
{
    char *program = spawn_sibling("trainspool-train");
    struct spawn_result result;
    struct text list, text;
    bool ok;

    *out = *known;
    out->note[0] = 0;
    text_init(&list, 0);
    text_init(&text, (size_t)1 << 16);
    ok = list_buses(known, &list);
    if (ok) {
        char *argv[] = { program, (char *)"--measure", list.data, NULL };

        ok = spawn_capture(argv, MEASURE_MS, &text, NULL, &result, NULL) &&
             !result.timed_out && result.status == 0 && text.len > 0 &&
             read_measured(text.data, out);
    }
    text_clear(&text);
    text_clear(&list);
    free(program);
    return ok;
}

static bool report_no_device(const struct probe *probe, const char *wanted,
                             struct error *err)
{
    char names[300] = "";

    for (size_t i = 0; i < probe->count; i++) {
        const struct device *device = &probe->devices[i];
        size_t len = strlen(names);

        if (device->kind == DEVICE_CPU)
            snprintf(names + len, sizeof(names) - len, "cpu");
        else
            snprintf(names + len, sizeof(names) - len, ", cuda:%d (%s, %d.%d%s)",
                     device->ordinal, device->name, device->major, device->minor,
                     device->runnable ? "" : ", this build has no code for it");
    }
    return error_set(err, ERROR_DEVICE,
                     "cannot use device '%s'; this machine has: %s%s%s", wanted, names,
                     *probe->note ? "; " : "", probe->note);
}

static bool is_alike(const struct device *a, const struct device *b)
{
    return a->kind == b->kind && a->major == b->major && a->minor == b->minor;
}

/* Parse the ordinals of "cuda:0,1"; return 0 for any other form. */
static size_t read_ordinals(const char *wanted, int out[DEVICE_RANKS_MAX])
{
    const char *at = wanted;
    size_t count = 0;

    if (strncmp(at, "cuda:", 5) != 0)
        return 0;
    for (at += 5; count < DEVICE_RANKS_MAX; at++) {
        size_t digits = strspn(at, "0123456789");

        if (digits == 0 || digits > 4)
            return 0;
        out[count++] = (int)strtol(at, NULL, 10);
        at += digits;
        if (*at != ',')
            return *at == '\0' ? count : 0;
    }
    return 0;
}

size_t probe_count_named(const char *wanted)
{
    int ordinals[DEVICE_RANKS_MAX];

    return read_ordinals(wanted, ordinals);
}

bool probe_name_matches(const char *wanted, int ordinal)
{
    int ordinals[DEVICE_RANKS_MAX];
    size_t count = read_ordinals(wanted, ordinals);

    for (size_t i = 0; i < count; i++)
        if (ordinals[i] == ordinal)
            return true;
    return count == 0 && (strcmp(wanted, "auto") == 0 || strcmp(wanted, "cuda") == 0);
}

static const struct device *find_ordinal(const struct probe *probe, int ordinal)
{
    for (size_t i = 1; i < probe->count; i++)
        if (probe->devices[i].ordinal == ordinal && probe->devices[i].runnable)
            return &probe->devices[i];
    return NULL;
}

static size_t take_named(const struct probe *probe, const char *wanted,
                         const struct device *out[], struct error *err)
{
    int ordinals[DEVICE_RANKS_MAX];
    size_t count = read_ordinals(wanted, ordinals);

    for (size_t i = 0; i < count; i++) {
        out[i] = find_ordinal(probe, ordinals[i]);
        if (!out[i]) {
            report_no_device(probe, wanted, err);
            return 0;
        }
        for (size_t j = 0; j < i; j++)
            if (out[j] == out[i] || !is_alike(out[j], out[i])) {
                error_set(err, ERROR_JOB,
                          "device: %s: GPUs that train together must be distinct and "
                          "have the same compute capability",
                          wanted);
                return 0;
            }
    }
    return count;
}

/* Return the device not taken yet with the most free memory that is like the first one;
 * NULL: none. */
static const struct device *next_best(const struct probe *probe,
                                      const struct device *const taken[], size_t count)
{
    const struct device *best = NULL;

    for (size_t i = 1; i < probe->count; i++) {
        const struct device *device = &probe->devices[i];
        bool fits = device->runnable && (count == 0 || is_alike(device, taken[0]));

        for (size_t j = 0; j < count; j++)
            fits = fits && taken[j] != device;
        if (fits && (!best || device->available > best->available))
            best = device;
    }
    return best;
}

static size_t take_best(const struct probe *probe, size_t ranks,
                        const struct device *out[])
{
    size_t count = 0;

    while (count < ranks && (out[count] = next_best(probe, out, count)))
        count++;
    return count;
}

size_t probe_select(const struct probe *probe, const char *wanted, size_t ranks,
                    const struct device *out[DEVICE_RANKS_MAX], struct error *err)
{
    bool automatic = strcmp(wanted, "auto") == 0;
    size_t count;

    ranks = ranks < 1 ? 1 : ranks > DEVICE_RANKS_MAX ? DEVICE_RANKS_MAX : ranks;
    if (probe_count_named(wanted) > 0)
        return take_named(probe, wanted, out, err);
    if (!automatic && strcmp(wanted, "cuda") != 0 && strcmp(wanted, "cpu") != 0) {
        error_set(err, ERROR_JOB,
                  "device must be auto, cpu, cuda, cuda:N or cuda:N,M, not '%s'", wanted);
        return 0;
    }
    count = strcmp(wanted, "cpu") == 0 ? 0 : take_best(probe, ranks, out);
    if (count == 0 && strcmp(wanted, "cuda") == 0)
        report_no_device(probe, wanted, err);
    else if (count == 0)
        for (; count < ranks; count++)
            out[count] = &probe->devices[0];
    return count;
}

const struct device *probe_select_one(const struct probe *probe, const char *wanted,
                                      struct error *err)
{
    const struct device *taken[DEVICE_RANKS_MAX];

    return probe_select(probe, wanted, 1, taken, err) > 0 ? taken[0] : NULL;
}

const struct device *probe_without_code(const struct probe *probe, const char *wanted)
{
    if (probe_count_named(wanted) == 0 && next_best(probe, NULL, 0))
        return NULL;
    for (size_t i = 1; i < probe->count; i++)
        if (probe_name_matches(wanted, probe->devices[i].ordinal) &&
            !probe->devices[i].runnable)
            return &probe->devices[i];
    return NULL;
}

int probe_peers(const struct probe *probe, const struct device *device)
{
    int count = 0;

    for (size_t i = 1; i < probe->count; i++)
        count += probe->devices[i].runnable && is_alike(&probe->devices[i], device);
    return count;
}
