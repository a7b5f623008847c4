/*
 * runner/job/child.c - starts the child with posix_spawn and passes the lock as
 * descriptor 3.
 */
#include "config.h"

#include "runner/job/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/size.h"
#include "base/stop.h"
#include "precision/cgroup.h"
#include "runner/job/child_environment.h"
#include "runner/output/report.h"

extern char **environ;

enum { LOCK_FD = 3, MOST_ARGUMENTS = 24 };

/* What the words of a command line are made of. */
struct words {
    char devices[80], threads[32];
};

/* Return a list that ends with NULL; the caller frees it, but not its words. */
static const char **make_argv(const struct child_start *start, struct words *words)
{
    const struct options *options = start->options;
    const char **argv;
    size_t n = 0, roots = 0;

    while (start->roots && start->roots[roots])
        roots++;
    argv = memory_alloc((MOST_ARGUMENTS + 2 * roots) * sizeof(*argv));

    snprintf(words->devices, sizeof(words->devices), "--device=%s",
             start->devices ? start->devices : "");
    snprintf(words->threads, sizeof(words->threads), "--threads=%d", start->threads);

    argv[n++] = start->program;
    argv[n++] = "--frozen";
    argv[n++] = "--lock-fd=3";
    if (start->digest && start->digest[0]) {
        argv[n++] = "--digest";
        argv[n++] = start->digest;
    }
    for (size_t i = 0; i < roots; i++) {
        argv[n++] = "--root";
        argv[n++] = start->roots[i];
    }
    if (start->resume)
        argv[n++] = "--resume";
    if (start->spooled)
        argv[n++] = "--spooled";
    if (options && options->quiet)
        argv[n++] = "--quiet";
    if (options && options->verbose)
        argv[n++] = "--verbose";
    if (options && options->no_onednn)
        argv[n++] = "--no-onednn";
    if (options && options->no_sandbox)
        argv[n++] = "--no-sandbox";
    if (options && options->group) {
        argv[n++] = "--group";
        argv[n++] = options->group;
    }
    if (start->devices && start->devices[0])
        argv[n++] = words->devices;
    if (start->threads > 0)
        argv[n++] = words->threads;
    argv[n++] = "--";
    argv[n++] = start->job->path;
    argv[n] = NULL;
    return argv;
}

/* Duplicating a descriptor onto itself clears its close-on-exec flag (POSIX.1-2024, glibc
 * 2.29). */
static int add_files(posix_spawn_file_actions_t *files, const struct child_start *start,
                     int log)
{
    int failed = 0;

    if (log >= 0) {
        failed = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null",
                                                  O_RDONLY, 0);
        failed =
            failed ? failed : posix_spawn_file_actions_adddup2(files, log, STDOUT_FILENO);
        failed =
            failed ? failed : posix_spawn_file_actions_adddup2(files, log, STDERR_FILENO);
    }
    /* last: the log may be descriptor 3 here */
    return failed ? failed
                  : posix_spawn_file_actions_adddup2(files, start->lock, LOCK_FD);
}

/* Requests to stop stay blocked until the child catches them, so that none ends it while
 * it starts. A closed terminal, or its Ctrl-C, must not reach a spooled job; nor may a
 * closed terminal reach one that nohup(1) protects. */
static int set_attributes(posix_spawnattr_t *attributes, bool spooled)
{
    short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
    sigset_t stops, all;

    stop_signals(&stops);
    sigfillset(&all);
    if (!sigismember(&stops, SIGHUP))
        sigdelset(&all, SIGHUP);
    posix_spawnattr_setsigmask(attributes, &stops);
    posix_spawnattr_setsigdefault(attributes, &all);
    return posix_spawnattr_setflags(attributes,
                                    spooled ? flags | POSIX_SPAWN_SETSID : flags);
}

/* ---- As another user or in a group, which posix_spawn cannot start ---- */

/* As add_files and set_attributes. Only the lock stays open. */
static bool prepare(const struct child_start *start, int log)
{
    int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    struct sigaction by_default = { .sa_handler = SIG_DFL };
    sigset_t stops;

    stop_signals(&stops);
    for (int number = 1; number < NSIG; number++) /* fails for some, as it may */
        if (number != SIGHUP || sigismember(&stops, SIGHUP))
            sigaction(number, &by_default, NULL);
    return input >= 0 && dup2(input, STDIN_FILENO) >= 0 &&
           dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0 &&
           dup2(start->lock, LOCK_FD) >= 0 && fcntl(LOCK_FD, F_SETFD, 0) == 0 &&
           setsid() >= 0 && sigprocmask(SIG_SETMASK, &stops, NULL) == 0;
}

static bool is_own(const struct child_start *start)
{
    return !start->user || user_is_own(start->user->id);
}

/* Return the variables of the child; free() the list. */
static char **make_variables(const struct child_start *start)
{
    bool contained = !start->options || !start->options->no_sandbox;
    size_t count = 0;
    char **copy;

    if (contained || !is_own(start))
        return start->launched ? child_environment_of_rank()
                               : child_environment(is_own(start) ? NULL : start->user);
    while (environ[count])
        count++;
    copy = memory_alloc((count + 1) * sizeof(*copy));
    memcpy(copy, environ, (count + 1) * sizeof(*copy));
    return copy;
}

/* Enter the group with the rights of this process, which started as the user of the job:
 * the kernel asks for those to write, too. Write a line, which says why if that fails. */
static void enter_group(const struct job_group *group, int answer)
{
    int failed = 0;

    if (group)
        failed = seteuid(getuid()) == 0 ? job_group_enter(group) : errno;
    dprintf(answer, "%s\n", failed ? strerror(failed) : "");
}

/* Never return; write a line about the group to the pipe, then why the program does not
 * start. The pipe closes when it does. */
static void become_program(const struct child_start *start, int log, int answer,
                           const char **argv)
{
    char **variables = make_variables(start);
    struct error err = { 0 };

    /* the lock may be any descriptor, but none of those that are replaced */
    answer = fcntl(answer, F_DUPFD_CLOEXEC, LOCK_FD + 1);
    enter_group(start->group, answer);
    if ((is_own(start) || user_become(start->user, &err)) && prepare(start, log))
        execve(start->program, (char *const *)argv, variables);
    error_set(&err, ERROR_FAULT, "%s", strerror(errno));
    file_write_all(answer, err.text, strlen(err.text), NULL);
    _exit(EXIT_NOT_LOADED);
}

/* Read to the end, which is where the program starts. */
static void read_answer(int fd, char out[512])
{
    size_t len = 0;
    ssize_t got;

    while ((got = read(fd, out + len, 511 - len)) > 0 || (got < 0 && errno == EINTR))
        len += got > 0 ? (size_t)got : 0;
    out[len] = 0;
}

static bool spawn_as(const struct child_start *start, int log, struct child *out,
                     struct error *err)
{
    struct words words;
    const char **argv = make_argv(start, &words);
    char answer[512] = "", *why = NULL;
    int ends[2];

    out->pid = -1;
    if (pipe2(ends, O_CLOEXEC) == 0) {
        out->pid = fork();
        if (out->pid == 0)
            become_program(start, log, ends[1], argv);
        why = out->pid < 0 ? strerror(errno) : NULL;
        close(ends[1]);
        read_answer(ends[0], answer);
        close(ends[0]);
    } else {
        why = strerror(errno);
    }
    free(argv);
    if (out->pid > 0) {
        why = strchr(answer, '\n');
        why = why ? why + 1 : "it ended";
    }
    if (out->pid > 0 && !why[0]) {
        if (start->group)
            snprintf(start->group->trouble, sizeof(start->group->trouble), "%.*s",
                     (int)strcspn(answer, "\n"), answer);
        out->fd = (int)syscall(SYS_pidfd_open, out->pid, 0);
        return true;
    }
    error_set(err, ERROR_FAULT, "cannot start %s: %s", start->program, why);
    if (out->pid > 0)
        waitpid(out->pid, NULL, 0);
    out->pid = 0;
    return false;
}

/* log: for the output of the child; -1: it has ours. */
static bool spawn(const struct child_start *start, int log, struct child *out,
                  struct error *err)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    struct words words;
    const char **argv = make_argv(start, &words);
    char **variables = make_variables(start);
    int failed;

    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    failed = add_files(&files, start, log);
    failed = failed ? failed : set_attributes(&attributes, start->spooled);
    failed = failed ? failed
                    : posix_spawn(&out->pid, start->program, &files, &attributes,
                                  (char *const *)argv, variables);
    posix_spawnattr_destroy(&attributes);
    free(argv);
    posix_spawn_file_actions_destroy(&files);
    free(variables);
    /* none of the reasons is the job's; a program is missing while it is replaced */
    if (failed)
        return error_set(err, ERROR_FAULT, "cannot start %s: %s", start->program,
                         strerror(failed));
    out->fd = (int)syscall(SYS_pidfd_open, out->pid, 0);
    return true;
}

bool child_start(const struct child_start *start, struct child *out, struct error *err)
{
    int log = start->spooled ? job_open_log(start->job, err) : -1;
    bool ok;

    *out = (struct child) { .fd = -1, .kills = -1 };
    if (start->spooled && log < 0)
        return false;
    if (start->group || !is_own(start))
        ok = spawn_as(start, log, out, err);
    else
        ok = spawn(start, log, out, err);
    /* once it runs: it runs sooner, and has allocated nothing yet */
    if (ok && (!start->group || start->group->trouble[0]))
        out->kills = cgroup_oom_kills("");
    if (log >= 0)
        close(log);
    return ok;
}

void child_stop(const struct child *child)
{
    if (child->pid > 0)
        stop_ask(child->pid);
}

void child_signal(const struct child *child, int number)
{
    if (child->pid > 0)
        kill(child->pid, number);
}

/* The kernel's OOM killer sends SIGKILL, and counts. */
static bool was_out_of_memory(const struct child *child, int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && child->kills >= 0 &&
           cgroup_oom_kills("") > child->kills;
}

bool child_reap(struct child *child, bool wait, int *status)
{
    pid_t ended;

    if (child->pid == 0)
        return false;
    do
        ended = waitpid(child->pid, status, wait ? 0 : WNOHANG);
    while (ended < 0 && errno == EINTR);
    if (ended == 0)
        return false;
    if (was_out_of_memory(child, *status))
        *status = EXIT_NO_MEMORY << 8; /* as waitpid says it */
    if (child->fd >= 0)
        close(child->fd);
    *child = (struct child) { .fd = -1 };
    return true;
}

static bool met_limit(int status)
{
    return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_OVER_LIMIT;
}

bool child_met_memory(int status)
{
    return met_limit(status) ||
           (status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_MEMORY);
}

bool child_met_fault(int status)
{
    return status >= 0 && WIFEXITED(status) &&
           (WEXITSTATUS(status) == EXIT_AGAIN || WEXITSTATUS(status) == EXIT_NOT_LOADED);
}

bool child_found_no_room(int status)
{
    return status >= 0 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_NO_ROOM;
}

/* SIGALRM: the driver did not answer. */
bool child_lost_device(int status)
{
    return status >= 0 && (WIFEXITED(status) ? WEXITSTATUS(status) == EXIT_CARD
                                             : WTERMSIG(status) == SIGALRM);
}

/* Advice for the signals that end a trainer. */
static const struct {
    int number;
    const char *hint;
} hints[] = {
    { SIGKILL, "; unless someone sent it, the machine ran out of memory" },
    { SIGSEGV, "; this is a bug in trainspool" },
    { SIGALRM, "; unless someone sent it, the GPU driver did not respond: look for Xid "
               "messages in dmesg, and reset the GPU or restart the machine" },
    { SIGABRT, "; this is a bug in trainspool" },
    { SIGBUS, "; a file was truncated while in use, or this is a bug in trainspool" },
};

void child_describe_exit(int status, struct text *out)
{
    if (child_met_memory(status)) {
        text_addf(out, "ran out of memory%s",
                  met_limit(status) ? ": memory_limit allows no more" : "");
        return;
    }
    if (WIFEXITED(status)) {
        text_addf(out, "exited with status %d without a message", WEXITSTATUS(status));
        return;
    }
    text_addf(out, "was killed by signal %d (%s)", WTERMSIG(status),
              strsignal(WTERMSIG(status)));
    for (size_t i = 0; i < TS_COUNT(hints); i++)
        if (hints[i].number == WTERMSIG(status))
            text_adds(out, hints[i].hint);
}
