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
    /* one that is raised while it waits keeps its position among those that wait too */
    double one = a->arrived - (double)a->priority * QUEUE_PRIORITY_SECONDS;
    double two = b->arrived - (double)b->priority * QUEUE_PRIORITY_SECONDS;

    return one != two && !isnan(one) && !isnan(two) ? one < two
                                                    : a->priority > b->priority;
}

/* Return the position of a job, or of the end. */
static size_t find(const struct queue *queue, const char *name)
{
    size_t at = queue->head, end = queue->head + queue->count;

    while (at < end && strcmp(queue->list[at].name, name) != 0)
        at++;
    return at;
}

bool queue_has(const struct queue *queue, const char *name)
{
    return find(queue, name) < queue->head + queue->count;
}

void queue_add(struct queue *queue, const struct queued *job)
{
    size_t at = find(queue, job->name);
    struct placement_waiting waiting = job->waiting;
    struct placement_answer answer = job->answer;

    if (at < queue->head + queue->count) {
        waiting.since = queue->list[at].waiting.since;
        waiting.passes = queue->list[at].waiting.passes;
        answer = queue->list[at].answer;
    }
    queue_remove(queue, job->name);
    make_room(queue);
    at = queue->head + queue->count;
    while (at > queue->head && queue_precedes(job, &queue->list[at - 1])) {
        queue->list[at] = queue->list[at - 1];
        at--;
    }
    queue->list[at] = *job;
    queue->list[at].name = memory_strdup(job->name);
    queue->list[at].waiting = waiting;
    queue->list[at].answer = answer;
    queue->count++;
}

/* ---- Several users ---- */

struct turn {
    struct queued *job;
    double key;
};

static int by_key(const void *a, const void *b)
{
    const struct turn *one = a, *two = b;

    if (one->key != two->key)
        return one->key < two->key ? -1 : 1;
    return (one->job > two->job) - (one->job < two->job);
}

static bool is_due(const struct queue *queue, const struct queued *job, bool tried,
                   double now)
{
    return job->not_before <= now && (job->tried == queue_round(queue)) == tried;
}

/* Note who has jobs that may start, and what the others wait for. */
static void judge_all(struct queue *queue, struct people *people, double now)
{
    for (size_t i = 0; i < people->count; i++)
        people->list[i].waits = false;
    for (size_t at = queue->head; at < queue->head + queue->count; at++) {
        struct queued *job = &queue->list[at];
        struct person *person = people_find(people, job->user);
        const enum placement_verdict verdict =
            people_judge(people, person, &job->waiting.need);

        if (job->barred || verdict != PLACEMENT_STARTS)
            job->answer = (struct placement_answer) { .verdict = verdict };
        job->barred = verdict != PLACEMENT_STARTS;
        person->waits |= !job->barred && job->not_before <= now;
    }
    people_rank(people);
}

/* Append the jobs by the use of their owners. */
static size_t list_fairly(struct queue *queue, struct people *people, bool tried,
                          double now, struct queued *out[], size_t most)
{
    struct turn *turns = memory_resize(NULL, queue->count + 1, sizeof(*turns));
    size_t count = 0;

    for (size_t at = queue->head; at < queue->head + queue->count; at++) {
        struct queued *job = &queue->list[at];
        double arrived = isnan(job->arrived) ? 0 : job->arrived;

        if (!job->barred && is_due(queue, job, tried, now))
            turns[count++] = (struct turn) {
                job, arrived - (double)job->priority * QUEUE_PRIORITY_SECONDS +
                         (double)people_find(people, job->user)->rank * QUEUE_USE_SECONDS
            };
    }
    qsort(turns, count, sizeof(*turns), by_key);
    count = count < most ? count : most;
    for (size_t i = 0; i < count; i++)
        out[i] = turns[i].job;
    free(turns);
    return count;
}

static size_t list_in_order(struct queue *queue, bool tried, double now,
                            struct queued *out[], size_t most)
{
    size_t count = 0;

    for (size_t at = queue->head; at < queue->head + queue->count && count < most; at++)
        if (is_due(queue, &queue->list[at], tried, now))
            out[count++] = &queue->list[at];
    return count;
}

size_t queue_list(struct queue *queue, struct people *people, double now,
                  struct queued *out[], size_t most)
{
    size_t count = 0;

    if (now < queue->paused_until)
        return 0;
    if (people)
        judge_all(queue, people, now);
    for (int tried = 0; tried <= 1; tried++)
        count += people
                     ? list_fairly(queue, people, tried, now, out + count, most - count)
                     : list_in_order(queue, tried, now, out + count, most - count);
    return count;
}

struct queued *queue_find_submitted(struct queue *queue, bool people, bool left,
                                    double now)
{
    if (now < queue->paused_until)
        return NULL;
    for (size_t at = queue->head; at < queue->head + queue->count; at++) {
        struct queued *job = &queue->list[at];

        if (placement_is_submitted(&job->waiting.need) && (job->left || !left) &&
            is_due(queue, job, false, now) && !(people && job->barred))
            return job;
    }
    return NULL;
}

bool queue_is_barred(const struct queue *queue, double now)
{
    for (size_t at = queue->head; at < queue->head + queue->count; at++)
        if (!queue->list[at].barred)
            return false;
    return queue->count > 0 && now >= queue->paused_until;
}

char *queue_take(struct queue *queue, struct queued *job)
{
    char *name = (char *)job->name;

    if (job->tried == queue_round(queue)) /* all others wait, or were tried too */
        queue_end_round(queue);
    take_out(queue, (size_t)(job - queue->list));
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

double queue_due_again(const struct queue *queue, double since, double again)
{
    double due = INFINITY;

    for (size_t i = queue->head; i < queue->head + queue->count; i++) {
        double next = queue->list[i].not_before;

        due = fmin(due, next > since ? next : again);
    }
    return fmax(due, queue->paused_until);
}

double queue_due(const struct queue *queue)
{
    return queue_due_again(queue, -INFINITY, INFINITY);
}

size_t queue_count(const struct queue *queue)
{
    return queue->count;
}
