/* base/net.c - sockets of TCP over IPv6 and IPv4. */
#include "config.h"

#include "base/net.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { PORT_MAX = 65535 };

/* Probes of an idle connection: after 5 s, then each 3 s; three without an answer end it. */
enum { PROBE_AFTER = 5, PROBE_EACH = 3, PROBES = 3 };
_Static_assert(PROBE_AFTER + PROBE_EACH * PROBES <= NET_LOST_SECONDS, "lost later");

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

/* Orders are short and wait for nothing; a lost peer is noticed. */
static int prepare(int fd)
{
    set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, PROBE_AFTER);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, PROBE_EACH);
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    return fd;
}

/* Bind to all addresses; of IPv4 if the kernel has no IPv6. */
static int bind_any(int port)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)port),
                                .sin6_addr = IN6ADDR_ANY_INIT };
    struct sockaddr_in four = { .sin_family = AF_INET,
                                .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0) {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
        if (bind(fd, (const struct sockaddr *)&six, sizeof(six)) == 0)
            return fd;
        close(fd);
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
    if (bind(fd, (const struct sockaddr *)&four, sizeof(four)) == 0)
        return fd;
    close(fd);
    return -1;
}

int net_listen(int *port, struct error *err)
{
    struct sockaddr_storage own;
    socklen_t len = sizeof(own);
    int fd;

    if (*port < 0 || *port > PORT_MAX) {
        error_set(err, ERROR_SYSTEM, "cannot listen on port %d: ports end at %d", *port,
                  PORT_MAX);
        return -1;
    }
    fd = bind_any(*port);
    if (fd < 0 || listen(fd, SOMAXCONN) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &len) != 0) {
        error_errno(err, "cannot listen on port %d", *port);
        if (fd >= 0)
            close(fd);
        return -1;
    }
    *port = ntohs(own.ss_family == AF_INET6
                      ? ((const struct sockaddr_in6 *)(const void *)&own)->sin6_port
                      : ((const struct sockaddr_in *)(const void *)&own)->sin_port);
    return fd;
}

/* Return whether the socket has the event before the time is over. */
static bool ready(int fd, short event, double until)
{
    for (;;) {
        struct pollfd of = { .fd = fd, .events = event };
        double left = until - clock_seconds();
        int got = poll(&of, 1, left > 0 ? (int)(left * 1000) + 1 : 0);

        if (got > 0)
            return true;
        if (got == 0 || errno != EINTR)
            return false;
    }
}

int net_accept(int listener, double seconds, struct error *err)
{
    int fd;

    if (!ready(listener, POLLIN, clock_seconds() + seconds))
        return -1;
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        return prepare(fd);
    /* a caller that has gone again is none */
    if (errno != ECONNABORTED && errno != EINTR && errno != EAGAIN && errno != EPROTO)
        error_errno(err, "cannot accept a connection");
    return -1;
}

static int connect_to(const struct addrinfo *to, double until)
{
    int fd = socket(to->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int failed = 0;
    socklen_t len = sizeof(failed);

    if (fd < 0)
        return -1;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0) {
        failed = errno;
        if (failed == EINPROGRESS)
            failed = !ready(fd, POLLOUT, until) ? ETIMEDOUT
                     : getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &len) != 0 ? errno
                                                                                : failed;
    }
    if (failed == 0)
        return prepare(fd);
    close(fd);
    errno = failed;
    return -1;
}

int net_connect(const char *address, int port, double seconds, struct error *err)
{
    const struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
    double until = clock_seconds() + seconds;
    struct addrinfo *list;
    char service[16];
    int failed, fd = -1;

    snprintf(service, sizeof(service), "%d", port);
    failed = getaddrinfo(address, service, &hints, &list);
    if (failed) {
        error_set(err, ERROR_SYSTEM, "cannot find the address of %s: %s", address,
                  gai_strerror(failed));
        return -1;
    }
    for (const struct addrinfo *at = list; at && fd < 0; at = at->ai_next)
        fd = connect_to(at, until);
    if (fd < 0)
        error_errno(err, "cannot connect to %s, port %d", address, port);
    freeaddrinfo(list);
    return fd;
}

static bool write_address(const struct sockaddr *from, char out[NET_ADDRESS])
{
    const bool six = from->sa_family == AF_INET6;
    socklen_t len = six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    /* with the scope of a link-local address of IPv6, which only this machine knows: its
     * peers have others */
    return getnameinfo(from, len, out, NET_ADDRESS, NULL, 0, NI_NUMERICHOST) == 0 &&
           !strchr(out, '%');
}

size_t net_addresses(char out[][NET_ADDRESS], size_t room)
{
    struct ifaddrs *list;
    size_t count = 0;

    if (getifaddrs(&list) != 0)
        return 0;
    for (int loopback = 0; loopback < 2; loopback++)
        for (const struct ifaddrs *at = list; at && count < room; at = at->ifa_next) {
            const int family = at->ifa_addr ? at->ifa_addr->sa_family : AF_UNSPEC;

            if ((family == AF_INET || family == AF_INET6) && (at->ifa_flags & IFF_UP) &&
                !!(at->ifa_flags & IFF_LOOPBACK) == loopback &&
                write_address(at->ifa_addr, out[count]))
                count++;
        }
    freeifaddrs(list);
    return count;
}
