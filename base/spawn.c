/* base/spawn.c - run a program in its own process group and capture its output, with a
 * timeout. */
#include "config.h"

#include "base/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"

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

/* ---- The child, which may only make system calls until it is another program ---- */

/* Return a descriptor of the same that is not one of the three standard ones, which may be
 * closed here. */
static int lift(int fd)
{
    return fd < 0 ? fd : fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

/* What the child reads and writes. */
static bool connect_streams(const struct stream streams[2])
{
    const int null = open("/dev/null", O_RDWR);
    int ends[3] = { lift(null) };

    for (int i = 0; i < 2; i++)
        ends[i + 1] = lift(streams[i].text ? streams[i].write : null);
    for (int fd = 0; fd < 3; fd++)
        if (ends[fd] < 0 || dup2(ends[fd], fd) != fd)
            return false;
    return true;
}

/* Default signal handling, as at login. */
static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The child gets its own process group, so that a timeout also kills its children, and ends
 * with its parent, however that ends. */
static _Noreturn void become(char *const argv[], const struct stream streams[2],
                             pid_t parent, int trouble)
{
    int failed;

    trouble = lift(trouble);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    reset_signals();
    if (connect_streams(streams))
        execvp(argv[0], argv);
    failed = errno;
    if (write(trouble, &failed, sizeof(failed)) < 0)
        _exit(126);
    _exit(127);
}

/* ---- Its parent ---- */

/* Start the program. A pipe, which ends when the child is that program, has the reason if it
 * cannot be. */
static bool start(char *const argv[], const struct stream streams[2], pid_t *pid,
                  struct error *err)
{
    const pid_t self = getpid();
    sigset_t all, old;
    int ends[2], failed = 0;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_errno(err, "cannot create a pipe");
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    *pid = fork();
    if (*pid == 0)
        become(argv, streams, self, ends[1]);
    failed = *pid < 0 ? errno : 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    close(ends[1]);
    while (*pid > 0 && read(ends[0], &failed, sizeof(failed)) < 0 && errno == EINTR)
        ;
    close(ends[0]);
    while (*pid > 0 && failed && waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
        ;
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
    pid_t pid = -1;
    bool ok;

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
