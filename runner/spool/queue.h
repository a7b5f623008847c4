/*
 * runner/spool/queue.h - the order of jobs: by priority and arrival. Holds only names; the
 * files decide when a job's turn comes.
 */
#ifndef RUNNER_SPOOL_QUEUE_H
#define RUNNER_SPOOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "runner/spool/people.h"

/* A job with a higher priority goes before those that arrived up to this many seconds
 * earlier for each step of priority, so that no job waits forever. */
#define QUEUE_PRIORITY_SECONDS 600
/* A job goes before those that arrived up to this many seconds earlier for each user that
 * has used more than its owner: the same way, use never makes a job wait forever. */
#define QUEUE_USE_SECONDS 86400

struct queued {
    const char *name;
    uid_t user; /* as which it runs */
    int64_t priority;
    double arrived;    /* among jobs of one priority the earliest goes first */
    double not_before; /* clock_seconds: a job that crashed waits for a while */
    uint64_t tried;    /* the round in which it could not be started; 0: none */
    bool left;         /* Slurm may have a submission of it */
    bool examined;     /* again, because it fits nowhere */
    bool barred;       /* used by queue_list: by a limit of its owner */
    struct placement_waiting waiting;
    struct placement_answer answer; /* the last one; STARTS: none yet */
};

/* After a fault of the machine no job starts for a while. Then the jobs that were not
 * tried in this round come first, because the fault may be of one job's files alone. A
 * round ends when a job runs, or when all were tried. */
struct queue {
    struct queued *list; /* in order, from `head` on */
    size_t head, count, room;
    double paused_until; /* clock_seconds */
    uint64_t round;
};

/* Return whether `a` goes before `b` if both may start. */
bool queue_precedes(const struct queued *a, const struct queued *b);

void queue_clear(struct queue *queue);
/* Add a job.  The name is copied.  A job that is already queued is moved, and keeps how
 * long it has waited for its devices. */
void queue_add(struct queue *queue, const struct queued *job);
void queue_remove(struct queue *queue, const char *name);
bool queue_has(const struct queue *queue, const char *name);
/* List the jobs that are due in the order in which they may start; return how many, at
 * most `most`. They stay valid until the queue is changed. people: refreshed, or NULL;
 * jobs that may not start because of a limit of their owner are left out, and have that
 * as their answer. */
size_t queue_list(struct queue *queue, struct people *people, double now,
                  struct queued *out[], size_t most);
/* Return the first job that is due and that Slurm runs, or NULL. people: as judged by
 * queue_list; left: only one of which Slurm may have a submission. */
struct queued *queue_find_submitted(struct queue *queue, bool people, bool left,
                                    double now);
/* Return whether limits of their owners kept all jobs out of the last list. */
bool queue_is_barred(const struct queue *queue, double now);
/* Remove a job of the list and return its name, malloc'ed. */
char *queue_take(struct queue *queue, struct queued *job);
void queue_pause(struct queue *queue, double until);
/* Return the present round, for `tried`. */
uint64_t queue_round(const struct queue *queue);
void queue_end_round(struct queue *queue);
/* Return when the next job will be due; infinity for an empty queue. */
double queue_due(const struct queue *queue);
/* The same, where a job that was due at `since` will be looked at again at `again`. */
double queue_due_again(const struct queue *queue, double since, double again);
size_t queue_count(const struct queue *queue);

#endif
