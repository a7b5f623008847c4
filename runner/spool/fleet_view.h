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
    /* of several watches: which (node_signs.h); "": the watch is alone */
    char node[NODE_NAME_ROOM];
    double age;             /* seconds since its last sign of life; NaN: not known */
    bool alive;             /* without it the rest is not known */
    int64_t slots, running; /* slots 0: as many as fit */
    int64_t submitted;      /* jobs in Slurm, which take no slot */
    struct fleet_view_device devices[PROBE_MAX];
    size_t device_count;
    json_t *waits, *turns; /* for fleet_views_wait and fleet_views_turn */
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

/* What all watches of a spool show, by the names of their nodes. */
struct fleet_views {
    struct fleet_view *list; /* malloc'ed */
    size_t count;
};
/* Read the views of a spool; none if no watch runs there, and if its view cannot be read. */
void fleet_views_read(const char *spool, struct fleet_views *out);
void fleet_views_clear(struct fleet_views *views);
/* Return what a job waits for, "waits for 3.1 GiB on cuda:0", by its file's name; NULL: it
 * is not known. */
const char *fleet_views_wait(const struct fleet_views *views, const char *file);
/* Return the turn of a job among those of several users, from 1; 0: it is not known. */
size_t fleet_views_turn(const struct fleet_views *views, const char *file);
/* Return the view of a node; NULL: there is none. */
const struct fleet_view *fleet_views_find(const struct fleet_views *views,
                                          const char *node);
/* Append "2 of 4 slots in use", or how many jobs run; after the name of a node, which may be
 * dead. */
void fleet_view_describe_slots(const struct fleet_view *view, struct text *out);
/* Append what a device does: "cuda:0: 1 job, 3.1 of 16.0 GiB planned, 12.4 GiB free". */
void fleet_view_describe_device(const struct fleet_view_device *device, struct text *out);

#endif
