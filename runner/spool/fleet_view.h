/*
 * runner/spool/fleet_view.h - what a watch shows of its devices and of what jobs wait for:
 * the file .trainspool/fleet.json, for `status` and other readers. It is no record: a
 * watch replaces it when it changes, and reads nothing from it.
 */
#ifndef RUNNER_SPOOL_FLEET_VIEW_H
#define RUNNER_SPOOL_FLEET_VIEW_H

#include "base/json.h"
#include "runner/spool/fleet.h"

struct fleet_view_device {
    char name[16];                     /* cpu, cuda:0 */
    char model[96];                    /* "Tesla T4" */
    double memory, available, planned; /* bytes; planned by all of its jobs */
    int64_t jobs;
    char ill[160]; /* why it gets no job; "": it gets jobs */
};

struct fleet_view {
    int64_t slots, running; /* slots 0: as many as fit */
    int64_t submitted;      /* jobs in Slurm, which take no slot */
    struct fleet_view_device devices[PROBE_MAX];
    size_t device_count;
    json_t *waits, *turns; /* for fleet_view_wait and fleet_view_turn */
};

/* The watch: writes the view. Zeroed at first. */
struct fleet_writer {
    char *last;       /* text, malloc'ed */
    double due;       /* clock_seconds */
    bool skipped;     /* it was too early */
    const char *node; /* of nodes.h, with a file of its own; "": the watch is alone */
};
/* Write the view into the current directory's SPOOL_INNER if it has changed, at most twice a
 * second. A failure is no fault of the watch. */
void fleet_writer_poll(struct fleet_writer *writer, struct fleet *fleet,
                       struct queue *queue);
/* Return when to call it again, by clock_seconds. */
double fleet_writer_due(const struct fleet_writer *writer);
/* Remove the file. */
void fleet_writer_close(struct fleet_writer *writer);

/* Read the view of a spool. Return false if no watch runs there, or if its view cannot be
 * read; *out is then empty. */
bool fleet_view_read(const char *spool, struct fleet_view *out);
void fleet_view_clear(struct fleet_view *view);
/* Return what a job waits for, "waits for 3.1 GiB on cuda:0", by its file's name; NULL: it
 * is not known. */
const char *fleet_view_wait(const struct fleet_view *view, const char *file);
/* Return the turn of a job among those of several users, from 1; 0: it is not known. */
size_t fleet_view_turn(const struct fleet_view *view, const char *file);
/* Append "2 of 4 slots in use", or how many jobs run. */
void fleet_view_describe_slots(const struct fleet_view *view, struct text *out);
/* Append what a device does: "cuda:0: 1 job, 3.1 of 16.0 GiB planned, 12.4 GiB free". */
void fleet_view_describe_device(const struct fleet_view_device *device, struct text *out);

#endif
