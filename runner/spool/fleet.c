/* runner/spool/fleet.c - keeps the devices and the jobs that run on them. */
#include "config.h"

#include "runner/spool/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "runner/spool/intake.h"

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == len && strncmp(at, word, len) == 0)
            return true;
    return false;
}

/* Return the part of the list that names GPUs: "cuda:0,1" of "cpu,cuda:0,1". */
static const char *gpus_of(const char *list)
{
    const char *gpus = strstr(list, "cuda");

    return gpus ? gpus : "";
}

static bool list_is_valid(const struct probe *probe, const char *list, struct error *err)
{
    const char *gpus = gpus_of(list);
    size_t named = probe_count_named(gpus), found = 0;
    bool cpu = gpus == list || strncmp(list, "cpu,", 4) == 0 || strcmp(list, "cpu") == 0;

    for (size_t i = 1; i < probe->count; i++)
        found += probe_name_matches(gpus, probe->devices[i].ordinal);
    if (!cpu || (gpus[0] && named == 0 && strcmp(gpus, "cuda") != 0))
        return error_set(
            err, ERROR_USAGE,
            "--devices must be cpu, cuda, cuda:N,M or cpu,cuda:N,M, not '%s'", list);
    if (found < (named ? named : gpus[0] != 0))
        return error_set(err, ERROR_USAGE,
                         "this machine does not have all devices of "
                         "--devices %s; trainspool devices lists them",
                         list);
    return true;
}

static void keep_listed(struct probe *probe, const char *list)
{
    size_t kept = 1;

    for (size_t i = 1; i < probe->count; i++)
        if (probe_name_matches(gpus_of(list), probe->devices[i].ordinal))
            probe->devices[kept++] = probe->devices[i];
    probe->count = kept;
}

bool fleet_open(struct fleet *fleet, struct probe *probe, const char *list, size_t slots,
                struct error *err)
{
    *fleet = (struct fleet) { .slots = slots < FLEET_JOBS_MAX ? slots : FLEET_JOBS_MAX };
    if (list && !list_is_valid(probe, list, err))
        return false;
    if (list)
        keep_listed(probe, list);
    for (size_t i = 0; i < probe->count; i++)
        fleet->devices[i] = (struct placement_device) {
            .device = probe->devices[i], .usable = i > 0 || !list || has_word(list, "cpu")
        };
    fleet->device_count = probe->count;
    return true;
}

void fleet_close(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        free(fleet->jobs[i].name);
    fleet->count = 0;
}

static struct placement placement_of(const struct fleet *fleet)
{
    return (struct placement) { .devices = fleet->devices,
                                .device_count = fleet->device_count,
                                .running = fleet->running,
                                .running_count = fleet->count,
                                .slots = fleet->slots };
}

device_set fleet_devices(const struct fleet *fleet, const struct job_record *record)
{
    const struct placement placement = placement_of(fleet);

    return placement_read(&placement, record->devices);
}

void fleet_add(struct fleet *fleet, const char *name, const struct placement_need *need,
               device_set devices)
{
    if (fleet->count == FLEET_JOBS_MAX)
        return;
    fleet->jobs[fleet->count] = (struct fleet_job) { memory_strdup(name), -1 };
    fleet->running[fleet->count++] = (struct placement_running) {
        .need = *need, .devices = devices, .started = clock_seconds()
    };
}

void fleet_remove(struct fleet *fleet, const char *name)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->jobs[i].name, name) == 0) {
            free(fleet->jobs[i].name);
            fleet->count--;
            fleet->jobs[i] = fleet->jobs[fleet->count];
            fleet->running[i] = fleet->running[fleet->count];
            return;
        }
}

/* Return whether the job has allocated its memory: it has made a step. */
static bool has_settled(struct fleet_job *running)
{
    struct job_record record;
    struct job job;
    bool read;

    job_init(&job, running->name);
    read = job_read(&job, &record, NULL);
    job_clear(&job);
    if (!read || record.state != JOB_RUNNING)
        return false;
    if (running->step < 0)
        running->step = record.step;
    return record.step > running->step;
}

/* Jobs are looked at before memory, so that what they allocate in between counts twice,
 * and not never. */
static void measure(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (!fleet->running[i].measured)
            fleet->running[i].measured = has_settled(&fleet->jobs[i]);
    probe_cpu_memory(&fleet->devices[0].device);
}

static void describe_choice(const struct fleet *fleet, const struct placement *placement,
                            struct fleet_choice *out)
{
    const struct placement_need *need = &out->job->waiting.need;
    bool on_cpu = strcmp(need->wanted, "cpu") == 0;

    if (out->devices)
        placement_name(placement, out->devices, out->name);
    if (on_cpu && fleet->slots > 1 && need->threads == 0)
        out->threads = placement_cores(placement, need);
}

bool fleet_choose(struct fleet *fleet, struct queue *queue, double now,
                  struct fleet_choice *out)
{
    struct placement_answer answers[PLACEMENT_LOOK];
    struct placement_waiting *waiting[PLACEMENT_LOOK];
    struct queued *jobs[PLACEMENT_LOOK];
    const size_t count = queue_list(queue, now, jobs, PLACEMENT_LOOK);
    struct placement placement;
    size_t chosen;

    *out = (struct fleet_choice) { 0 };
    if (count == 0 || fleet->count == FLEET_JOBS_MAX)
        return false;
    measure(fleet);
    placement = placement_of(fleet);
    for (size_t i = 0; i < count; i++)
        waiting[i] = &jobs[i]->waiting;
    chosen = placement_choose(&placement, waiting, count, now, answers);
    if (chosen == count)
        return false;
    out->job = jobs[chosen];
    out->devices = answers[chosen].devices;
    describe_choice(fleet, &placement, out);
    return true;
}
