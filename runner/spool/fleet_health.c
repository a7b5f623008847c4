/* runner/spool/fleet_health.c - which GPUs get jobs. */
#include "config.h"

#include "runner/spool/fleet_health.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"

/* How long a GPU that jobs lost gets no job; twice as long each time; seconds. */
static const double pause_first = 60, pause_longest = 3600;

enum { LOSSES_MAX = 2 };

/* why: "" for a device that is well. */
static void set_health(struct fleet *fleet, size_t i, const char *why)
{
    const int ordinal = fleet->devices[i].device.ordinal;
    char *ill = fleet->health[i].ill;

    if (why[0] && strcmp(ill, why) != 0)
        log_line(fleet->log, LOG_ERROR, "watch: cuda:%d gets no job: %s", ordinal, why);
    else if (!why[0] && ill[0])
        log_line(fleet->log, LOG_INFO, "watch: cuda:%d gets jobs again", ordinal);
    snprintf(ill, sizeof(fleet->health[i].ill), "%.159s", why);
    fleet->devices[i].usable = !why[0];
}

/* Judge a GPU by the last probe, in which it may be missing. */
void fleet_judge(struct fleet *fleet, size_t i, const struct device *found,
                 const struct probe *probe)
{
    struct fleet_health *health = &fleet->health[i];

    if (!found) {
        set_health(fleet, i,
                   probe->note[0] ? probe->note : "the driver does not show it");
    } else if (found->ill[0]) {
        set_health(fleet, i, found->ill);
    } else if (health->losses < LOSSES_MAX || health->until <= fleet->asked) {
        health->losses = health->losses < LOSSES_MAX ? health->losses : 0;
        set_health(fleet, i, "");
    }
}

/* Return NULL if it is not known. */
static const struct fleet_job *find_job(const struct fleet *fleet, const char *name)
{
    for (size_t i = 0; i < fleet->count; i++)
        if (strcmp(fleet->jobs[i].name, name) == 0)
            return &fleet->jobs[i];
    return NULL;
}

static device_set gpus_of_job(const struct fleet *fleet, const struct fleet_job *job)
{
    return job ? fleet->running[job - fleet->jobs].devices & ~(device_set)1 : 0;
}

/* Count a loss if the owner of the job cannot have made all of them. */
static bool count_loss(const struct fleet *fleet, struct fleet_health *health, uid_t user)
{
    const bool counts = !fleet->people.shared || health->losses == 0 ||
                        health->loser != user || user == 0;

    health->losses += counts;
    health->loser = user;
    return counts && health->losses >= LOSSES_MAX;
}

void fleet_note_loss(struct fleet *fleet, const char *name, const char *reason)
{
    const struct fleet_job *job = find_job(fleet, name);
    const device_set gpus = gpus_of_job(fleet, job);
    char why[160];

    for (size_t i = 1; i < fleet->device_count; i++) {
        struct fleet_health *health = &fleet->health[i];

        if (!(gpus >> i & 1) || !count_loss(fleet, health, job->user))
            continue;
        health->pause = fmin(fmax(2 * health->pause, pause_first), pause_longest);
        health->until = clock_seconds() + health->pause;
        /* everyone may read it, but not why a job of someone else ended */
        snprintf(why, sizeof(why), "%d jobs in a row lost it%s%.120s", health->losses,
                 fleet->people.shared ? "" : ": ", fleet->people.shared ? "" : reason);
        set_health(fleet, i, why);
    }
}

void fleet_note_success(struct fleet *fleet, const char *name)
{
    const device_set gpus = gpus_of_job(fleet, find_job(fleet, name));

    for (size_t i = 1; i < fleet->device_count; i++)
        if (gpus >> i & 1 && !fleet->health[i].ill[0])
            fleet->health[i].losses = fleet->health[i].pause = 0;
}

/* Whether a GPU that is ill works again only shows when it is used. */
bool fleet_all_are_well(const struct fleet *fleet)
{
    for (size_t i = 1; i < fleet->device_count; i++)
        if (fleet->health[i].ill[0])
            return false;
    return true;
}

/* Return when GPUs that are ill are probed although no job needs them. */
double fleet_ill_due(const struct fleet *fleet)
{
    double due = INFINITY;

    for (size_t i = 1; i < fleet->device_count; i++)
        if (fleet->health[i].ill[0])
            due = fmin(due, fmax(fleet->health[i].until, fleet->answered + pause_first));
    return due;
}
