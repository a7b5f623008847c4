/*
 * runner/spool/people.h - the users of a spool: what each has used, and what each may use.
 *
 * Use is counted in seconds of devices: each GPU that a job has counts whole, the CPU by
 * the share of its cores. It is kept by hours of the wall clock in .trainspool/usage, which
 * only the watch can read: neither a restart of the watch nor a user changes it.
 */
#ifndef RUNNER_SPOOL_PEOPLE_H
#define RUNNER_SPOOL_PEOPLE_H

#include <sys/types.h>

#include "runner/options/options.h"
#include "runner/spool/placement.h"

/* Of each user but root. */
struct people_limits {
    int64_t running, queued; /* jobs; -1: any number */
    double gpu_seconds;      /* in the last so many hours; below 0: any number */
    int64_t window;
};
/* Read --max-running, --max-queued and --gpu-hours. ERROR_USAGE. */
bool people_limits_read(const struct options *options, struct people_limits *out,
                        struct error *err);

struct person {
    uid_t user;
    size_t queued, running;    /* jobs; the caller counts them */
    size_t here;               /* those that run on this node */
    double gpu_seconds;        /* within the window; by people_refresh, as is the next */
    double use;                /* of all devices; one of a day ago counts half */
    struct people_hour *hours; /* in order; malloc'ed */
    size_t hour_count, hour_room;
    /* by queue_list: jobs of this user may start; how many users with such jobs have used
     * less */
    bool waits;
    size_t rank;
};

/* Zeroed at first, except for the limits. */
struct people {
    struct people_limits limits;
    bool on;     /* there are limits, or several users */
    bool shared; /* several users may drop jobs */
    struct person *list;
    size_t count, room;
    double saved;          /* wall time of the file; 0: there is none */
    double save_at;        /* clock_seconds */
    const char *node;      /* of people_open; it stays the caller's */
    struct people *others; /* what other nodes counted; malloc'ed, NULL: nothing */
    double others_at;      /* when to read that again, by clock_seconds */
    bool changed;
};

/* Read the file, in the current directory's SPOOL_INNER. `shared`: several users may drop
 * jobs. Without them or limits, nothing is counted. node: of nodes.h; each has a file of its
 * own, usage.NODE, and reads those of the others. */
void people_open(struct people *people, bool shared, const char *node);
void people_close(struct people *people); /* does not save */
/* Return the entry of a user, made if there is none. It moves when another one is made. */
struct person *people_find(struct people *people, uid_t user);

void people_charge(struct people *people, uid_t user, double gpu_seconds,
                   double device_seconds);
/* Write the file if something changed. ERROR_SYSTEM: it is tried again later. */
bool people_save(struct people *people, struct error *err);

/* Compute what the users have used until now. */
void people_refresh(struct people *people);
/* Compute the ranks of the users that wait. */
void people_rank(struct people *people);
/* Return how many users have jobs that may start. */
size_t people_waiting(const struct people *people);
/* Return why a job of that user may not start: PLACEMENT_RUNNING, PLACEMENT_HOURS, or
 * PLACEMENT_STARTS if it may. */
enum placement_verdict people_judge(const struct people *people,
                                    const struct person *person,
                                    const struct placement_need *need);
void people_describe(struct people *people, uid_t user, enum placement_verdict verdict,
                     char out[160]);
/* Return whether one more job of that user may wait; else the reason. */
bool people_may_queue(struct people *people, uid_t user, char out[256]);

#endif
