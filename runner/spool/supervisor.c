/* runner/spool/supervisor.c - datagrams of lines NAME=VALUE to a socket. */
#include "config.h"

#include "runner/spool/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text.h"

/* Seconds: between two status lines, before a datagram that found no room is sent again,
 * between two requests for more time, and how long these continue. */
static const double status_every = 1, again_after = 0.1, extend_every = 10,
                    extend_longest = 900;

#define EXTEND "EXTEND_TIMEOUT_USEC=60000000\n"

struct supervisor {
    int fd;
    struct sockaddr_un address;
    socklen_t address_len;
    struct text pending; /* lines that must be sent */
    double again;        /* when to try again; 0: now */
    double watchdog,
        beat; /* seconds between signs of life, INFINITY: none; the next one */
    double stopping, extend; /* when the end began, 0: not yet; the next request */
    bool waits;
    char *status, *described; /* malloc'ed: as sent; as it is now */
    double status_due;
};

/* A socket is a path or, after '@', an abstract name; other kinds (vsock of a virtual
 * machine) are not for a service. */
static bool set_address(struct supervisor *supervisor, const char *name)
{
    struct sockaddr_un *address = &supervisor->address;
    size_t len = strlen(name);

    if ((name[0] != '/' && name[0] != '@') || len >= sizeof(address->sun_path))
        return false;
    address->sun_family = AF_UNIX;
    memcpy(address->sun_path, name, len);
    if (name[0] == '@')
        address->sun_path[0] = 0;
    supervisor->address_len =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    return true;
}

/* Return the seconds between two signs of life: half of what the manager tolerates. */
static double read_watchdog(void)
{
    const char *pid = getenv("WATCHDOG_PID"), *text = getenv("WATCHDOG_USEC");
    char *end;
    double microseconds;

    if (!text || !*text || (pid && strtol(pid, NULL, 10) != (long)getpid()))
        return INFINITY;
    microseconds = (double)strtoull(text, &end, 10);
    return *end || microseconds <= 0 ? INFINITY : microseconds / 2e6;
}

struct supervisor *supervisor_open(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    struct supervisor *supervisor = NULL;

    if (name && *name) {
        supervisor = memory_alloc(sizeof(*supervisor));
        supervisor->watchdog = read_watchdog();
        text_init(&supervisor->pending, 0);
        supervisor->fd = set_address(supervisor, name)
                             ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)
                             : -1;
    }
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    if (!supervisor || supervisor->fd >= 0)
        return supervisor;
    supervisor_close(supervisor);
    return NULL;
}

void supervisor_close(struct supervisor *supervisor)
{
    if (!supervisor)
        return;
    if (supervisor->fd >= 0)
        close(supervisor->fd);
    text_clear(&supervisor->pending);
    free(supervisor->status);
    free(supervisor->described);
    free(supervisor);
}

/* Return false if there is no room now. Any other failure loses the lines: the manager is
 * gone. */
static bool send_lines(const struct supervisor *supervisor, const char *lines, size_t len)
{
    return sendto(supervisor->fd, lines, len, MSG_DONTWAIT | MSG_NOSIGNAL,
                  (const struct sockaddr *)&supervisor->address,
                  supervisor->address_len) >= 0 ||
           (errno != EAGAIN && errno != EWOULDBLOCK && errno != ENOBUFS);
}

static void send_pending(struct supervisor *supervisor)
{
    struct text *pending = &supervisor->pending;

    if (pending->len == 0)
        return;
    if (send_lines(supervisor, pending->data, pending->len))
        pending->len = 0;
    else
        supervisor->again = clock_seconds() + again_after;
}

static void say(struct supervisor *supervisor, const char *lines)
{
    text_adds(&supervisor->pending, lines);
    send_pending(supervisor);
}

void supervisor_ready(struct supervisor *supervisor)
{
    if (supervisor)
        say(supervisor, "READY=1\n");
}

void supervisor_reloading(struct supervisor *supervisor)
{
    struct timespec now;
    char lines[64];

    if (!supervisor)
        return;
    /* Type=notify-reload compares it with the time of its signal */
    clock_gettime(CLOCK_MONOTONIC, &now);
    snprintf(lines, sizeof(lines), "RELOADING=1\nMONOTONIC_USEC=%" PRId64 "\n",
             (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    say(supervisor, lines);
}

void supervisor_stopping(struct supervisor *supervisor)
{
    if (!supervisor || supervisor->stopping > 0)
        return;
    supervisor->stopping = clock_seconds();
    say(supervisor, "STOPPING=1\n");
}

void supervisor_describe(struct supervisor *supervisor, const char *status)
{
    if (!supervisor ||
        (supervisor->described && strcmp(supervisor->described, status) == 0))
        return;
    free(supervisor->described);
    supervisor->described = memory_strdup(status);
}

static bool is_new(const struct supervisor *supervisor)
{
    return supervisor->described &&
           (!supervisor->status ||
            strcmp(supervisor->status, supervisor->described) != 0);
}

/* A line break would begin another message. */
static void send_status(struct supervisor *supervisor, double now)
{
    struct text line;

    text_init(&line, 0);
    text_adds(&line, "STATUS=");
    text_add_visible(&line, supervisor->described, strlen(supervisor->described));
    text_addc(&line, '\n');
    if (send_lines(supervisor, line.data, line.len)) {
        free(supervisor->status);
        supervisor->status = memory_strdup(supervisor->described);
    }
    supervisor->status_due = now + status_every;
    text_clear(&line);
}

static bool may_extend(const struct supervisor *supervisor)
{
    return supervisor->waits && supervisor->stopping > 0 &&
           clock_seconds() < supervisor->stopping + extend_longest;
}

void supervisor_poll(struct supervisor *supervisor, bool waits)
{
    double now = clock_seconds();

    if (!supervisor)
        return;
    if (now >= supervisor->again)
        send_pending(supervisor);
    if (now >= supervisor->beat && isfinite(supervisor->watchdog)) {
        send_lines(supervisor, "WATCHDOG=1\n", strlen("WATCHDOG=1\n"));
        supervisor->beat = now + supervisor->watchdog;
    }
    supervisor->waits = waits;
    if (may_extend(supervisor) && now >= supervisor->extend) {
        send_lines(supervisor, EXTEND, strlen(EXTEND));
        supervisor->extend = now + extend_every;
    }
    if (is_new(supervisor) && now >= supervisor->status_due)
        send_status(supervisor, now);
}

double supervisor_due(const struct supervisor *supervisor)
{
    double due = INFINITY;

    if (!supervisor)
        return due;
    if (supervisor->pending.len > 0)
        due = fmin(due, supervisor->again);
    if (isfinite(supervisor->watchdog))
        due = fmin(due, supervisor->beat);
    if (may_extend(supervisor))
        due = fmin(due, supervisor->extend);
    if (is_new(supervisor))
        due = fmin(due, supervisor->status_due);
    return due;
}

bool supervisor_reads(int fd)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    uintmax_t device, inode;
    char end;

    return stream && sscanf(stream, "%ju:%ju%c", &device, &inode, &end) == 2 &&
           fstat(fd, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}
