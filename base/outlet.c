/* base/outlet.c - a ring of bytes between the writer and the thread. */
#include "config.h"

#include "base/outlet.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/size.h"

enum { CHUNK = 4 << 10 /* a pipe takes it whole or not at all */, STACK = 256 << 10 };

struct outlet {
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* by either side */
    pthread_t thread;
    bool started; /* the thread */
    bool begun;   /* the same, and it has come to its first line of code */
    int fd;
    outlet_notice *notice;
    char *ring;
    size_t room, from, len; /* `len` bytes from `from` on, around the end */
    size_t lost;            /* lines dropped and not reported */
    size_t before;          /* bytes of the ring that precede the first of them */
    size_t progress;        /* calls of write(2) that returned */
    int busy;               /* the descriptor that the thread writes to now; -1: none */
    int stale;              /* to be closed after that; -1: none */
    bool failed;            /* the last one failed */
    bool cut;               /* the last line was not written to its end */
    bool rest;              /* the ring begins within a line */
    bool over;              /* no more lines follow */
    bool orphan;            /* the owner did not wait: the thread frees the outlet */
};

static size_t count_lines(const char *data, size_t len)
{
    size_t lines = 0;
    const char *end = data + len;

    while ((data = memchr(data, '\n', (size_t)(end - data)))) {
        lines++;
        data++;
    }
    return lines;
}

static void destroy(struct outlet *outlet)
{
    pthread_cond_destroy(&outlet->changed);
    pthread_mutex_destroy(&outlet->mutex);
    free(outlet->ring);
    free(outlet);
}

/* Copy the next bytes; they stay in the ring until they are written. */
static size_t peek(const struct outlet *outlet, char *out)
{
    size_t len = size_min(outlet->before > 0 ? outlet->before : outlet->len, CHUNK);
    size_t first = size_min(len, outlet->room - outlet->from);

    memcpy(out, outlet->ring + outlet->from, first);
    memcpy(out + first, outlet->ring, len - first);
    return len;
}

static void consume(struct outlet *outlet, size_t len)
{
    if (len > 0)
        outlet->rest = outlet->ring[(outlet->from + len - 1) % outlet->room] != '\n';
    outlet->from = (outlet->from + len) % outlet->room;
    outlet->len -= len;
    outlet->before -= size_min(len, outlet->before);
}

static void lose(struct outlet *outlet, size_t lines)
{
    if (outlet->lost == 0)
        outlet->before = outlet->len;
    outlet->lost += lines;
}

/* Write once, and wait if the descriptor does not block.  Return -1 if that fails. */
static ssize_t write_some(int fd, const char *data, size_t len)
{
    for (;;) {
        ssize_t done = write(fd, data, len);

        if (done >= 0)
            return done;
        if (errno == EAGAIN)
            poll(&(struct pollfd) { .fd = fd, .events = POLLOUT }, 1, 1000);
        else if (errno != EINTR)
            return -1;
    }
}

/* Return the bytes up to the end of the last line. */
static ssize_t whole_lines(const char *data, ssize_t len)
{
    const char *end = len > 0 ? memrchr(data, '\n', (size_t)len) : NULL;

    return end ? end + 1 - data : 0;
}

/* Write without the mutex.  If the outlet was redirected meanwhile, the lines that are
 * whole in the old file count as written; return false if there are none. */
static bool write_unlocked(struct outlet *outlet, const char *data, size_t len,
                           ssize_t *done)
{
    int fd = outlet->fd;

    outlet->busy = fd;
    pthread_mutex_unlock(&outlet->mutex);
    *done = write_some(fd, data, len);
    pthread_mutex_lock(&outlet->mutex);
    outlet->busy = -1;
    if (outlet->stale >= 0)
        close(outlet->stale);
    outlet->stale = -1;
    outlet->progress++;
    if (fd != outlet->fd)
        return (*done = whole_lines(data, *done)) > 0;
    outlet->failed = *done < 0;
    if (*done > 0)
        outlet->cut = data[*done - 1] != '\n';
    return true;
}

/* Report the lines that were dropped.  If that is not possible, their number stays. */
static void write_notice(struct outlet *outlet)
{
    size_t lost = outlet->lost;
    char line[256] = "\n"; /* ends a line that was cut */
    size_t extra = outlet->cut;
    ssize_t done;

    outlet->notice(outlet->fd, lost, line + extra, sizeof(line) - extra);
    if (write_unlocked(outlet, line, strlen(line), &done) && done > 0)
        outlet->lost -= lost;
}

/* Write the next bytes of the ring. */
static void write_chunk(struct outlet *outlet)
{
    char chunk[CHUNK + 1] = "\n";
    size_t extra = outlet->cut && !outlet->rest, len = peek(outlet, chunk + extra);
    ssize_t done;

    if (!write_unlocked(outlet, chunk, len + extra, &done))
        return;
    if (done < 0) {
        /* drop up to the end of a line: the next attempt begins with a whole one */
        const char *end = memrchr(chunk + extra, '\n', len);

        len = end ? (size_t)(end + 1 - (chunk + extra)) : len;
        consume(outlet, len);
        outlet->before = 0;
        outlet->lost += count_lines(chunk + extra, len);
    } else if ((size_t)done >= extra) {
        consume(outlet, (size_t)done - extra);
    }
}

/* Return whether there is something to write now.  After a failure, only a new line is a
 * reason to try again. */
static bool has_work(const struct outlet *outlet)
{
    return outlet->len > 0 || (outlet->lost > 0 && !outlet->failed);
}

static void *write_all(void *context)
{
    struct outlet *outlet = context;
    bool orphan;

    pthread_mutex_lock(&outlet->mutex);
    outlet->begun = true;
    pthread_cond_broadcast(&outlet->changed);
    for (;;) {
        while (!has_work(outlet) && !outlet->over)
            pthread_cond_wait(&outlet->changed, &outlet->mutex);
        if (!has_work(outlet) || outlet->orphan)
            break;
        if (outlet->lost > 0 && outlet->before == 0)
            write_notice(outlet);
        if (outlet->len > 0)
            write_chunk(outlet);
        pthread_cond_broadcast(&outlet->changed);
    }
    orphan = outlet->orphan;
    outlet->started = false;
    pthread_cond_broadcast(&outlet->changed);
    pthread_mutex_unlock(&outlet->mutex);
    if (orphan)
        destroy(outlet);
    return NULL;
}

/* A thread that cannot be started now is started with a later line. Wait until it has
 * begun: a thread that is being made allocates memory, and a child that is forked meanwhile
 * inherits the locks of AddressSanitizer as they are. Later it allocates nothing. */
static void start(struct outlet *outlet)
{
    pthread_attr_t attributes;
    sigset_t all, before;

    if (outlet->started)
        return;
    sigfillset(&all); /* SIGPIPE, too */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    outlet->begun = false;
    outlet->started =
        pthread_create(&outlet->thread, &attributes, write_all, outlet) == 0;
    while (outlet->started && !outlet->begun)
        pthread_cond_wait(&outlet->changed, &outlet->mutex);
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

struct outlet *outlet_new(int fd, size_t bytes, outlet_notice *notice)
{
    struct outlet *outlet = memory_alloc(sizeof(*outlet));
    pthread_condattr_t attributes;

    *outlet = (struct outlet) {
        .fd = fd, .busy = -1, .stale = -1, .notice = notice, .room = bytes
    };
    outlet->ring = memory_alloc(bytes);
    pthread_mutex_init(&outlet->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&outlet->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    return outlet;
}

static void append(struct outlet *outlet, const char *lines, size_t len)
{
    size_t at = (outlet->from + outlet->len) % outlet->room;
    size_t first = size_min(len, outlet->room - at);

    memcpy(outlet->ring + at, lines, first);
    memcpy(outlet->ring, lines + first, len - first);
    outlet->len += len;
}

void outlet_add(struct outlet *outlet, const char *lines, size_t len)
{
    pthread_mutex_lock(&outlet->mutex);
    if (len <= outlet->room - outlet->len)
        append(outlet, lines, len);
    else
        lose(outlet, count_lines(lines, len));
    start(outlet);
    pthread_cond_broadcast(&outlet->changed);
    pthread_mutex_unlock(&outlet->mutex);
}

void outlet_redirect(struct outlet *outlet, int fd, bool close_previous)
{
    pthread_mutex_lock(&outlet->mutex);
    if (close_previous && outlet->busy == outlet->fd)
        outlet->stale = outlet->fd;
    else if (close_previous)
        close(outlet->fd);
    outlet->fd = fd;
    outlet->failed = outlet->cut = false;
    pthread_cond_broadcast(&outlet->changed);
    pthread_mutex_unlock(&outlet->mutex);
}

/* Wait for a change, for at most `seconds`. */
static void wait_for_change(struct outlet *outlet, double seconds)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)seconds;
    until.tv_nsec += (long)(1e9 * (seconds - (double)(time_t)seconds));
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&outlet->changed, &outlet->mutex, &until);
}

void outlet_free(struct outlet *outlet, double seconds)
{
    double last = clock_seconds();
    size_t progress;
    bool orphan;

    if (!outlet)
        return;
    pthread_mutex_lock(&outlet->mutex);
    outlet->over = true;
    if (has_work(outlet))
        start(outlet);
    pthread_cond_broadcast(&outlet->changed);
    progress = outlet->progress;
    while (outlet->started && clock_seconds() - last < seconds) {
        wait_for_change(outlet, seconds);
        if (outlet->progress != progress)
            last = clock_seconds();
        progress = outlet->progress;
    }
    /* a write that does not return keeps the memory that it reads */
    orphan = outlet->orphan = outlet->started;
    pthread_mutex_unlock(&outlet->mutex);
    if (!orphan)
        destroy(outlet);
}
