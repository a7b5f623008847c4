/*
 * runner/spool/queue.c - a sorted array: most jobs are added at the end and removed at
 * the front.
 */
#include "config.h"

#include "runner/spool/queue.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

void queue_clear(struct queue *queue)
{
    for (size_t i = 0; i < queue->count; i++)
        free((char *)queue->list[queue->head + i].name);
    free(queue->list);
    *queue = (struct queue) { 0 };
}

static void take_out(struct queue *queue, size_t at)
{
    if (at == queue->head)
        queue->head++;
    else
        memmove(queue->list + at, queue->list + at + 1,
                (queue->head + queue->count - at - 1) * sizeof(*queue->list));
    queue->count--;
}

void queue_remove(struct queue *queue, const char *name)
{
    for (size_t i = queue->head; i < queue->head + queue->count; i++)
        if (strcmp(queue->list[i].name, name) == 0) {
            free((char *)queue->list[i].name);
            take_out(queue, i);
            return;
        }
}

static void make_room(struct queue *queue)
{
    if (queue->head + queue->count < queue->room)
        return;
    if (queue->head > queue->room / 2) {
        memmove(queue->list, queue->list + queue->head,
                queue->count * sizeof(*queue->list));
        queue->head = 0;
        return;
    }
    queue->room = queue->room ? 2 * queue->room : 16;
    queue->list = memory_resize(queue->list, queue->room, sizeof(*queue->list));
}

bool queue_precedes(const struct queued *a, const struct queued *b)
{
    return a->priority != b->priority ? a->priority > b->priority
                                      : a->arrived < b->arrived;
}

void queue_add(struct queue *queue, const struct queued *job)
{
    size_t at;

    queue_remove(queue, job->name);
    make_room(queue);
    at = queue->head + queue->count;
    while (at > queue->head && queue_precedes(job, &queue->list[at - 1])) {
        queue->list[at] = queue->list[at - 1];
        at--;
    }
    queue->list[at] = *job;
    queue->list[at].name = memory_strdup(job->name);
    queue->count++;
}

/* Return the position of the first job that is due, or of the end. */
static size_t find_due(const struct queue *queue, double now, bool tried)
{
    size_t at = queue->head, end = queue->head + queue->count;

    while (at < end && (queue->list[at].not_before > now ||
                        (queue->list[at].tried == queue_round(queue)) != tried))
        at++;
    return at;
}

char *queue_next(struct queue *queue, double now)
{
    size_t end = queue->head + queue->count, at;
    char *name;

    if (now < queue->paused_until)
        return NULL;
    at = find_due(queue, now, false);
    if (at == end) {
        at = find_due(queue, now, true);
        if (at < end)
            queue_end_round(queue);
    }
    if (at == end)
        return NULL;
    name = (char *)queue->list[at].name;
    take_out(queue, at);
    return name;
}

void queue_pause(struct queue *queue, double until)
{
    queue->paused_until = until;
}

uint64_t queue_round(const struct queue *queue)
{
    return queue->round + 1;
}

void queue_end_round(struct queue *queue)
{
    queue->round++;
}

double queue_due(const struct queue *queue)
{
    double due = INFINITY;

    for (size_t i = queue->head; i < queue->head + queue->count; i++)
        if (queue->list[i].not_before < due)
            due = queue->list[i].not_before;
    return due > queue->paused_until ? due : queue->paused_until;
}

size_t queue_count(const struct queue *queue)
{
    return queue->count;
}
