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

char *queue_next(struct queue *queue, double now)
{
    for (size_t i = queue->head; i < queue->head + queue->count; i++)
        if (queue->list[i].not_before <= now) {
            char *name = (char *)queue->list[i].name;

            take_out(queue, i);
            return name;
        }
    return NULL;
}

double queue_due(const struct queue *queue)
{
    double due = INFINITY;

    for (size_t i = queue->head; i < queue->head + queue->count; i++)
        if (queue->list[i].not_before < due)
            due = queue->list[i].not_before;
    return due;
}

size_t queue_count(const struct queue *queue)
{
    return queue->count;
}
