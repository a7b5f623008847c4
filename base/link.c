/* base/link.c - stream sockets; reads and writes are complete. */
#include "config.h"

#include "base/link.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/net.h"

bool link_pair(int ends[2], struct error *err)
{
    return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0 ||
           error_errno(err, "cannot create a socket pair");
}

static bool set_peer_ended(struct error *err)
{
    return error_set(err, ERROR_SYSTEM, "the process at the other end has ended");
}

/* Errors of a socket that mean that the peer, or its machine, is gone. */
static bool is_end(int number)
{
    return number == EPIPE || number == ECONNRESET || number == ETIMEDOUT ||
           number == EHOSTUNREACH || number == ENETUNREACH || number == ENETDOWN;
}

/*
 * Return whether a machine does not answer what was sent to it.  Idle connections are
 * probed by the kernel; data that were sent stop its probes, and it would send them again
 * for 15 minutes.  Data that it could not send at all, because this machine lost its
 * network, do not count as unacknowledged: there, its probes for room at the peer get no
 * answer.  A peer that is slow has no room, but answers each.
 */
static bool is_silent(int end)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);

    return getsockopt(end, IPPROTO_TCP, TCP_INFO, &info, &len) == 0 &&
           (info.tcpi_unacked > 0 || info.tcpi_probes > 1) &&
           info.tcpi_last_ack_recv > NET_LOST_SECONDS * 1000;
}

/* Wait until the socket is readable (POLLIN) or writable (POLLOUT). */
static bool wait_for(int end, short event, double until, struct error *err)
{
    for (;;) {
        struct pollfd poll_of = { .fd = end, .events = event };
        double left = until > 0 ? until - clock_seconds() : 1;
        int ready;

        if (left <= 0)
            return error_set(err, ERROR_SYSTEM,
                             "the process at the other end does not answer");
        ready = poll(&poll_of, 1, left > 1 ? 1000 : (int)(left * 1000) + 1);
        if (ready > 0)
            return true;
        if (ready < 0 && errno != EINTR)
            return error_errno(err, "cannot wait for a socket");
        if (is_silent(end))
            return set_peer_ended(err);
    }
}

static double deadline(double seconds)
{
    return seconds > 0 ? clock_seconds() + seconds : 0;
}

bool link_send(int end, const void *data, size_t bytes, double seconds, struct error *err)
{
    const char *from = data;
    double until = deadline(seconds);

    while (bytes > 0) {
        ssize_t sent = send(end, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (sent > 0) {
            from += sent;
            bytes -= (size_t)sent;
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(end, POLLOUT, until, err))
                return false;
        } else if (is_end(errno)) {
            return set_peer_ended(err);
        } else if (errno != EINTR) {
            return error_errno(err, "cannot write to a socket");
        }
    }
    return true;
}

bool link_receive(int end, void *data, size_t bytes, double seconds, struct error *err)
{
    char *to = data;
    double until = deadline(seconds);

    while (bytes > 0) {
        ssize_t got = recv(end, to, bytes, MSG_DONTWAIT);

        if (got > 0) {
            to += got;
            bytes -= (size_t)got;
        } else if (got == 0 || is_end(errno)) {
            return set_peer_ended(err);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            if (!wait_for(end, POLLIN, until, err))
                return false;
        } else if (errno != EINTR) {
            return error_errno(err, "cannot read from a socket");
        }
    }
    return true;
}

/* One descriptor, sent with one byte of data, as unix(7) requires. */
union control {
    struct cmsghdr head;
    char space[CMSG_SPACE(sizeof(int))];
};

bool link_send_file(int end, int file, double seconds, struct error *err)
{
    char byte = 0;
    struct iovec vector = { &byte, 1 };
    union control control = { 0 };
    struct msghdr message = { .msg_iov = &vector,
                              .msg_iovlen = 1,
                              .msg_control = control.space,
                              .msg_controllen = sizeof(control.space) };
    struct cmsghdr *head = CMSG_FIRSTHDR(&message);

    *head = (struct cmsghdr) { .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS,
                               .cmsg_len = CMSG_LEN(sizeof(int)) };
    memcpy(CMSG_DATA(head), &file, sizeof(file));
    if (!wait_for(end, POLLOUT, deadline(seconds), err))
        return false;
    if (sendmsg(end, &message, MSG_NOSIGNAL) == 1)
        return true;
    return is_end(errno) ? set_peer_ended(err)
                         : error_errno(err, "cannot pass a file descriptor");
}

int link_receive_file(int end, double seconds, struct error *err)
{
    char byte;
    struct iovec vector = { &byte, 1 };
    union control control = { 0 };
    struct msghdr message = { .msg_iov = &vector,
                              .msg_iovlen = 1,
                              .msg_control = control.space,
                              .msg_controllen = sizeof(control.space) };
    struct cmsghdr *head;
    ssize_t got;
    int file = -1;

    if (!wait_for(end, POLLIN, deadline(seconds), err))
        return -1;
    got = recvmsg(end, &message, MSG_CMSG_CLOEXEC);
    head = got == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(&file, CMSG_DATA(head), sizeof(file));
    if (file < 0 && (got == 0 || (got < 0 && is_end(errno))))
        set_peer_ended(err);
    else if (file < 0)
        error_set(err, ERROR_SYSTEM,
                  "the process at the other end sent no file descriptor");
    return file;
}

bool link_has_data(int end)
{
    struct pollfd poll_of = { .fd = end, .events = POLLIN };

    return poll(&poll_of, 1, 0) > 0;
}

bool link_is_alive(int end)
{
    struct pollfd poll_of = { .fd = end, .events = POLLRDHUP };

    if (poll(&poll_of, 1, 0) > 0 &&
        (poll_of.revents & (POLLHUP | POLLRDHUP | POLLERR | POLLNVAL)))
        return false;
    return !is_silent(end);
}
