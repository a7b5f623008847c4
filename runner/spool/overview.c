/* runner/spool/overview.c - reads a listing with several threads, and sorts the jobs. */
#include "config.h"

#include "runner/spool/overview.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/spread.h"
#include "runner/spool/queue.h"

enum { JOBS_AT_ONCE = 128 };

struct reading {
    const struct listing *listing;
    struct listed *jobs;
    bool *shown;
};

static void read_jobs(void *context, size_t from, size_t to)
{
    struct reading *reading = context;

    for (size_t i = from; i < to; i++)
        reading->shown[i] = listing_read(reading->listing, i, &reading->jobs[i]);
}

/* Jobs that something keeps from starting come last. */
static int by_turn(const void *a, const void *b)
{
    const struct listed *left = *(const struct listed *const *)a;
    const struct listed *right = *(const struct listed *const *)b;
    const struct job_record *one = &left->record, *two = &right->record;
    struct queued first = { .priority = one->priority, .arrived = one->arrived };
    struct queued second = { .priority = two->priority, .arrived = two->arrived };

    if ((left->gate == GATE_OPEN) != (right->gate == GATE_OPEN))
        return left->gate == GATE_OPEN ? -1 : 1;
    if ((left->turn > 0) != (right->turn > 0))
        return left->turn > 0 ? -1 : 1;
    if (left->turn != right->turn)
        return left->turn < right->turn ? -1 : 1;
    return queue_precedes(&second, &first) - queue_precedes(&first, &second);
}

/* The times are texts that sort; a job without one never started. */
static int by_end(const void *a, const void *b)
{
    const struct listed *one = *(const struct listed *const *)a;
    const struct listed *two = *(const struct listed *const *)b;
    int order = strcmp(two->record.ended, one->record.ended);

    return order ? order : strcmp(one->name, two->name);
}

static void sort(struct overview *overview)
{
    size_t size = sizeof(*overview->running);

    overview->running = memory_resize(NULL, overview->count + 1, size);
    overview->waiting = memory_resize(NULL, overview->count + 1, size);
    overview->ended = memory_resize(NULL, overview->count + 1, size);
    for (size_t i = 0; i < overview->count; i++) {
        const struct listed *job = &overview->jobs[i];

        if (job->running)
            overview->running[overview->running_count++] = job;
        else if (!job->unread && job->record.state == JOB_READY)
            overview->waiting[overview->waiting_count++] = job;
        else
            overview->ended[overview->ended_count++] = job;
    }
    qsort(overview->waiting, overview->waiting_count, size, by_turn);
    qsort(overview->ended, overview->ended_count, size, by_end);
}

bool overview_read(const char *dir, struct overview *out, struct error *err)
{
    struct listing listing = { 0 };
    const char *paused, *path;
    struct reading reading = { .listing = &listing };

    *out = (struct overview) { 0 };
    if (!listing_add_folder(&listing, dir, err)) {
        listing_clear(&listing);
        return false;
    }
    reading.jobs = memory_resize(NULL, listing.count + 1, sizeof(*reading.jobs));
    reading.shown = memory_alloc(listing.count + 1);
    spread_each(listing.count, JOBS_AT_ONCE, read_jobs, &reading);
    for (size_t i = 0; i < listing.count; i++)
        if (reading.shown[i])
            reading.jobs[out->count++] = reading.jobs[i];
    for (size_t i = 1; i < out->count; i++)
        out->several |= reading.jobs[i].owner != reading.jobs[0].owner;
    out->jobs = reading.jobs;
    paused = listing_paused(&listing, 0, &path);
    out->paused = paused ? memory_strdup(paused) : NULL;
    out->views = listing_take_views(&listing, 0);
    free(reading.shown);
    listing_clear(&listing);
    sort(out);
    return true;
}

void overview_clear(struct overview *overview)
{
    for (size_t i = 0; i < overview->count; i++)
        listed_clear(&overview->jobs[i]);
    free(overview->jobs);
    free(overview->paused);
    fleet_views_clear(&overview->views);
    free(overview->running);
    free(overview->waiting);
    free(overview->ended);
    *overview = (struct overview) { 0 };
}
