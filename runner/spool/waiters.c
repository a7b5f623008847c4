/* runner/spool/waiters.c - a list that is searched: few jobs wait for others. */
#include "config.h"

#include "runner/spool/waiters.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/size.h"
#include "runner/spool/intake.h"

void waiters_remove(struct waiters *waiters, struct item *item)
{
    if (!item->waits_for)
        return;
    free(item->waits_for);
    item->waits_for = NULL;
    for (size_t i = 0; i < waiters->count; i++)
        if (waiters->list[i] == item) {
            waiters->list[i] = waiters->list[--waiters->count];
            return;
        }
}

void waiters_add(struct waiters *waiters, struct item *item, const char *name)
{
    if (item->waits_for && strcmp(item->waits_for, name) == 0)
        return;
    waiters_remove(waiters, item);
    item->waits_for = memory_strdup(name);
    if (waiters->count == waiters->room) {
        waiters->room = waiters->room ? 2 * waiters->room : 16;
        waiters->list =
            memory_resize(waiters->list, waiters->room, sizeof(*waiters->list));
    }
    waiters->list[waiters->count++] = item;
}

void waiters_wake(const struct waiters *waiters, const struct item *item)
{
    struct job job;

    if (waiters->count == 0)
        return;
    job_init(&job, item->name);
    for (size_t i = 0; i < waiters->count; i++)
        if (strcmp(waiters->list[i]->waits_for, job.name) == 0) {
            waiters->list[i]->known[0] = 0;
            waiters->check(waiters->context, waiters->list[i]);
        }
    job_clear(&job);
}

bool waiters_await(const struct waiters *waiters, const char *name)
{
    static const char *const endings[] = { ".yaml", ".yml" };
    bool pending = false;

    for (size_t i = 0; i < TS_COUNT(endings); i++) {
        char file[NAME_MAX + 1];
        struct item *item;

        snprintf(file, sizeof(file), "%s%s", name, endings[i]);
        item = names_find(waiters->names, file);
        if (item && item->pending) {
            item->awaited = true;
            pending = true;
        }
    }
    return pending;
}

void waiters_clear(struct waiters *waiters)
{
    free(waiters->list);
    waiters->list = NULL;
    waiters->count = waiters->room = 0;
}
