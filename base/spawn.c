/* base/spawn.c - run a program in its own process group and capture its output, with a
 * timeout. */
#include "config.h"

#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

extern char **environ;

/* A stream of the child, captured in a text or discarded. */
struct stream {
    struct text *text; /* NULL: /dev/null */
    int read, write;   /* ends of the pipe, -1 when closed */
};

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static bool stream_open(struct stream *stream, struct error *err)
{
    int ends[2];

    if (!stream->text)
        return true;
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_errno(err, "cannot create a pipe");
    stream->read = ends[0];
    stream->write = ends[1];
    return true;
}

static int stream_action(posix_spawn_file_actions_t *actions, const struct stream *stream,
                         int fd)
{
    if (stream->text)
        return posix_spawn_file_actions_adddup2(actions, stream->write, fd);
    return posix_spawn_file_actions_addopen(actions, fd, "/dev/null", O_WRONLY, 0);
}

/* The child gets its own process group, so that a timeout also kills its children, and
 * default signal handling, as at login. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    short flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t none, all;

    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setsigmask(attributes, &none);
    posix_spawnattr_setsigdefault(attributes, &all);
    return posix_spawnattr_setflags(attributes, flags);
}

static bool start(char *const argv[], struct stream streams[2], pid_t *pid,
                  struct error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int failed;

    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    failed = posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null",
                                              O_RDONLY, 0);
    failed = failed ? failed : stream_action(&actions, &streams[0], STDOUT_FILENO);
    failed = failed ? failed : stream_action(&actions, &streams[1], STDERR_FILENO);
    failed = failed ? failed : set_attributes(&attributes);
    failed = failed ? failed
                    : posix_spawnp(pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    errno = failed;
    return failed == 0 || error_errno(err, "cannot start %s", argv[0]);
}

/* Read what is available; close the pipe at end of file.  Output that does not fit is
 * dropped. */
static void stream_read(struct stream *stream)
{
    char buffer[4096];
    ssize_t got = read(stream->read, buffer, sizeof(buffer));

    if (got > 0)
        text_add(stream->text, buffer, (size_t)got);
    else if (got == 0 || errno != EINTR)
        close_end(&stream->read);
}

static int milliseconds_until(double deadline)
{
    double left = deadline - clock_seconds();

    return left <= 0 ? 0 : left > 3600 ? 3600000 : (int)(1000 * left) + 1;
}

/* Read both streams to their ends.  Return false if the deadline came first. */
static bool read_streams(struct stream streams[2], double deadline)
{
    while (streams[0].read >= 0 || streams[1].read >= 0) {
        struct pollfd fds[2] = { { streams[0].read, POLLIN, 0 },
                                 { streams[1].read, POLLIN, 0 } };
        int wait = milliseconds_until(deadline);

        if (wait == 0)
            return false;
        if (poll(fds, 2, wait) <= 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (fds[i].revents)
                stream_read(&streams[i]);
    }
    return true;
}

/* Wait for the process itself, which may outlive its streams. */
static bool reap(pid_t pid, double deadline, int *status)
{
    static const struct timespec moment = { .tv_nsec = 2000000 };

    for (;;) {
        pid_t ended = waitpid(pid, status, WNOHANG);

        if (ended == pid || (ended < 0 && errno != EINTR))
            return true;
        if (milliseconds_until(deadline) == 0)
            return false;
        nanosleep(&moment, NULL);
    }
}

static void finish(pid_t pid, struct stream streams[2], int timeout_ms,
                   struct spawn_result *result)
{
    double deadline = timeout_ms > 0 ? clock_seconds() + timeout_ms / 1000.0 : 1e300;
    int status = 0;

    if (!read_streams(streams, deadline) || !reap(pid, deadline, &status)) {
        result->timed_out = true;
        kill(-pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
    }
    result->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool spawn_capture(char *const argv[], int timeout_ms, struct text *out,
                   struct text *errors, struct spawn_result *result, struct error *err)
{
    struct stream streams[2] = { { out, -1, -1 }, { errors, -1, -1 } };
    bool ok;
    pid_t pid;

    *result = (struct spawn_result) { 0 };
    ok = stream_open(&streams[0], err) && stream_open(&streams[1], err) &&
         start(argv, streams, &pid, err);
    close_end(&streams[0].write);
    close_end(&streams[1].write);
    if (ok)
        finish(pid, streams, timeout_ms, result);
    close_end(&streams[0].read);
    close_end(&streams[1].read);
    return ok;
}

char *spawn_sibling(const char *name)
{
    char self[4096], *dir, *path;
    ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (len < 0)
        len = 0;
    self[len] = 0;
    dir = path_dir(self);
    path = path_join(dir, name);
    free(dir);
    return path;
}
