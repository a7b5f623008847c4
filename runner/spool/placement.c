/*
 * runner/spool/placement.c - tries each job of the queue in order on the devices that are
 * left. The reservations follow EASY backfilling (Lifka, "The ANL/IBM SP scheduling
 * system", 1995), with a count of jobs in place of run times, which are unknown here.
 */
#include "config.h"

#include "runner/spool/placement.h"

#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "precision/memory.h"

/* The share of the free memory that a job may use, as in memory_limit. */
static const double usable_share = 0.95;

/* What is left on a device. */
struct room {
    uint64_t planned;    /* by all its jobs */
    uint64_t unmeasured; /* of that, by jobs that are not part of `available` yet */
    size_t jobs;
    int cores;  /* that jobs use */
    bool alone; /* a job with an unknown plan has it */
};

struct reservation {
    const struct placement_waiting *job;
    device_set devices;
};

struct search {
    const struct placement *placement;
    double now;
    struct room rooms[PROBE_MAX];
    struct reservation reserved[PROBE_MAX];
    size_t reserved_count;
    size_t local; /* running jobs that use this machine */
};

static device_set bit(size_t device)
{
    return (device_set)1 << device;
}

/* Return the number of the set's devices. */
static size_t size_of(device_set set)
{
    return (size_t)__builtin_popcount(set);
}

static bool is_on_cpu(const struct placement_need *need)
{
    return strcmp(need->wanted, "cpu") == 0;
}

bool placement_is_submitted(const struct placement_need *need)
{
    return strcmp(need->wanted, PLACEMENT_SUBMITTED) == 0;
}

size_t placement_local_count(const struct placement *placement)
{
    size_t count = 0;

    for (size_t j = 0; j < placement->running_count; j++)
        count += !placement_is_submitted(&placement->running[j].need);
    return count;
}

static const struct device *device_at(const struct search *search, size_t i)
{
    return &search->placement->devices[i].device;
}

size_t placement_ranks(const struct placement_need *need)
{
    size_t named = probe_count_named(need->wanted);

    if (named > 0)
        return named;
    return need->ranks < 1                  ? 1
           : need->ranks > DEVICE_RANKS_MAX ? DEVICE_RANKS_MAX
                                            : (size_t)need->ranks;
}

int placement_cores(const struct placement *placement, const struct placement_need *need)
{
    int all = placement->devices[0].device.threads;
    int share = placement->slots > 1 ? all / (int)placement->slots : all;

    if (need->threads > 0 && need->threads < all)
        return (int)need->threads;
    return need->threads > 0 ? all : share > 1 ? share : 1;
}

/* The bytes that a job takes of a device. A process has a context of its own on a GPU;
 * that of the probe stands for the first one. */
static uint64_t taken_bytes(const struct placement_need *need, size_t device, bool first)
{
    if (device == 0)
        return need->memory * placement_ranks(need);
    return need->memory + (first ? 0 : MEMORY_CUDA_CONTEXT);
}

static void take(struct search *search, const struct placement_running *job, size_t i)
{
    struct room *room = &search->rooms[i];
    uint64_t bytes = taken_bytes(&job->need, i, room->jobs == 0);

    room->planned += bytes;
    room->unmeasured += job->measured ? 0 : bytes;
    room->jobs++;
    room->alone |= job->need.memory == 0 || job->devices == 0;
    if (i == 0 && is_on_cpu(&job->need))
        room->cores += placement_cores(search->placement, &job->need);
}

static void count_running(struct search *search)
{
    const struct placement *placement = search->placement;

    for (size_t j = 0; j < placement->running_count; j++) {
        const struct placement_running *running = &placement->running[j];

        if (placement_is_submitted(&running->need))
            continue;
        search->local++;
        for (size_t i = 0; i < placement->device_count; i++)
            if (running->devices == 0 || running->devices & bit(i))
                take(search, running, i);
    }
}

/* ---- One device ---- */

/* Return whether the check of the job was for such a GPU. Those that it names may differ: it
 * was for the weakest. */
static bool is_checked_for(const struct placement_need *need, int capability)
{
    return probe_count_named(need->wanted) > 0
               ? need->capability <= capability
               : need->capability == 0 || need->capability == capability;
}

/* Return whether the job may use the device at all. */
static bool is_candidate(const struct search *search, const struct placement_need *need,
                         size_t i)
{
    const struct device *device = device_at(search, i);

    if (is_on_cpu(need) || i == 0)
        return is_on_cpu(need) && i == 0;
    return device->runnable && probe_name_matches(need->wanted, device->ordinal) &&
           is_checked_for(need, 10 * device->major + device->minor);
}

static uint64_t usable_bytes(uint64_t bytes)
{
    return (uint64_t)((double)bytes * usable_share);
}

static uint64_t less(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* Return the bytes that a new job may take of a device now. */
static uint64_t free_bytes(const struct search *search, size_t i)
{
    const struct device *device = device_at(search, i);
    const struct room *room = &search->rooms[i];
    uint64_t measured = usable_bytes(less(device->available, room->unmeasured));
    uint64_t planned = less(usable_bytes(device->memory), room->planned);

    return measured < planned ? measured : planned;
}

/* Return the same for a job that may use more than the usual share (memory_limit), alone. */
static uint64_t free_bytes_for(const struct search *search, uint64_t bytes, size_t i)
{
    const struct device *device = device_at(search, i);

    return search->rooms[i].jobs == 0 && bytes > usable_bytes(device->memory)
               ? device->available
               : free_bytes(search, i);
}

/* Return what the job waits for on one device; STARTS: nothing. */
static enum placement_verdict try_device(const struct search *search,
                                         const struct placement_need *need, size_t i,
                                         uint64_t *missing)
{
    const struct room *room = &search->rooms[i];
    const struct device *device = device_at(search, i);
    uint64_t bytes = taken_bytes(need, i, room->jobs == 0), available;

    *missing = 0;
    if (!search->placement->devices[i].usable)
        return PLACEMENT_ILL;
    if (need->memory > 0 && device->memory > 0 &&
        taken_bytes(need, i, true) > device->memory)
        return PLACEMENT_NEVER;
    if (room->alone || (need->memory == 0 && room->jobs > 0))
        return PLACEMENT_DEVICES;
    if (i == 0 && room->cores > 0 &&
        room->cores + placement_cores(search->placement, need) > device->threads)
        return PLACEMENT_CORES;
    available = free_bytes_for(search, bytes, i);
    if (need->memory == 0 || device->memory == 0 || bytes <= available)
        return PLACEMENT_STARTS;
    *missing = bytes - available;
    return PLACEMENT_MEMORY;
}

/* ---- Reservations ---- */

/* Return the memory that jobs took of a device since the waiting job was the first. */
static uint64_t taken_since(const struct search *search, size_t device, double since)
{
    uint64_t bytes = 0;

    for (size_t j = 0; j < search->placement->running_count; j++) {
        const struct placement_running *job = &search->placement->running[j];

        if (job->started >= since && job->devices & bit(device))
            bytes += taken_bytes(&job->need, device, false);
    }
    return bytes;
}

/* Return whether both jobs can run there at the same time once the earlier jobs ended. */
static bool fit_together(const struct search *search,
                         const struct placement_waiting *held,
                         const struct placement_need *need, size_t i)
{
    const struct placement *placement = search->placement;

    if (need->memory == 0 || held->need.memory == 0)
        return false;
    if (i == 0 &&
        placement_cores(placement, need) + placement_cores(placement, &held->need) >
            device_at(search, i)->threads)
        return false;
    return taken_bytes(need, i, false) + taken_bytes(&held->need, i, false) +
               taken_since(search, i, held->since) <=
           usable_bytes(device_at(search, i)->memory);
}

static bool may_be_passed(const struct search *search,
                          const struct placement_waiting *job)
{
    return job->passes < PLACEMENT_PASSES &&
           search->now - job->since < PLACEMENT_PASS_SECONDS;
}

/* Return the reservation that the job would delay on this device, or NULL. */
static const struct reservation *delayed(const struct search *search,
                                         const struct placement_need *need, size_t i)
{
    for (size_t r = 0; r < search->reserved_count; r++)
        if (search->reserved[r].devices & bit(i) &&
            !fit_together(search, search->reserved[r].job, need, i))
            return &search->reserved[r];
    return NULL;
}

static device_set all_reserved(const struct search *search)
{
    device_set all = 0;

    for (size_t r = 0; r < search->reserved_count; r++)
        all |= search->reserved[r].devices;
    return all;
}

/* ---- Choice of devices ---- */

/* How good a device is for a job, less is better: one where it delays no job, an idle one,
 * then the one that is nearest to full. */
struct rank {
    bool delays, used;
    uint64_t left;
};

static struct rank rank_of(const struct search *search, const struct placement_need *need,
                           size_t i)
{
    return (struct rank) { .delays = delayed(search, need, i) != NULL,
                           .used = search->rooms[i].jobs > 0,
                           .left = free_bytes(search, i) };
}

static bool is_better(const struct rank *a, const struct rank *b)
{
    if (a->delays != b->delays)
        return b->delays;
    if (a->used != b->used)
        return b->used;
    return a->left < b->left;
}

static int capability_at(const struct search *search, size_t i)
{
    return 10 * device_at(search, i)->major + device_at(search, i)->minor;
}

/* Choose the best `count` of the devices, all of one capability; 0: there are not that
 * many. */
static device_set choose_of_class(const struct search *search,
                                  const struct placement_need *need, device_set from,
                                  int capability)
{
    size_t count = is_on_cpu(need) ? 1 : placement_ranks(need);
    device_set chosen = 0;

    for (; count > 0; count--) {
        struct rank best = { 0 }, rank;
        size_t found = 0;
        bool any = false;

        for (size_t i = 0; i < search->placement->device_count; i++) {
            if (!(from & ~chosen & bit(i)) || capability_at(search, i) != capability)
                continue;
            rank = rank_of(search, need, i);
            if (any && !is_better(&rank, &best))
                continue;
            any = true;
            best = rank;
            found = i;
        }
        if (!any)
            return 0;
        chosen |= bit(found);
    }
    return chosen;
}

static device_set choose(const struct search *search, const struct placement_need *need,
                         device_set from)
{
    device_set chosen = 0;

    for (size_t i = 0; !chosen && i < search->placement->device_count; i++)
        if (from & bit(i))
            chosen = choose_of_class(search, need, from, capability_at(search, i));
    return chosen;
}

/* ---- One job ---- */

/* What a job finds on the devices it may use. */
struct survey {
    device_set candidates, fitting, allowed, usable; /* each a part of the one before */
    enum placement_verdict worst;                    /* what most devices say */
    size_t nearest; /* of those with too little memory, that with the most */
    uint64_t missing;
};

static const int gravity[] = {
    [PLACEMENT_STARTS] = 0,  [PLACEMENT_NEVER] = 1, [PLACEMENT_ILL] = 2,
    [PLACEMENT_DEVICES] = 3, [PLACEMENT_CORES] = 4, [PLACEMENT_MEMORY] = 5
};

/* A memory that is too small now says more than a device that is in use. */
static void note_verdict(struct survey *survey, enum placement_verdict verdict, size_t i,
                         uint64_t missing)
{
    if (verdict == PLACEMENT_MEMORY &&
        (survey->worst != PLACEMENT_MEMORY || missing < survey->missing)) {
        survey->missing = missing;
        survey->nearest = i;
    }
    if (gravity[verdict] > gravity[survey->worst])
        survey->worst = verdict;
}

static void look(const struct search *search, const struct placement_need *need,
                 struct survey *out)
{
    *out = (struct survey) { .worst = PLACEMENT_STARTS };
    for (size_t i = 0; i < search->placement->device_count; i++) {
        enum placement_verdict verdict;
        const struct reservation *held;
        uint64_t missing;

        if (!is_candidate(search, need, i))
            continue;
        out->candidates |= bit(i);
        verdict = try_device(search, need, i, &missing);
        note_verdict(out, verdict, i, missing);
        if (verdict != PLACEMENT_ILL && verdict != PLACEMENT_NEVER)
            out->usable |= bit(i);
        if (verdict != PLACEMENT_STARTS)
            continue;
        out->fitting |= bit(i);
        held = delayed(search, need, i);
        if (!held || may_be_passed(search, held->job))
            out->allowed |= bit(i);
    }
}

/* Return the devices that the job will wait for: those of one capability on which the
 * least memory is planned, and which no job before it waits for; 0: none. */
static device_set choose_reserved(const struct search *search,
                                  const struct placement_need *need,
                                  const struct survey *survey)
{
    size_t count = is_on_cpu(need) ? 1 : placement_ranks(need);
    device_set from = survey->usable & ~all_reserved(search), chosen = 0;

    for (size_t taken = 0; taken < count; taken++) {
        size_t best = PROBE_MAX, first = 0;

        while (chosen && !(chosen & bit(first)))
            first++;
        for (size_t i = 0; i < search->placement->device_count; i++)
            if (from & ~chosen & bit(i) &&
                (!chosen || capability_at(search, i) == capability_at(search, first)) &&
                (best == PROBE_MAX ||
                 search->rooms[i].planned < search->rooms[best].planned))
                best = i;
        if (best == PROBE_MAX)
            return 0;
        chosen |= bit(best);
    }
    return chosen;
}

static void wait_for(struct search *search, struct placement_waiting *job,
                     const struct survey *survey, struct placement_answer *out)
{
    device_set devices = choose_reserved(search, &job->need, survey);

    out->devices = devices;
    out->device = survey->nearest;
    out->bytes = survey->missing;
    if (!devices)
        return;
    if (job->since == 0)
        job->since = search->now;
    search->reserved[search->reserved_count++] = (struct reservation) { job, devices };
}

static void refuse(const struct search *search, const struct survey *survey, size_t count,
                   struct placement_answer *out)
{
    out->verdict = survey->worst == PLACEMENT_NEVER      ? PLACEMENT_NEVER
                   : size_of(survey->candidates) < count ? PLACEMENT_ABSENT
                                                         : PLACEMENT_ILL;
    for (size_t i = 0; i < search->placement->device_count; i++)
        if (survey->candidates & bit(i) && device_at(search, i)->memory >= out->bytes) {
            out->device = i;
            out->bytes = device_at(search, i)->memory;
        }
}

/* A job of which nothing is known: it may use what the jobs before it make. */
static void try_unknown(struct search *search, struct placement_waiting *job, bool first,
                        struct placement_answer *out)
{
    *out = (struct placement_answer) { .verdict = PLACEMENT_STARTS };
    if (first && search->local == 0)
        return;
    out->verdict = first ? PLACEMENT_DEVICES : PLACEMENT_RESERVED;
    if (!first)
        return;
    if (job->since == 0)
        job->since = search->now;
    search->reserved[search->reserved_count++] =
        (struct reservation) { job, ~(device_set)0 };
}

static void try_job(struct search *search, struct placement_waiting *job,
                    struct placement_answer *out)
{
    const struct placement_need *need = &job->need;
    size_t count = is_on_cpu(need) ? 1 : placement_ranks(need);
    struct survey survey;

    *out = (struct placement_answer) { .verdict = PLACEMENT_STARTS };
    look(search, need, &survey);
    out->devices = choose(search, need, survey.allowed);
    if (out->devices)
        return;
    if (size_of(survey.usable) < count) {
        refuse(search, &survey, count, out);
        return;
    }
    if (survey.fitting != survey.allowed && choose(search, need, survey.fitting))
        out->verdict = PLACEMENT_RESERVED;
    else
        out->verdict =
            survey.worst != PLACEMENT_STARTS ? survey.worst : PLACEMENT_DEVICES;
    wait_for(search, job, &survey, out);
}

/* Count a job that starts as a pass of each job that it delays. */
static void count_passes(const struct search *search, const struct placement_need *need,
                         device_set devices, struct placement_waiting *const queue[],
                         size_t before)
{
    for (size_t r = 0; r < search->reserved_count; r++)
        for (size_t i = 0; i < search->placement->device_count; i++) {
            if (!(devices & search->reserved[r].devices & bit(i)) ||
                fit_together(search, search->reserved[r].job, need, i))
                continue;
            for (size_t j = 0; j < before; j++)
                queue[j]->passes += queue[j] == search->reserved[r].job;
            break;
        }
}

size_t placement_choose(const struct placement *placement,
                        struct placement_waiting *const queue[], size_t count, double now,
                        struct placement_answer answers[])
{
    struct search search = { .placement = placement, .now = now };
    size_t most = count < PLACEMENT_LOOK ? count : PLACEMENT_LOOK;
    bool full;

    count_running(&search);
    full = placement->slots > 0 && search.local >= placement->slots;
    for (size_t i = 0; i < most; i++) {
        if (placement_is_submitted(&queue[i]->need)) {
            answers[i] = (struct placement_answer) { .verdict = PLACEMENT_STARTS };
            return i;
        }
        if (full) {
            answers[i] = (struct placement_answer) { .verdict = PLACEMENT_SLOTS };
            continue;
        }
        if (queue[i]->need.wanted[0])
            try_job(&search, queue[i], &answers[i]);
        else
            try_unknown(&search, queue[i], i == 0, &answers[i]);
        if (answers[i].verdict != PLACEMENT_STARTS)
            continue;
        count_passes(&search, &queue[i]->need, answers[i].devices, queue, i);
        return i;
    }
    return count;
}

struct placement_load placement_load(const struct placement *placement, size_t device)
{
    struct search search = { .placement = placement };
    const struct room *room = &search.rooms[device];

    count_running(&search);
    return (struct placement_load) { room->planned, room->jobs, room->cores };
}

bool placement_is_possible(const struct placement *placement,
                           const struct placement_need *need)
{
    const struct placement alone = { .devices = placement->devices,
                                     .device_count = placement->device_count };
    struct placement_waiting waiting = { .need = *need }, *const queue[] = { &waiting };
    struct placement_answer answer = { .verdict = PLACEMENT_STARTS };

    placement_choose(&alone, queue, 1, 0, &answer);
    return answer.verdict != PLACEMENT_ABSENT && answer.verdict != PLACEMENT_NEVER;
}
