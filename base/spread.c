/* base/spread.c - threads that take the next part until none is left. */
#include "config.h"

#include "base/spread.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/size.h"

enum { MOST_THREADS = 8 };

struct work {
    size_t count, grain;
    void (*each)(void *context, size_t from, size_t to);
    void *context;
    atomic_size_t next;
};

static void *take_parts(void *context)
{
    struct work *work = context;
    size_t from;

    while ((from = atomic_fetch_add(&work->next, work->grain)) < work->count)
        work->each(work->context, from, size_min(from + work->grain, work->count));
    return NULL;
}

static size_t usable_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? (size_t)CPU_COUNT(&set) : 1;
}

void spread_each(size_t count, size_t grain,
                 void (*each)(void *context, size_t from, size_t to), void *context)
{
    struct work work = { count, grain, each, context, 0 };
    pthread_t threads[MOST_THREADS];
    size_t parts = size_divide_up(count, grain), wanted = size_min(parts, MOST_THREADS);
    size_t started = 0;
    sigset_t all, before;

    if (wanted > 1)
        wanted = size_min(wanted, usable_cores());
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    /* a thread that cannot be started leaves its parts to the others */
    while (started + 1 < wanted &&
           pthread_create(&threads[started], NULL, take_parts, &work) == 0)
        started++;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    take_parts(&work);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
}
