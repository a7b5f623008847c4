/* runner/spool/fleet.c - keeps the devices and the jobs that run on them. */
#include "config.h"

#include "runner/spool/fleet.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "runner/job/record.h"
#include "runner/spool/candidates.h"
#include "runner/spool/fleet_health.h"
#include "runner/spool/fleet_use.h"
#include "runner/spool/intake.h"

/* Seconds. */
static const double fresh_seconds = 1, fresh_cpu_seconds = 0.1, probe_every = 5;
/* A job on the CPU is large if it takes this part of what is free. */
static const uint64_t large_share = 32;

static bool is_on_cpu(const struct placement_need *need)
{
    return strcmp(need->wanted, "cpu") == 0;
}

static bool is_on_gpu(const struct placement_need *need)
{
    return need->wanted[0] && !is_on_cpu(need) && !placement_is_submitted(need);
}

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
    *fleet = (struct fleet) { .people.limits = fleet->people.limits,
                              .slots = slots < FLEET_JOBS_MAX ? slots : FLEET_JOBS_MAX,
                              .asked = clock_seconds(),
                              .answered = clock_seconds() };
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
    people_close(&fleet->people);
    prober_close(&fleet->prober);
}

struct placement fleet_placement(const struct fleet *fleet)
{
    return (struct placement) { .devices = fleet->devices,
                                .device_count = fleet->device_count,
                                .running = fleet->running,
                                .running_count = fleet->count,
                                .slots = fleet->slots };
}

void fleet_add(struct fleet *fleet, const char *name, uid_t user,
               const struct placement_running *job)
{
    const double now = clock_seconds();

    if (fleet->count == FLEET_JOBS_MAX)
        return;
    fleet->jobs[fleet->count] = (struct fleet_job) {
        .name = memory_strdup(name), .step = -1, .user = user, .charged = now
    };
    fleet->running[fleet->count] = *job;
    fleet->running[fleet->count++].started = now;
}

void fleet_adopt(struct fleet *fleet, const char *name, uid_t user)
{
    const struct placement placement = fleet_placement(fleet);
    struct placement_running found = { .devices = 0 };
    struct job_record record;
    struct job job;

    job_init(&job, name);
    if (!job_read(&job, &record, NULL))
        record_init(&record);
    job_clear(&job);
    found.need = intake_need(&record);
    found.devices = placement_read(&placement, record.devices);
    fleet_add(fleet, name, user, &found);
    fleet_use_charge_past(fleet, fleet->count - 1, record.started);
}

/* Return whether the memory that the job on the CPU leaves matters to others. */
static bool is_large(const struct fleet *fleet, const struct placement_need *need)
{
    return need->memory == 0 ||
           need->memory > fleet->devices[0].device.available / large_share;
}

void fleet_remove(struct fleet *fleet, const char *name)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->jobs[i].name, name) == 0) {
            fleet_use_charge(fleet, i);
            if (placement_is_submitted(&fleet->running[i].need))
                ; /* it left nothing here */
            else if (!is_on_cpu(&fleet->running[i].need))
                fleet->left = clock_seconds();
            else if (is_large(fleet, &fleet->running[i].need))
                fleet->measured = 0;
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

/* ---- Measuring ---- */

/* Jobs are looked at before memory, so that what they allocate in between counts twice,
 * and not never. */
static void look_at_jobs(struct fleet *fleet, bool on_cpu)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (!fleet->jobs[i].settled && !placement_is_submitted(&fleet->running[i].need) &&
            is_on_cpu(&fleet->running[i].need) == on_cpu)
            fleet->jobs[i].settled = has_settled(&fleet->jobs[i]);
}

static void note_measured(struct fleet *fleet, bool on_cpu)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (fleet->jobs[i].settled && is_on_cpu(&fleet->running[i].need) == on_cpu)
            fleet->running[i].measured = true;
}

static bool is_cpu_fresh(const struct fleet *fleet)
{
    return fleet->measured > 0 && clock_seconds() - fleet->measured < fresh_cpu_seconds;
}

void fleet_measure_cpu(struct fleet *fleet)
{
    if (is_cpu_fresh(fleet))
        return;
    fleet->measured = clock_seconds();
    look_at_jobs(fleet, true);
    probe_cpu_memory(&fleet->devices[0].device);
    note_measured(fleet, true);
}

static const struct device *find_device(const struct probe *probe, int ordinal)
{
    for (size_t i = 1; i < probe->count; i++)
        if (probe->devices[i].ordinal == ordinal)
            return &probe->devices[i];
    return NULL;
}

static void take_answer(struct fleet *fleet, const struct probe *probe)
{
    for (size_t i = 1; i < fleet->device_count; i++) {
        struct device *known = &fleet->devices[i].device;
        const struct device *found = find_device(probe, known->ordinal);

        if (found)
            known->available = found->available;
        if (found && found->context > 0) {
            known->context = found->context;
            strcpy(known->bus, found->bus);
        }
        fleet_judge(fleet, i, found, probe);
    }
    note_measured(fleet, false);
    fleet->answered = clock_seconds();
}

/* Return whether the last probe shows what is free now. */
static bool is_fresh(const struct fleet *fleet, double now)
{
    return fleet->device_count == 1 ||
           (fleet->asked > fleet->left && now - fleet->answered <= fresh_seconds);
}

/* Return whether it is time for a probe: a job that waits for other programs is looked at
 * from time to time. */
static bool is_probe_due(const struct fleet *fleet, double now)
{
    return fleet->asked <= fleet->left || now - fleet->answered >= probe_every;
}

static void start_probe(struct fleet *fleet)
{
    struct probe known = { .count = fleet->device_count };
    struct error err = { 0 };

    for (size_t i = 0; i < fleet->device_count; i++)
        known.devices[i] = fleet->devices[i].device;
    look_at_jobs(fleet, false);
    fleet->asked = clock_seconds();
    if (prober_start(&fleet->prober, fleet_all_are_well(fleet) ? &known : NULL, &err))
        return;
    fleet->answered = fleet->asked; /* try again later */
    log_line(fleet->log, LOG_ERROR, "watch: %s", err.text);
}

void fleet_recheck(struct fleet *fleet)
{
    for (size_t i = 1; i < fleet->device_count; i++) {
        fleet->health[i].losses = fleet->health[i].until = fleet->health[i].pause = 0;
        fleet->devices[i].device.context = 0; /* it is measured again, too */
    }
    if (fleet->device_count > 1)
        start_probe(fleet);
}

double fleet_due(const struct fleet *fleet)
{
    double due = fleet->prober.pid ? prober_due(&fleet->prober) : fleet_ill_due(fleet);

    return fleet->people.on && (fleet->count > 0 || fleet->people.changed)
               ? fmin(due, fleet->people.save_at)
               : due;
}

void fleet_poll(struct fleet *fleet)
{
    struct probe probe;
    enum prober_state state = prober_poll(&fleet->prober, &probe);

    if (state == PROBER_ANSWERED)
        take_answer(fleet, &probe);
    if (state != PROBER_WORKS && clock_seconds() >= fleet_ill_due(fleet))
        start_probe(fleet);
    if (fleet->people.on && clock_seconds() >= fleet->people.save_at)
        fleet_use_save(fleet);
}

/* ---- Choosing ---- */

/* The jobs to choose from, in order. */
struct choice {
    struct queued *jobs[PLACEMENT_LOOK];
    struct placement_waiting *waiting[PLACEMENT_LOOK];
    size_t count;
};

/* Return whether a job could start on a GPU if no other program used any. */
static bool plans_fit(const struct fleet *fleet, const struct choice *from, double now)
{
    struct placement_device devices[PROBE_MAX];
    struct placement_waiting copies[PLACEMENT_LOOK], *waiting[PLACEMENT_LOOK];
    struct placement_answer answers[PLACEMENT_LOOK];
    struct placement placement = fleet_placement(fleet);
    size_t count = 0;

    for (size_t i = 0; i < fleet->device_count; i++) {
        devices[i] = fleet->devices[i];
        devices[i].device.available = devices[i].device.memory;
        /* a probe may find that it is well, unless it has to wait for that */
        devices[i].usable = fleet->health[i].until <= now;
    }
    placement.devices = devices;
    for (size_t i = 0; i < from->count; i++)
        if (is_on_gpu(&from->waiting[i]->need)) {
            copies[count] = *from->waiting[i];
            waiting[count] = &copies[count];
            count++;
        }
    return placement_choose(&placement, waiting, count, now, answers) < count;
}

/* Leave the jobs that can be placed without a probe. With slots, none of them takes that
 * of a job before it. */
static void leave_gpu_jobs(const struct fleet *fleet, struct choice *choice)
{
    size_t kept = 0;
    bool skipped = false;

    for (size_t i = 0; i < choice->count; i++) {
        const struct placement_need *need = &choice->waiting[i]->need;

        if (skipped && !placement_is_submitted(need) &&
            (fleet->slots > 0 || !need->wanted[0]))
            break;
        skipped |= is_on_gpu(need);
        if (is_on_gpu(need))
            continue;
        choice->jobs[kept] = choice->jobs[i];
        choice->waiting[kept++] = choice->waiting[i];
    }
    choice->count = kept;
}

/* Return whether the GPUs are measured; otherwise jobs there cannot start now. */
static bool measure_gpus(struct fleet *fleet, const struct choice *choice, double now)
{
    if (!fleet->prober.pid && !is_fresh(fleet, now) && is_probe_due(fleet, now) &&
        plans_fit(fleet, choice, now))
        start_probe(fleet);
    return is_fresh(fleet, now);
}

static void describe_choice(const struct fleet *fleet, const struct placement *placement,
                            struct fleet_choice *out)
{
    const struct placement_need *need = &out->job->waiting.need;

    if (out->devices)
        placement_name(placement, out->devices, out->name);
    if (is_on_cpu(need) && fleet->slots > 1 && need->threads == 0)
        out->threads = placement_cores(placement, need);
}

/* Return whether no node can ever run the job. */
static bool is_misfit(const struct fleet *fleet, const struct queued *job)
{
    const struct placement placement = fleet_placement(fleet);

    return !job->examined && !placement_is_possible(&placement, &job->waiting.need) &&
           !candidates_fit_elsewhere(fleet->nodes, &job->waiting.need);
}

/* Find a job for GPUs of another node that left, before any GPU here is probed for it. */
static void find_misfit(const struct fleet *fleet, const struct choice *choice,
                        struct fleet_choice *out)
{
    for (size_t i = 0; fleet->nodes && !out->misfit && i < choice->count; i++)
        if (is_on_gpu(&choice->jobs[i]->waiting.need) &&
            is_misfit(fleet, choice->jobs[i]))
            out->misfit = choice->jobs[i];
}

/* Note for each job up to the one that starts what it waits for. */
static void note_answers(const struct fleet *fleet, const struct choice *choice,
                         size_t chosen, const struct placement_answer answers[],
                         struct fleet_choice *out)
{
    for (size_t i = 0; i < choice->count && i <= chosen; i++) {
        struct queued *job = choice->jobs[i];

        job->answer = answers[i];
        if (!out->misfit &&
            (job->answer.verdict == PLACEMENT_NEVER ||
             job->answer.verdict == PLACEMENT_ABSENT) &&
            is_misfit(fleet, job))
            out->misfit = job;
    }
}

static bool waits_for_memory(const struct placement_answer answers[], size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (answers[i].verdict == PLACEMENT_MEMORY && answers[i].device == 0)
            return true;
    return false;
}

/* Return the index of the job that starts, or the number of jobs. What is free now may be
 * more than what was measured. */
static size_t place(struct fleet *fleet, const struct placement *placement,
                    const struct choice *choice, double now,
                    struct placement_answer answers[])
{
    const bool known = is_cpu_fresh(fleet);
    size_t chosen;

    fleet_measure_cpu(fleet);
    chosen = placement_choose(placement, choice->waiting, choice->count, now, answers);
    if (!known || chosen < choice->count || !waits_for_memory(answers, chosen))
        return chosen;
    fleet->measured = 0;
    fleet_measure_cpu(fleet);
    return placement_choose(placement, choice->waiting, choice->count, now, answers);
}

/* Choose a job that Slurm runs after more waiting ones than placement_choose looks at. */
static void choose_submitted(const struct fleet *fleet, struct queue *queue, double now,
                             struct fleet_choice *out)
{
    struct queued *job = NULL;

    if (queue->count > PLACEMENT_LOOK)
        job = queue_find_submitted(queue, fleet->people.on, false, now);
    if (!job)
        return;
    out->job = job;
    out->stalled = out->probing = false;
}

void fleet_choose(struct fleet *fleet, struct queue *queue, double now,
                  struct fleet_choice *out)
{
    struct placement_answer answers[PLACEMENT_LOOK];
    struct placement placement;
    struct choice choice;
    size_t chosen, local;

    *out = (struct fleet_choice) { 0 };
    if (fleet->people.on)
        fleet_use_count(fleet);
    choice.count = queue_list(queue, fleet->people.on ? &fleet->people : NULL, now,
                              choice.jobs, PLACEMENT_LOOK);
    placement = fleet_placement(fleet);
    local = placement_local_count(&placement);
    out->stalled = choice.count == 0 && local == 0 && queue_is_barred(queue, now);
    if (choice.count == 0 || fleet->count == FLEET_JOBS_MAX)
        return;
    for (size_t i = 0; i < choice.count; i++)
        choice.waiting[i] = &choice.jobs[i]->waiting;
    out->stalled = local == 0;
    if (!measure_gpus(fleet, &choice, now)) {
        out->probing = !isinf(prober_due(&fleet->prober));
        find_misfit(fleet, &choice, out);
        leave_gpu_jobs(fleet, &choice);
    }
    chosen = place(fleet, &placement, &choice, now, answers);
    note_answers(fleet, &choice, chosen, answers, out);
    if (chosen == choice.count) {
        choose_submitted(fleet, queue, now, out);
        return;
    }
    out->job = choice.jobs[chosen];
    out->devices = answers[chosen].devices;
    out->stalled = out->probing = false;
    describe_choice(fleet, &placement, out);
}

void fleet_describe_wait(struct fleet *fleet, const struct queued *job, char out[160])
{
    const struct placement placement = fleet_placement(fleet);
    const enum placement_verdict verdict = job->answer.verdict;

    if ((verdict == PLACEMENT_ABSENT || verdict == PLACEMENT_NEVER) &&
        candidates_fit_elsewhere(fleet->nodes, &job->waiting.need))
        out[0] = 0; /* that node knows */
    else if (job->barred)
        people_describe(&fleet->people, job->user, job->answer.verdict, out);
    else
        placement_describe(&placement, &job->waiting.need, &job->answer, out);
}

struct placement_load fleet_load(const struct fleet *fleet, size_t device)
{
    const struct placement placement = fleet_placement(fleet);

    return placement_load(&placement, device);
}
