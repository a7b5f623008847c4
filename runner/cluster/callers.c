/* runner/cluster/callers.c - a table of connections, and a poll of all of them. */
#include "config.h"

#include "runner/cluster/callers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/net.h"

/* At the same time; one more takes the place of the oldest. */
enum { CALLERS = 64 };

struct caller {
    int fd;
    double until;
    size_t got;
    char *message;
};

struct callers {
    size_t bytes, count;
    double seconds;
    struct caller list[CALLERS]; /* the oldest first */
};

struct callers *callers_new(size_t bytes, double seconds)
{
    struct callers *callers = memory_alloc(sizeof(*callers));

    *callers = (struct callers) { .bytes = bytes, .seconds = seconds };
    return callers;
}

/* Forget a caller; the connection stays open. */
static void forget(struct callers *callers, size_t at)
{
    free(callers->list[at].message);
    callers->count--;
    memmove(callers->list + at, callers->list + at + 1,
            (callers->count - at) * sizeof(*callers->list));
}

static void drop(struct callers *callers, size_t at)
{
    close(callers->list[at].fd);
    forget(callers, at);
}

static bool add(struct callers *callers, int listener, struct error *err)
{
    struct error own = { 0 };
    int fd = net_accept(listener, 0, &own);

    if (fd < 0)
        return own.code == ERROR_NONE || error_set(err, own.code, "%s", own.text);
    if (callers->count == CALLERS)
        drop(callers, 0);
    callers->list[callers->count++] =
        (struct caller) { .fd = fd,
                          .until = clock_seconds() + callers->seconds,
                          .message = memory_alloc(callers->bytes) };
    return true;
}

/* Read what has come. False: the caller has gone, or its time is over. */
static bool advance(const struct callers *callers, struct caller *caller)
{
    ssize_t got;

    do {
        got = recv(caller->fd, caller->message + caller->got,
                   callers->bytes - caller->got, MSG_DONTWAIT);
        caller->got += got > 0 ? (size_t)got : 0;
    } while ((got > 0 && caller->got < callers->bytes) || (got < 0 && errno == EINTR));
    if (caller->got == callers->bytes)
        return true;
    return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) &&
           clock_seconds() < caller->until;
}

/* Return a connection whose message is complete, or -1. */
static int find_complete(struct callers *callers, void *message)
{
    for (size_t i = callers->count; i-- > 0;) {
        struct caller *caller = &callers->list[i];
        const int fd = caller->fd;

        if (!advance(callers, caller)) {
            drop(callers, i);
        } else if (caller->got == callers->bytes) {
            memcpy(message, caller->message, callers->bytes);
            forget(callers, i);
            return fd;
        }
    }
    return -1;
}

/* Wait until a caller or the listener may have something. */
static bool wait_for_any(const struct callers *callers, int listener, double seconds)
{
    struct pollfd polls[CALLERS + 1] = { { .fd = listener, .events = POLLIN } };

    for (size_t i = 0; i < callers->count; i++)
        polls[i + 1] = (struct pollfd) { .fd = callers->list[i].fd, .events = POLLIN };
    return poll(polls, callers->count + 1, seconds > 0 ? (int)(seconds * 1000) + 1 : 0) >
               0 &&
           polls[0].revents != 0;
}

int callers_next(struct callers *callers, int listener, double seconds, void *message,
                 struct error *err)
{
    const double until = clock_seconds() + seconds;
    int fd = find_complete(callers, message);

    while (fd < 0 && clock_seconds() < until) {
        if (wait_for_any(callers, listener, until - clock_seconds()) &&
            !add(callers, listener, err))
            return -1;
        fd = find_complete(callers, message);
    }
    return fd;
}

void callers_free(struct callers *callers)
{
    while (callers && callers->count > 0)
        drop(callers, callers->count - 1);
    free(callers);
}
