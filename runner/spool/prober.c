/* runner/spool/prober.c - forks the child that waits for the probe. */
#include "config.h"

#include "runner/spool/prober.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/limits.h"

/* Longer than the child waits for trainspool-train, which may measure and then probe. */
static const double patience = 35;
static const size_t answer_most = 1 << 16;

/* Keep no lock of the watch. */
static void serve(pid_t watch, const struct probe *known, int answer)
{
    struct probe probe;
    struct text text;

    if (!limits_end_with(watch))
        _exit(0);
    prctl(PR_SET_NAME, "trainspool-prob"); /* for ps */
    dup2(answer, STDERR_FILENO + 1);
    close_range(STDERR_FILENO + 2, ~0U, 0);
    limits_no_core();
    if (!known || !probe_measure(known, &probe))
        probe_devices(&probe);
    text_init(&text, answer_most);
    probe_write(&probe, &text);
    _exit(!file_write_all(STDERR_FILENO + 1, text.data, text.len, NULL));
}

static void reap_dying(struct prober *prober)
{
    if (prober->dying && waitpid(prober->dying, NULL, WNOHANG) != 0)
        prober->dying = 0;
}

bool prober_start(struct prober *prober, const struct probe *known, struct error *err)
{
    pid_t watch = getpid();
    int ends[2];

    reap_dying(prober);
    if (prober->pid)
        return true;
    if (prober->dying)
        return error_set(err, ERROR_FAULT, "a probe of the devices hangs");
    if (pipe2(ends, O_CLOEXEC) != 0)
        return error_errno(err, "cannot create a pipe");
    prober->pid = fork();
    if (prober->pid == 0)
        serve(watch, known, ends[1]);
    close(ends[1]);
    if (prober->pid < 0) {
        error_errno(err, "cannot start a process");
        close(ends[0]);
        prober->pid = 0;
        return false;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    prober->answer = ends[0];
    prober->deadline = clock_seconds() + patience;
    text_init(&prober->text, answer_most);
    return true;
}

/* Return whether the child has written all. */
static bool read_answer(struct prober *prober)
{
    char part[4096];
    ssize_t got;

    while ((got = read(prober->answer, part, sizeof(part))) > 0)
        text_add(&prober->text, part, (size_t)got);
    return got == 0 || (errno != EAGAIN && errno != EINTR);
}

static void fail(struct probe *out, const char *why)
{
    *out = (struct probe) { .count = 1 };
    probe_cpu(&out->devices[0]);
    snprintf(out->note, sizeof(out->note), "%.255s", why);
}

static void forget(struct prober *prober)
{
    close(prober->answer);
    text_clear(&prober->text);
    prober->pid = 0;
}

enum prober_state prober_poll(struct prober *prober, struct probe *out)
{
    struct error err = { 0 };

    reap_dying(prober);
    if (!prober->pid)
        return PROBER_IDLE;
    if (read_answer(prober)) {
        waitpid(prober->pid, NULL, 0); /* it has closed the pipe: it ends */
        if (!probe_read(prober->text.data ? prober->text.data : "", out, &err))
            fail(out, err.text);
    } else if (clock_seconds() >= prober->deadline) {
        kill(prober->pid, SIGKILL);
        prober->dying = prober->pid;
        fail(out, "the probe of the devices did not end");
    } else {
        return PROBER_WORKS;
    }
    forget(prober);
    return PROBER_ANSWERED;
}

double prober_due(const struct prober *prober)
{
    return prober->pid ? prober->deadline : INFINITY;
}

void prober_close(struct prober *prober)
{
    if (!prober->pid)
        return;
    kill(prober->pid, SIGKILL);
    forget(prober);
}
