/* base/exchange.c - nonblocking sends and receives, and a poll between them. */
#include "config.h"

#include "base/exchange.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/arena.h"
#include "base/link.h"

enum { LOOK_MILLISECONDS = 1000 }; /* between looks at peers that do not answer */

static bool is_complete(const struct transfer *transfer)
{
    return transfer->done == transfer->bytes;
}

/* Move what the socket takes or has at once. False: the peer has ended. */
static bool advance(struct transfer *transfer)
{
    while (!is_complete(transfer)) {
        const size_t left = transfer->bytes - transfer->done;
        ssize_t moved =
            transfer->from
                ? send(transfer->end, (const char *)transfer->from + transfer->done, left,
                       MSG_NOSIGNAL | MSG_DONTWAIT)
                : recv(transfer->end, (char *)transfer->to + transfer->done, left,
                       MSG_DONTWAIT);

        if (moved > 0)
            transfer->done += (size_t)moved;
        else if (moved == 0 ||
                 (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return false;
        else if (errno != EINTR)
            return true;
    }
    return true;
}

static bool set_ended(struct error *err)
{
    return error_set(err, ERROR_SYSTEM, LINK_OTHER_ENDED);
}

/* Wait until a transfer can continue. */
static bool wait_for_any(const struct transfer list[], size_t count, struct pollfd *polls)
{
    nfds_t pending = 0;

    for (size_t i = 0; i < count; i++)
        if (!is_complete(&list[i]))
            polls[pending++] =
                (struct pollfd) { .fd = list[i].end,
                                  .events = list[i].from ? POLLOUT : POLLIN };
    while (poll(polls, pending, LOOK_MILLISECONDS) <= 0)
        for (nfds_t i = 0; i < pending; i++)
            if (!link_is_alive(polls[i].fd))
                return false;
    return true;
}

bool exchange(struct transfer list[], size_t count, struct error *err)
{
    struct pollfd *polls = memory_alloc((count + 1) * sizeof(*polls));
    bool ok = true, complete = false;

    while (ok && !complete) {
        complete = true;
        for (size_t i = 0; ok && i < count; i++) {
            ok = advance(&list[i]);
            complete = complete && is_complete(&list[i]);
        }
        ok = ok && (complete || wait_for_any(list, count, polls));
    }
    free(polls);
    return ok || set_ended(err);
}
