/*
 * runner/spool/queue.h - the order of jobs: the highest priority first, then the earliest
 * arrival. Holds only names; the files decide when a job's turn comes.
 */
#ifndef RUNNER_SPOOL_QUEUE_H
#define RUNNER_SPOOL_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queued {
    const char *name;
    int64_t priority;
    double arrived;    /* among jobs of one priority the earliest goes first */
    double not_before; /* clock_seconds: a job that crashed waits for a while */
};

struct queue {
    struct queued *list; /* in order, from `head` on */
    size_t head, count, room;
};

/* Return whether `a` goes before `b` if both may start. */
bool queue_precedes(const struct queued *a, const struct queued *b);

void queue_clear(struct queue *queue);
/* Add a job.  The name is copied.  A job that is already queued is moved. */
void queue_add(struct queue *queue, const struct queued *job);
void queue_remove(struct queue *queue, const char *name);
/* Remove and return the first job that is due; malloc'ed, NULL: none. */
char *queue_next(struct queue *queue, double now);
/* Return when the next job will be due; infinity for an empty queue. */
double queue_due(const struct queue *queue);
size_t queue_count(const struct queue *queue);

#endif
