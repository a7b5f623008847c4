/*
 * runner/spool/queue.h - which job next: the highest priority, then who came first.  Holds
 * names only; what is in the files decides when its turn comes.
 */
#ifndef RUNNER_SPOOL_QUEUE_H
#define RUNNER_SPOOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queued {
    const char *name;
    int64_t priority;
    double arrived;    /* of two with one priority the one that came first goes first */
    double not_before; /* clock_seconds: a job that crashed waits a little */
};

struct queue {
    struct queued *list; /* in order, from `head` on */
    size_t head, count, room;
};

/* Of two that may both begin. */
bool queue_goes_before(const struct queued *a, const struct queued *b);

void queue_clear(struct queue *queue);
/* The name is copied.  One that is in it already is moved. */
void queue_add(struct queue *queue, const struct queued *job);
void queue_remove(struct queue *queue, const char *name);
/* The first whose time has come, taken out; malloc'ed, NULL: none. */
char *queue_next(struct queue *queue, double now);
/* When the next will be due; infinity for an empty queue. */
double queue_due(const struct queue *queue);
size_t queue_count(const struct queue *queue);

#endif
