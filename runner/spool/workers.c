/* runner/spool/workers.c - a list that grows to the most jobs that ever ran at once. */
#include "config.h"

#include "runner/spool/workers.h"

#include <stdlib.h>

#include "base/arena.h"

struct worker *workers_take(struct workers *workers)
{
    struct worker *worker;

    for (size_t i = 0; i < workers->count; i++)
        if (!workers->list[i]->busy)
            return workers->list[i];
    worker = memory_alloc(sizeof(*worker));
    *worker = (struct worker) { .program = workers->program,
                                .node = workers->node,
                                .log = workers->log,
                                .no_sandbox = workers->no_sandbox,
                                .group = workers->group,
                                .roots = workers->roots,
                                .groups = workers->groups,
                                .limits = &workers->limits };
    workers->list =
        memory_resize(workers->list, workers->count + 1, sizeof(*workers->list));
    workers->list[workers->count++] = worker;
    return worker;
}

struct worker *workers_next(const struct workers *workers, const struct worker *after)
{
    bool passed = after == NULL;

    for (size_t i = 0; i < workers->count; i++) {
        if (passed && workers->list[i]->busy)
            return workers->list[i];
        passed |= workers->list[i] == after;
    }
    return NULL;
}

void workers_close(struct workers *workers)
{
    for (size_t i = 0; i < workers->count; i++) {
        worker_close(workers->list[i]);
        free(workers->list[i]);
    }
    free(workers->list);
    workers->list = NULL;
    workers->count = 0;
}
