/* runner/spool/cleaner.c - the child's lines come through a pipe, so that the watch writes
 * its log alone. */
#include "config.h"

#include "runner/spool/cleaner.h"

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

/* Seconds; jump: by how much the clock may be set forward unnoticed, distrust: how long
 * ages mean nothing after that. */
static const double every = 3600, later = 60, listen_every = 0.5, jump = 3600,
                    distrust = 24 * 3600;

enum { POLITE = 10 }; /* nice(1) */

struct cleaner {
    struct old_limits limits;
    bool no_ages; /* in this pass */
    struct log *log;
    pid_t pid;         /* 0: none */
    int lines;         /* end of a pipe */
    struct text heard; /* the beginning of a line */
    double next;
    double clock, trusted; /* wall time at clock_seconds 0; when to believe it again */
};

struct cleaner *cleaner_new(const struct old_limits *limits, struct log *log)
{
    struct cleaner *cleaner = memory_alloc(sizeof(*cleaner));

    *cleaner = (struct cleaner) { .limits = *limits,
                                  .log = log,
                                  .lines = -1,
                                  .clock = clock_wall() - clock_seconds() };
    if (limits->keep_days < 0 && limits->max_bytes < 0)
        cleaner->next = clock_seconds() + later;
    text_init(&cleaner->heard, 0);
    return cleaner;
}

void cleaner_free(struct cleaner *cleaner)
{
    if (!cleaner)
        return;
    if (cleaner->pid) {
        kill(cleaner->pid, SIGKILL);
        close(cleaner->lines);
    }
    text_clear(&cleaner->heard);
    free(cleaner);
}

void cleaner_ask(struct cleaner *cleaner)
{
    if (cleaner)
        cleaner->next = 0;
}

/* ---- In the child process ---- */

static void write_line(void *context, bool bad, const char *line)
{
    const int *fd = context;
    struct text text;

    text_init(&text, 0);
    text_addc(&text, bad ? '!' : ' ');
    text_add_visible(&text, line, strlen(line));
    text_addc(&text, '\n');
    file_write_all(*fd, text.data, text.len, NULL);
    text_clear(&text);
}

/* Keep no lock of the watch. Signals to stop stay blocked: the watch ends the child. */
static void serve(const struct cleaner *cleaner, pid_t watch, int lines)
{
    int out = STDERR_FILENO + 1;
    struct cleaning cleaning = { .limits = cleaner->limits,
                                 .no_ages = cleaner->no_ages,
                                 .report = write_line,
                                 .context = &out };
    struct listing listing = { 0 };
    struct error err = { 0 };

    if (!limits_end_with(watch))
        _exit(0);
    prctl(PR_SET_NAME, "trainspool-cln"); /* for ps */
    dup2(lines, out);
    close_range((unsigned)out + 1, ~0U, 0);
    setpriority(PRIO_PROCESS, 0, POLITE);
    limits_no_core();
    if (listing_add_folder(&listing, ".", &err))
        cleaning_run(&cleaning, &listing);
    else
        write_line(&out, true, err.text);
    _exit(0);
}

/* ---- In the watch ---- */

/* Return whether the clock says the same time as before. One that was set forward would
 * let everything look old. */
static bool clock_is_trusted(struct cleaner *cleaner)
{
    const double now = clock_seconds(), clock = clock_wall() - now;

    if (clock > cleaner->clock + jump) {
        log_line(
            cleaner->log, LOG_WARN,
            "clean: the clock was set forward by %.0f hours; removing nothing by its "
            "age for a day",
            (clock - cleaner->clock) / 3600);
        cleaner->trusted = now + distrust;
    }
    cleaner->clock = clock;
    return now >= cleaner->trusted;
}

static void start(struct cleaner *cleaner)
{
    const pid_t watch = getpid();
    struct cleaner child = *cleaner;
    int ends[2];

    cleaner->next = clock_seconds() + every;
    child.no_ages = !clock_is_trusted(cleaner);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return;
    cleaner->pid = fork();
    if (cleaner->pid == 0)
        serve(&child, watch, ends[1]);
    close(ends[1]);
    if (cleaner->pid < 0) {
        cleaner->pid = 0;
        close(ends[0]);
        return;
    }
    cleaner->lines = ends[0];
    fcntl(cleaner->lines, F_SETFL, O_NONBLOCK);
}

static void log_lines(struct cleaner *cleaner)
{
    char *at = cleaner->heard.data, *end;

    for (; (end = strchr(at, '\n')); at = end + 1) {
        *end = 0;
        log_line(cleaner->log, *at == '!' ? LOG_ERROR : LOG_INFO, "clean: %s", at + 1);
    }
    memmove(cleaner->heard.data, at, strlen(at) + 1);
    cleaner->heard.len = strlen(cleaner->heard.data);
}

static void listen_to(struct cleaner *cleaner)
{
    char buffer[4096];
    ssize_t got;

    while ((got = read(cleaner->lines, buffer, sizeof(buffer))) > 0) {
        text_add(&cleaner->heard, buffer, (size_t)got);
        log_lines(cleaner);
    }
}

static void reap(struct cleaner *cleaner)
{
    int status = 0;
    bool over = waitpid(cleaner->pid, &status, WNOHANG) != 0;

    listen_to(cleaner); /* after its end: everything is in the pipe */
    if (!over)
        return;
    cleaner->pid = 0;
    close(cleaner->lines);
    if (status != 0)
        log_line(cleaner->log, LOG_ERROR, "clean: the process ended early");
}

void cleaner_poll(struct cleaner *cleaner)
{
    if (!cleaner)
        return;
    if (cleaner->pid)
        reap(cleaner);
    if (!cleaner->pid && clock_seconds() >= cleaner->next)
        start(cleaner);
}

double cleaner_due(const struct cleaner *cleaner)
{
    if (!cleaner)
        return INFINITY;
    return cleaner->pid ? clock_seconds() + listen_every : cleaner->next;
}

bool cleaner_is_idle(const struct cleaner *cleaner)
{
    return !cleaner || (!cleaner->pid && clock_seconds() < cleaner->next);
}
