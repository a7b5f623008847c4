/* runner/spool/waiters.h - jobs of a spool that wait for other jobs, each with the name of
 * the first one that is not done: it is checked again when that one was handled. */
#ifndef RUNNER_SPOOL_WAITERS_H
#define RUNNER_SPOOL_WAITERS_H

#include <stdbool.h>

#include "runner/options/names.h"

struct item;

struct waiters {
    struct item **list; /* malloc'ed */
    size_t count, room;
    struct names *names;                             /* of all items */
    void (*check)(void *context, struct item *item); /* again, soon */
    void (*found)(void *context, const char *file);  /* which may be a new job */
    void *context;                                   /* of both */
};

/* Note that a job waits for the job `name`, without .yaml. */
void waiters_add(struct waiters *waiters, struct item *item, const char *name);
void waiters_remove(struct waiters *waiters, struct item *item);
/* Check the jobs that wait for this one. */
void waiters_wake(const struct waiters *waiters, const struct item *item);
/* Return whether a check of the job `name` is due: its state may be about an older text.
 * When that was handled, the jobs that wait for it must be woken in any case. */
bool waiters_await(const struct waiters *waiters, const char *name);
void waiters_clear(struct waiters *waiters);

#endif
