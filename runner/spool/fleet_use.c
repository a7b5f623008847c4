/* runner/spool/fleet_use.c - a job counts for as long as it runs, whatever it does. */
#include "config.h"

#include "runner/spool/fleet_use.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/instant.h"

static void charge(struct fleet *fleet, size_t job, double seconds)
{
    const struct placement placement = fleet_placement(fleet);
    const struct placement_running *running = &fleet->running[job];
    const int gpus = __builtin_popcount(running->devices & ~(device_set)1);
    double devices = gpus > 0 ? gpus : 1;

    if (!fleet->people.on || seconds <= 0 || placement_is_submitted(&running->need))
        return;
    if (strcmp(running->need.wanted, "cpu") == 0)
        devices = placement_cores(&placement, &running->need) /
                  fmax(fleet->devices[0].device.threads, 1);
    people_charge(&fleet->people, fleet->jobs[job].user, gpus * seconds,
                  devices * seconds);
}

void fleet_use_charge(struct fleet *fleet, size_t job)
{
    const double now = clock_seconds();

    charge(fleet, job, now - fleet->jobs[job].charged);
    fleet->jobs[job].charged = now;
}

void fleet_use_charge_past(struct fleet *fleet, size_t job, const char *since)
{
    static const double most = 31 * 86400.0; /* that one may be charged for */
    struct instant started;
    double seconds;

    if (!instant_read(since, &started, NULL) || started.relative)
        return;
    seconds = clock_wall() - fmax(started.seconds, fleet->people.saved);
    charge(fleet, job, fmin(seconds, most));
}

static void charge_all(struct fleet *fleet)
{
    for (size_t i = 0; i < fleet->count; i++)
        fleet_use_charge(fleet, i);
}

void fleet_use_count(struct fleet *fleet)
{
    struct people *people = &fleet->people;

    charge_all(fleet);
    for (size_t i = 0; i < people->count; i++)
        people->list[i].here = 0;
    for (size_t i = 0; i < fleet->count; i++)
        people_find(people, fleet->jobs[i].user)->here++;
    for (size_t i = 0; i < people->count; i++)
        people->list[i].running = people->list[i].here;
    nodes_count(fleet->nodes, people);
    people_refresh(people);
}

void fleet_use_save(struct fleet *fleet)
{
    struct error err = { 0 };
    bool ok;

    charge_all(fleet);
    ok = people_save(&fleet->people, &err);
    if (!ok && !fleet->unsaved)
        log_line(fleet->log, LOG_ERROR, "watch: %s; trying again", err.text);
    fleet->unsaved = !ok;
}
