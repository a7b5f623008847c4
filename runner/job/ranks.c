/* runner/job/ranks.c - starts the other ranks, waits for them, and runs as one of
 * them. */
#include "config.h"

#include "runner/job/ranks.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/file.h"
#include "base/link.h"
#include "base/size.h"
#include "base/spawn.h"
#include "runner/job/containment.h"
#include "runner/job/inspect.h"
#include "runner/output/report.h"
#include "train/model/parallel.h"
#include "train/trainer.h"

extern char **environ;

/* Descriptors of a rank, and their temporary numbers, which must not collide. */
enum { LOCK_FD = 3, LINK_FD = 4, FIRST_FREE_FD = 16 };
enum { END_MS = 10000 };

/* ---- Rank 0 ---- */

struct words {
    char rank[24], device[24], stage[24];
    const char *argv[20];
};

static void make_words(const struct ranks_start *start, int rank, const char *program,
                       struct words *out)
{
    const struct device *device = &start->devices[rank];
    size_t n = 0;

    snprintf(out->rank, sizeof(out->rank), "--rank=%d", rank);
    if (device->kind == DEVICE_CPU)
        snprintf(out->device, sizeof(out->device), "--device=cpu");
    else
        snprintf(out->device, sizeof(out->device), "--device=cuda:%d", device->ordinal);
    out->argv[n++] = program;
    out->argv[n++] = out->rank;
    out->argv[n++] = out->device;
    snprintf(out->stage, sizeof(out->stage), "--zero-stage=%d", start->zero_stage);
    out->argv[n++] = out->stage;
    out->argv[n++] = "--frozen";
    if (start->options->digest) {
        out->argv[n++] = "--digest";
        out->argv[n++] = start->options->digest;
    }
    out->argv[n++] = "--lock-fd=3";
    out->argv[n++] = "--link-fd=4";
    if (start->options->no_onednn)
        out->argv[n++] = "--no-onednn";
    if (start->options->no_sandbox)
        out->argv[n++] = "--no-sandbox";
    out->argv[n++] = "--";
    out->argv[n++] = start->job->path;
    out->argv[n] = NULL;
}

static int spawn(const char *const argv[], int lock, int link, pid_t *pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int failed;

    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    failed =
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    failed = failed
                 ? failed
                 : posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
    failed = failed ? failed : posix_spawn_file_actions_adddup2(&files, lock, LOCK_FD);
    failed = failed ? failed : posix_spawn_file_actions_adddup2(&files, link, LINK_FD);
    failed = failed ? failed
                    : posix_spawn(pid, argv[0], &files, &attributes, (char *const *)argv,
                                  environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return failed;
}

static bool start_one(const struct ranks_start *start, int rank, struct ranks *out,
                      struct error *err)
{
    char *program = spawn_sibling("trainspool-train");
    int ends[2], failed, lock, link;
    struct words words;

    if (!link_pair(ends, err)) {
        free(program);
        return false;
    }
    lock = fcntl(start->lock, F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    link = fcntl(ends[1], F_DUPFD_CLOEXEC, FIRST_FREE_FD);
    close(ends[1]);
    out->links[rank - 1] = ends[0];
    make_words(start, rank, program, &words);
    failed = lock < 0 || link < 0
                 ? EMFILE
                 : spawn(words.argv, lock, link, &out->children[rank].pid);
    close(lock);
    close(link);
    if (failed) /* none of the reasons is the job's: see child_start */
        error_set(err, ERROR_FAULT, "cannot start %s for rank %d: %s", program, rank,
                  strerror(failed));
    free(program);
    return !failed;
}

bool ranks_start(const struct ranks_start *start, struct ranks *out, struct error *err)
{
    const size_t count = (size_t)start->count;

    *out = (struct ranks) { .group = { .rank = 0, .ranks = start->count },
                            .links = memory_alloc(count * sizeof(*out->links)),
                            .children = memory_alloc(count * sizeof(*out->children)) };
    out->group.links = out->links;
    for (int r = 1; r < start->count; r++) {
        out->links[r - 1] = -1;
        out->children[r].fd = -1;
    }
    for (int r = 1; r < start->count; r++) {
        if (!start_one(start, r, out, err)) {
            ranks_end(out, start->log);
            return false;
        }
        log_line(start->log, LOG_INFO, "rank %d: started on %s", r,
                 start->devices[r].kind == DEVICE_CPU ? "the cpu"
                                                      : start->devices[r].name);
    }
    return true;
}

/* Return false if the process still exists after the time. */
static bool ends_within(struct child *child, int milliseconds, int *status)
{
    for (int waited = 0; !child_reap(child, false, status); waited += 5) {
        if (waited >= milliseconds)
            return false;
        poll(NULL, 0, 5);
    }
    return true;
}

static int end_one(struct child *child, int rank, int milliseconds, struct log *log)
{
    int status = 0;
    struct text how;

    if (ends_within(child, milliseconds, &status)) {
        if (!WIFSIGNALED(status))
            return 0;
        text_init(&how, 0);
        child_describe_exit(status, &how);
        log_line(log, LOG_ERROR, "rank %d %s", rank, how.data);
        text_clear(&how);
        return WTERMSIG(status);
    }
    log_line(log, LOG_WARN, "rank %d does not end, killing it", rank);
    child_signal(child, SIGKILL);
    child_reap(child, true, &status);
    return 0;
}

int ranks_end(struct ranks *ranks, struct log *log)
{
    int number = 0, patience = END_MS;

    for (int r = 1; r < ranks->group.ranks; r++) {
        if (ranks->links[r - 1] >= 0)
            close(ranks->links[r - 1]);
        if (ranks->peers && ranks->peers[r] >= 0)
            close(ranks->peers[r]);
    }
    for (int r = 1; ranks->children && r < ranks->group.ranks; r++) {
        int of_this = ranks->children[r].pid > 0
                          ? end_one(&ranks->children[r], r, patience, log)
                          : 0;

        number = number ? number : of_this;
    }
    free(ranks->links);
    free(ranks->peers);
    free(ranks->children);
    *ranks = (struct ranks) { 0 };
    return number;
}

/* ---- The other ranks ---- */

/* Rank 0 handles Ctrl-C and the end of a session, which the system sends to all. */
void rank_ignore_signals(int except)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

    for (size_t i = 0; i < TS_COUNT(ignored); i++)
        if (ignored[i] != except)
            signal(ignored[i], SIG_IGN);
}

/* A rank that reads data must notice that rank 0 gave up. */
struct rank_0 {
    int link;
    volatile sig_atomic_t ended;
};

static void check_rank_0(void *context)
{
    struct rank_0 *rank_0 = context;

    if (!link_is_alive(rank_0->link))
        rank_0->ended = 1;
}

static bool read_plan(const struct rank_work *work, struct inspection *inspection,
                      struct error *err)
{
    const struct inspect_options how = { .machine = work->machine,
                                         .job = work->job->path,
                                         .will_run = true,
                                         .edit = INSPECT_AS_IS };
    struct plan *plan = &inspection->patch.plan;

    if (!inspect_text(&how, work->text->data, work->text->len, inspection, err))
        return false;
    if (!inspection->patch.has_plan || (size_t)work->group.rank >= plan_ranks(plan))
        return error_set(err, ERROR_JOB, "%s has no rank %d", work->job->path,
                         work->group.rank);
    return !plan_trains(plan) || !work->stage ||
           work->stage(work->context, &plan->zero_stage, err);
}

/* Rank 0 alone evaluates or merges. */
bool rank_work(const struct rank_work *work, struct error *err)
{
    struct backend_group group = work->group;
    struct rank_0 rank_0 = { .link = group.links[0] };
    struct heartbeat heartbeat = { .stop = &rank_0.ended,
                                   .beat = check_rank_0,
                                   .context = &rank_0 };
    struct trainer_options how = { .no_onednn = work->no_onednn,
                                   .heartbeat = &heartbeat,
                                   .group = &group };
    struct inspection inspection = { 0 };
    bool ok = read_plan(work, &inspection, err);

    if (!ok) {
        parallel_report(&group, err);
    } else if (plan_trains(&inspection.patch.plan)) {
        group.ranks = (int)plan_ranks(&inspection.patch.plan);
        work->containment->gpu = inspection.patch.plan.device.kind != DEVICE_CPU;
        containment_close(work->containment, NULL);
        ok = trainer_run(&inspection.patch.plan, &how, err);
    }
    inspect_clear(&inspection);
    return ok;
}

/* The stage that rank 0 decided, and passed on the command line. */
static bool stage_of_option(void *context, int64_t *out, struct error *err)
{
    const struct options *options = context;

    (void)err;
    if (options->zero_stage >= 0)
        *out = options->zero_stage;
    return true;
}

int ranks_follow(const struct options *options, const struct machine *machine,
                 struct error *err)
{
    int link = (int)options->link_fd;
    /* rank 0 contained itself and all ranks, except for starting programs */
    struct containment containment = { .on = !options->no_sandbox,
                                       .machine = machine,
                                       .seccomp = true };
    struct job job;
    struct text text;
    struct rank_work work = { .group = { .rank = (int)options->rank, .links = &link },
                              .machine = machine,
                              .job = &job,
                              .text = &text,
                              .containment = &containment,
                              .no_onednn = options->no_onednn,
                              .stage = stage_of_option,
                              .context = (void *)options };
    bool ok;

    rank_ignore_signals(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (link < 0 || options->lock_fd < 0 || fcntl(link, F_SETFD, FD_CLOEXEC) != 0 ||
        fcntl((int)options->lock_fd, F_SETFD, FD_CLOEXEC) != 0) {
        error_set(err, ERROR_USAGE, "--rank is for trainspool-train only");
        report_error(options->program, err);
        return report_exit(err->code);
    }
    job_init(&job, options->operands[0]);
    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = job_read_frozen(&job, options->digest, &text, err);
    if (!ok)
        parallel_report(&work.group, err);
    ok = ok && rank_work(&work, err);
    text_clear(&text);
    job_clear(&job);
    return ok ? EXIT_FINE : report_training_exit(err->code);
}
