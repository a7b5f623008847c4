/* runner/job/host_ranks.c - starts ranks, and waits as the first process of a container. */
#include "config.h"

#include "runner/job/host_ranks.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/stop.h"
#include "patcher/document/document.h"
#include "runner/job/machine.h"
#include "runner/output/report.h"

/* For the other ranks to end, after one has failed: ranks that train need 15 s to notice the
 * loss of a machine.  After a SIGTERM, as long again. */
enum { END_SECONDS = 30 };

struct host_ranks {
    int count, left;
    pid_t *pids;   /* 0: has ended */
    int status;    /* of the machine */
    double failed; /* when the first rank did */
    bool asked;    /* to end */
};

/* ---- How many ---- */

static bool count_gpus(const struct text *text, int *out, struct error *err)
{
    char *requested = machine_requested(text->data, text->len);
    struct machine machine;
    bool cpu = strcasecmp(requested, "cpu") == 0;

    free(requested);
    *out = 1;
    if (cpu)
        return true;
    if (!machine_open(NULL, &machine, err))
        return false;
    if (machine.probe.count > 2)
        *out = (int)machine.probe.count - 1;
    return true;
}

/* Divide the ranks of a job.  All machines refuse a job that does not fit, because each
 * would wait for the others. */
static bool divide(const struct host *host, size_t ranks, int *out, struct error *err)
{
    const size_t hosts = (size_t)host->nodes;

    *out = (int)(ranks / hosts);
    if (ranks % hosts != 0)
        return error_set(err, ERROR_USAGE,
                         "ranks: %zu cannot be distributed evenly among the %zu machines "
                         "that the environment names (%s)",
                         ranks, hosts, host->launcher);
    return host->ranks == 0 || host->ranks == *out ||
           error_set(
               err, ERROR_USAGE,
               "the job has ranks: %zu, but the environment (%s) asks for %d on each "
               "of %zu machines",
               ranks, host->launcher, host->ranks, hosts);
}

bool host_ranks_count(const struct host *host, const char *job, int *out,
                      struct error *err)
{
    struct text text;
    size_t ranks;
    bool ok;

    *out = host->ranks;
    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = file_read(job, DOCUMENT_MAX_BYTES, &text, NULL, err);
    ranks = ok ? machine_ranks(text.data, text.len) : 1;
    if (ok && ranks > 1)
        ok = divide(host, ranks, out, err);
    else if (ok && host->ranks == 0)
        ok = count_gpus(&text, out, err);
    text_clear(&text);
    return ok;
}

/* ---- Processes ---- */

static void wanted_signals(sigset_t *set)
{
    stop_signals(set);
    sigaddset(set, SIGCHLD);
}

/* In the child: become a rank, which ends if this machine's first process does. */
static void become_rank(const struct host *host, int ranks, int rank, pid_t parent,
                        char **argv)
{
    sigset_t set;

    host_set_rank(host, ranks, rank);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_SYSTEM);
    wanted_signals(&set);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    execv("/proc/self/exe", argv);
    perror(argv[0]);
    _exit(EXIT_SYSTEM);
}

static void signal_all(const struct host_ranks *ranks, int number)
{
    for (int r = 0; r < ranks->count; r++)
        if (ranks->pids[r] > 0)
            kill(ranks->pids[r], number);
}

/* Return the rank of a process, or -1: one that lost its parent to this first process. */
static int rank_of(const struct host_ranks *ranks, pid_t pid)
{
    for (int r = 0; r < ranks->count; r++)
        if (ranks->pids[r] == pid)
            return r;
    return -1;
}

/* Ranks that lose another end with EXIT_SYSTEM, and may do so before the one that knows why
 * the job fails. */
static void note_failure(struct host_ranks *ranks, int status)
{
    const bool explains = status == EXIT_FINDINGS || status == EXIT_NO_JOB;

    if (ranks->status == 0)
        ranks->failed = clock_seconds();
    if (ranks->status == 0 || (ranks->status == EXIT_SYSTEM && explains))
        ranks->status = status;
}

static void reap(struct host_ranks *ranks)
{
    int how;
    pid_t pid;

    while ((pid = waitpid(-1, &how, WNOHANG)) > 0) {
        const int rank = rank_of(ranks, pid);
        const int status = WIFEXITED(how) ? WEXITSTATUS(how) : 128 + WTERMSIG(how);

        if (rank < 0)
            continue;
        ranks->pids[rank] = 0;
        ranks->left--;
        if (status != 0)
            note_failure(ranks, status);
    }
}

/* A rank that waits for one that never came, or that hangs. */
static void end_rest(struct host_ranks *ranks)
{
    if (ranks->status == 0)
        return;
    if (!ranks->asked && clock_seconds() - ranks->failed > END_SECONDS) {
        signal_all(ranks, SIGTERM);
        ranks->asked = true;
    } else if (clock_seconds() - ranks->failed > 2 * END_SECONDS) {
        signal_all(ranks, SIGKILL);
    }
}

static void wait_for_all(struct host_ranks *ranks, const sigset_t *set)
{
    const struct timespec second = { .tv_sec = 1 };

    for (reap(ranks); ranks->left > 0; reap(ranks)) {
        int number = sigtimedwait(set, NULL, &second);

        if (number > 0 && number != SIGCHLD)
            signal_all(ranks, number == SIGHUP ? SIGTERM : number);
        end_rest(ranks);
    }
}

static void start_all(const struct host *host, char **argv, struct host_ranks *ranks,
                      struct error *err)
{
    const pid_t parent = getpid();

    for (int r = 0; r < ranks->count; r++) {
        ranks->pids[r] = fork();
        if (ranks->pids[r] == 0)
            become_rank(host, ranks->count, r, parent, argv);
        if (ranks->pids[r] < 0) {
            ranks->pids[r] = 0;
            ranks->status = EXIT_SYSTEM;
            ranks->failed = clock_seconds() - END_SECONDS;
            error_errno(err, "cannot start rank %d of this machine", r);
            return;
        }
        ranks->left++;
    }
}

int host_ranks_run(const struct host *host, int count, const struct options *options,
                   struct error *err)
{
    struct host_ranks ranks = { .count = count,
                                .pids =
                                    memory_alloc((size_t)count * sizeof(*ranks.pids)) };
    char **argv = options_argv(options, options->command, options->program, "run");
    sigset_t set;

    for (int r = 0; r < count; r++)
        ranks.pids[r] = 0;
    wanted_signals(&set);
    sigprocmask(SIG_BLOCK, &set, NULL);
    fflush(stdout);
    start_all(host, argv, &ranks, err);
    wait_for_all(&ranks, &set);
    for (char **word = argv; *word; word++)
        free(*word);
    free(argv);
    free(ranks.pids);
    return ranks.status;
}
