/* runner/spool/clerk.c - forks the child, and decides when. */
#include "config.h"

#include "runner/spool/clerk.h"

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"

/* Seconds; share: of the time that the child may run. */
static const double shortest = 1, after_failure = 5, deadline = 120, share = 0.05;

enum { POLITE = 10 }; /* nice(1) */

struct clerk {
    clerk_function *work;
    void *context;
    struct log *log;
    pid_t pid;      /* 0: none */
    int complaints; /* end of a pipe: why the child failed */
    double started, next, end;
    bool wanted, active, failed;
};

struct clerk *clerk_new(clerk_function *work, void *context, struct log *log)
{
    struct clerk *clerk = memory_alloc(sizeof(*clerk));

    *clerk = (struct clerk) {
        .work = work, .context = context, .log = log, .end = INFINITY, .wanted = true
    };
    return clerk;
}

void clerk_free(struct clerk *clerk)
{
    if (clerk && clerk->pid) {
        kill(clerk->pid, SIGKILL);
        close(clerk->complaints);
    }
    free(clerk);
}

void clerk_ask(struct clerk *clerk)
{
    clerk->wanted = true;
}

/* Keep no lock of the watch. Signals to stop stay blocked: the watch ends the child. */
static void serve(const struct clerk *clerk, pid_t watch, int complaints)
{
    struct error err = { 0 };

    if (!limits_end_with(watch))
        _exit(0);
    prctl(PR_SET_NAME, "trainspool-clrk"); /* for ps */
    dup2(complaints, STDERR_FILENO + 1);
    close_range(STDERR_FILENO + 2, ~0U, 0);
    setpriority(PRIO_PROCESS, 0, POLITE);
    limits_no_core();
    if (clerk->work(clerk->context, &err))
        _exit(0);
    file_write_all(STDERR_FILENO + 1, err.text, strlen(err.text), NULL);
    _exit(1);
}

static void start(struct clerk *clerk)
{
    pid_t watch = getpid();
    double now = clock_seconds();
    int ends[2];

    clerk->next = now + after_failure;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return;
    clerk->pid = fork();
    if (clerk->pid == 0)
        serve(clerk, watch, ends[1]);
    close(ends[1]);
    if (clerk->pid < 0) {
        clerk->pid = 0;
        close(ends[0]);
        return;
    }
    clerk->complaints = ends[0];
    clerk->started = now;
    clerk->wanted = false;
}

/* Log the first failure of a row. */
static void log_failure(const struct clerk *clerk)
{
    char why[512];
    ssize_t got = read(clerk->complaints, why, sizeof(why) - 1);

    why[got > 0 ? got : 0] = 0;
    if (got <= 0)
        snprintf(why, sizeof(why), "the process that writes the page ended early");
    if (!clerk->failed)
        log_line(clerk->log, LOG_ERROR, "watch: %s", why);
}

/* A failure is repeated later, but does not keep a watch from ending. */
static void reap(struct clerk *clerk)
{
    double now = clock_seconds();
    int status = 0;

    if (now >= fmin(clerk->started + deadline, clerk->end))
        kill(clerk->pid, SIGKILL);
    if (waitpid(clerk->pid, &status, WNOHANG) == 0)
        return;
    clerk->pid = 0;
    if (status != 0)
        log_failure(clerk);
    close(clerk->complaints);
    clerk->failed = status != 0;
    clerk->next = clerk->failed ? now + after_failure
                  : isfinite(clerk->end)
                      ? now
                      : fmax(clerk->started + shortest,
                             now + (now - clerk->started) * (1 - share) / share);
}

void clerk_poll(struct clerk *clerk, bool active)
{
    if (clerk->pid)
        reap(clerk);
    clerk->wanted |= active || clerk->active; /* once more after the last change */
    clerk->active = active;
    if (!clerk->pid && clerk->wanted && clock_seconds() >= clerk->next)
        start(clerk);
    if (clock_seconds() >= clerk->end)
        clerk->wanted = false;
}

double clerk_due(const struct clerk *clerk)
{
    if (clerk->pid)
        return fmin(clerk->started + deadline, clerk->end);
    return clerk->wanted ? fmin(clerk->next, clerk->end) : INFINITY;
}

bool clerk_is_idle(const struct clerk *clerk)
{
    return !clerk->pid && !clerk->wanted;
}

void clerk_hurry(struct clerk *clerk, double seconds)
{
    clerk->wanted = true;
    clerk->next = 0;
    clerk->end = fmin(clerk->end, clock_seconds() + seconds);
}
