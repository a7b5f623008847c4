/* base/ticks.c - threads that wait for the time, or until an eventfd says that they end. */
#include "config.h"

#include "base/ticks.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { MOST = 4 };

static struct tick ticks[MOST];
static pthread_t threads[MOST];
static size_t running;
static pid_t process; /* whose threads they are */
static int end = -1;  /* readable: the threads end */

static void *repeat(void *context)
{
    const struct tick *tick = context;
    struct pollfd ended = { .fd = end, .events = POLLIN };

    while (poll(&ended, 1, (int)(tick->seconds * 1000)) <= 0)
        tick->call();
    return NULL;
}

/* Signals go to other threads. */
static bool start_all(size_t count, struct error *err)
{
    sigset_t all, before;
    int failed = 0;

    end = eventfd(0, EFD_CLOEXEC);
    if (end < 0)
        return error_errno(err, "cannot create an eventfd");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (running = 0; running < count && !failed; running += !failed)
        failed = pthread_create(&threads[running], NULL, repeat, &ticks[running]);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = failed;
    return !failed || error_errno(err, "cannot start a thread");
}

bool ticks_start(const struct tick list[], size_t count, struct error *err)
{
    assert(count <= MOST && process != getpid());
    for (size_t i = 0; i < count; i++)
        ticks[i] = list[i];
    process = getpid();
    return start_all(count, err);
}

bool ticks_restart(struct error *err)
{
    const uint64_t one = 1;
    const size_t count = running;

    if (count == 0 || process != getpid())
        return true;
    if (write(end, &one, sizeof(one)) != sizeof(one))
        return error_errno(err, "cannot end a thread");
    for (size_t i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    close(end);
    return start_all(count, err);
}
