/*
 * runner/commands/cmd_watch.c - watch: the daemon's main loop. It waits for the folder,
 * for signals and for its children; spool and workers do the work.
 */
#include "config.h"

#include "runner/commands/announce.h"
#include "runner/commands/commands.h"
#include "runner/commands/watch_log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/path.h"
#include "base/spawn.h"
#include "base/group.h"
#include "base/limits.h"
#include "base/stop.h"
#include "runner/job/cluster_nodes.h"
#include "runner/output/report.h"
#include "runner/spool/cleaner.h"
#include "runner/spool/nodes.h"
#include "runner/spool/spool.h"
#include "runner/spool/supervisor.h"
#include "runner/spool/workers.h"

static int cmd_watch(const struct options *options);

const struct command command_watch = {
    .name = "watch",
    .operands = "DIR",
    .min_operands = 1,
    .max_operands = 1,
    .options =
        (const enum option_id[]) {
            OPTION_ONCE,           OPTION_NODE,        OPTION_SLOTS,
            OPTION_DEVICES,        OPTION_MAX_RUNNING, OPTION_MAX_QUEUED,
            OPTION_GPU_HOURS,      OPTION_ON_END,      OPTION_MAIL,
            OPTION_NOTIFY_TIMEOUT, OPTION_GRACE,       OPTION_HANG,
            OPTION_METRICS,        OPTION_PAGE,        OPTION_LOG,
            OPTION_KEEP_DAYS,      OPTION_MAX_BYTES,   OPTION_ROOT,
            OPTION_NO_SANDBOX,     OPTION_GROUP,       OPTION_END },
    .help = "patch and train every job dropped into a folder",
    .details =
        "A job is taken when it is complete: at once if it was renamed into the "
        "folder, otherwise when it has stopped changing.  As many jobs run at once as "
        "fit into the memory of the GPUs and the cores.  On SIGTERM the running "
        "jobs save checkpoints and the watch ends; the next watch resumes them.  "
        "Another signal more than 2 s later ends the watch at once; its jobs continue.",
    .run = cmd_watch,
};

/* Seconds between checks of the lock of a job that is not our child. */
static const double adopted_every = 0.2;
/* How long reports may delay the end of the watch. */
static const double announce_patience = 5;

struct daemon {
    const struct options *options;
    struct watch_log output;
    struct log *log; /* of it */
    struct machine machine;
    struct fleet fleet;
    struct spool *spool;
    char **roots; /* of --root: as named and as resolved; NULL: none */
    struct workers workers;
    struct announce *announce;
    struct cleaner *cleaner;       /* NULL: none */
    struct supervisor *supervisor; /* NULL: none */
    int signals;                   /* signalfd */
    bool reloads;                  /* SIGHUP does not ask to stop */
    struct stop_request stop;
};

/* SIGIO: a lease that is broken while we check a file must not kill us. A terminal that
 * closes ends a watch that logs to it; one that has a log of its own opens it again. */
static int open_signals(bool reloads)
{
    sigset_t set;

    signal(SIGIO, SIG_IGN);
    stop_signals(&set);
    sigaddset(&set, SIGCHLD);
    if (reloads) {
        signal(SIGHUP, SIG_DFL); /* nohup(1) ignores it */
        sigaddset(&set, SIGHUP);
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void request_stop(struct daemon *daemon, int number)
{
    bool first = !daemon->stop.number;

    /* end at once: leave the job running without us */
    if (stop_request_add(&daemon->stop, number)) {
        workers_close(&daemon->workers);
        announce_hurry(daemon->announce, 0);
        return;
    }
    if (!first)
        return;
    supervisor_stopping(daemon->supervisor);
    announce_hurry(daemon->announce, announce_patience);
    for (struct worker *worker = NULL;
         (worker = workers_next(&daemon->workers, worker));) {
        log_line(daemon->log, LOG_INFO, "watch: ending after job %s saves a checkpoint",
                 worker->job.name);
        worker_request_stop(worker);
    }
}

static void reload(struct daemon *daemon)
{
    supervisor_reloading(daemon->supervisor);
    watch_log_reopen(&daemon->output);
    log_line(daemon->log, LOG_INFO, "watch: reloaded");
    fleet_recheck(&daemon->fleet);
    spool_look_again(daemon->spool);
    cleaner_ask(daemon->cleaner);
    supervisor_ready(daemon->supervisor);
}

static void read_signals(struct daemon *daemon)
{
    struct signalfd_siginfo info;

    while (read(daemon->signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGHUP && daemon->reloads)
            reload(daemon);
        else if (info.ssi_signo != SIGCHLD)
            request_stop(daemon, (int)info.ssi_signo);
    }
}

static void log_end(struct daemon *daemon, const char *name,
                    const struct job_record *record)
{
    bool bad = record->state == JOB_FAILED || record->crashes > 0;

    if (record->ailment[0])
        log_line(daemon->log, LOG_WARN, "job %s: to be healed: %s", name, record->reason);
    else if (record->reason[0])
        log_line(daemon->log, bad ? LOG_WARN : LOG_INFO, "job %s: %s: %s", name,
                 job_state_names[record->state], record->reason);
    else
        log_line(daemon->log, LOG_INFO, "job %s: %s at step %" PRId64, name,
                 job_state_names[record->state], record->step);
}

static void note_health(struct daemon *daemon, const struct worker *worker,
                        const char *path, const struct job_record *record)
{
    if (worker->lost)
        fleet_note_loss(&daemon->fleet, path, record->reason);
    else if (record->state == JOB_DONE)
        fleet_note_success(&daemon->fleet, path);
}

static void reap_one(struct daemon *daemon, struct worker *worker)
{
    struct job_record record;
    struct error err = { 0 };
    char *name, *path;

    name = path = NULL;
    if (asprintf(&name, "%s", worker->job.name) < 0 ||
        asprintf(&path, "%s", worker->job.path) < 0)
        abort();
    if (worker_poll(worker, &record)) {
        note_health(daemon, worker, path, &record);
        if (record.state != JOB_INVALID)
            announce_job_ended(daemon->announce, path, &record);
        if (worker->no_room && record.state == JOB_READY) {
            if (strcmp(record.reason, worker->before) != 0)
                log_end(daemon, name, &record);
            spool_job_waits(daemon->spool, path);
        } else if (worker->fault && record.state == JOB_READY) {
            /* the fault may have kept the child from writing its reason */
            error_set(&err, ERROR_FAULT, "%s",
                      strcmp(record.reason, worker->before) == 0 ? "" : record.reason);
            spool_start_failed(daemon->spool, path, &err);
        } else {
            if (record.state != JOB_INVALID)
                log_end(daemon, name, &record);
            spool_start_succeeded(daemon->spool);
            spool_job_ended(daemon->spool, path, &record);
        }
    }
    free(name);
    free(path);
}

static void reap(struct daemon *daemon)
{
    for (struct worker *worker = NULL; (worker = workers_next(&daemon->workers, worker));)
        reap_one(daemon, worker);
}

/* Return whether no job runs or one has ended, so that the next may start. */
static bool may_start_one(void *context)
{
    struct daemon *daemon = context;
    struct pollfd fds[FLEET_JOBS_MAX];
    nfds_t count = 0;

    for (struct worker *worker = NULL; (worker = workers_next(&daemon->workers, worker));)
        if (count < FLEET_JOBS_MAX && worker_fd(worker) >= 0)
            fds[count++] = (struct pollfd) { worker_fd(worker), POLLIN, 0 };
    return count == 0 || poll(fds, count, 0) > 0;
}

/* Several nodes: the record says who runs it, and is read when the job is checked again. */
static bool is_taken(const struct daemon *daemon, enum worker_start start, bool running)
{
    return start == WORKER_HELD && !running && spool_node(daemon->spool)[0];
}

static void start_jobs(struct daemon *daemon)
{
    while (!daemon->stop.number) {
        enum worker_start start = WORKER_HELD;
        struct error err = { 0 };
        struct spool_next next;
        struct worker *worker;
        char *name = spool_next(daemon->spool, &next);

        if (!name)
            return;
        worker = workers_take(&daemon->workers);
        snprintf(worker->devices, sizeof(worker->devices), "%s", next.devices);
        worker->threads = next.threads;
        worker->user = next.user;
        if (!next.running)
            start = worker_start(worker, name, &err);
        if (is_taken(daemon, start, next.running)) {
            spool_job_is_taken(daemon->spool, name);
            free(name);
            continue;
        }
        if (start == WORKER_HELD)
            worker_adopt(worker, name);
        else if (start == WORKER_SKIPPED)
            spool_put_back(daemon->spool, name);
        else if (start == WORKER_FAULT)
            spool_start_failed(daemon->spool, name, &err);
        else if (!spool_is_troubled(daemon->spool))
            log_line(daemon->log, LOG_INFO, "job %s: started", worker->job.name);
        if (start == WORKER_STARTED || start == WORKER_HELD)
            announce_job_started(daemon->announce, name, start == WORKER_HELD);
        free(name);
    }
}

static void start_next(struct daemon *daemon)
{
    start_jobs(daemon);
    spool_end_turn(daemon->spool);
}

static int wait_ms(const struct daemon *daemon)
{
    double due =
        fmin(fmin(spool_due(daemon->spool), announce_due(daemon->announce)),
             fmin(supervisor_due(daemon->supervisor),
                  spool_leads(daemon->spool) ? cleaner_due(daemon->cleaner) : INFINITY));
    double now = clock_seconds();

    for (struct worker *worker = NULL;
         (worker = workers_next(&daemon->workers, worker));) {
        due = fmin(due, worker_due(worker));
        if (worker_fd(worker) < 0 && due > now + adopted_every)
            due = now + adopted_every;
    }
    if (due <= now)
        return 0;
    return due - now > 60 ? 60000 : (int)((due - now) * 1000) + 1;
}

static void wait_for_events(struct daemon *daemon)
{
    struct pollfd fds[2 + FLEET_JOBS_MAX] = { { spool_fd(daemon->spool), POLLIN, 0 },
                                              { daemon->signals, POLLIN, 0 } };
    nfds_t count = 2;

    for (struct worker *worker = NULL; (worker = workers_next(&daemon->workers, worker));)
        if (count < 2 + FLEET_JOBS_MAX && worker_fd(worker) >= 0)
            fds[count++] = (struct pollfd) { worker_fd(worker), POLLIN, 0 };
    if (poll(fds, count, wait_ms(daemon)) <= 0)
        return;
    if (fds[1].revents)
        read_signals(daemon);
    if (fds[0].revents)
        spool_read(daemon->spool);
}

static bool is_over(const struct daemon *daemon)
{
    /* do not wait until the disk has room to record the end; the next watch records it */
    bool forget = daemon->stop.number != 0;

    for (struct worker *worker = NULL;
         (worker = workers_next(&daemon->workers, worker));) {
        bool stuck = daemon->stop.number
                         ? worker->ended
                         : daemon->options->once && worker_is_stuck(worker);

        if (!stuck)
            return false;
        forget = true;
    }
    if (!announce_is_idle(daemon->announce) ||
        (!daemon->stop.number && spool_leads(daemon->spool) &&
         !cleaner_is_idle(daemon->cleaner)))
        return false;
    return daemon->stop.number ||
           (daemon->options->once && (forget || spool_is_stuck(daemon->spool)));
}

/* Return the exit status of watch --once. */
static int once_status(const struct daemon *daemon)
{
    if (workers_next(&daemon->workers, NULL) || !spool_is_empty(daemon->spool) ||
        spool_has_waiters(daemon->spool)) {
        log_line(daemon->log, LOG_ERROR,
                 "watch: ended with jobs that could not run; `trainspool status %s` "
                 "shows them",
                 daemon->options->operands[0]);
        return EXIT_SYSTEM;
    }
    return spool_failures(daemon->spool) > 0 ? EXIT_FINDINGS : EXIT_FINE;
}

static void report_to_supervisor(struct daemon *daemon)
{
    const struct worker *first = workers_next(&daemon->workers, NULL);
    size_t count = 0;
    struct text running, status;

    if (!daemon->supervisor)
        return;
    for (const struct worker *worker = first; worker;
         worker = workers_next(&daemon->workers, worker))
        count++;
    text_init(&running, 0);
    text_init(&status, 0);
    if (count == 1)
        text_adds(&running, first->job.name);
    else if (count > 1)
        text_addf(&running, "%zu jobs", count);
    spool_describe(daemon->spool, count > 0 ? running.data : NULL, &status);
    supervisor_describe(daemon->supervisor, status.data);
    text_clear(&running);
    text_clear(&status);
    supervisor_poll(daemon->supervisor, count > 0);
}

static int loop(struct daemon *daemon)
{
    int status;

    supervisor_ready(daemon->supervisor);
    for (;;) {
        reap(daemon);
        if (!daemon->stop.number)
            spool_handle_due(daemon->spool, workers_next(&daemon->workers, NULL) == NULL,
                             may_start_one, daemon);
        start_next(daemon);
        spool_flush(daemon->spool);
        spool_show(daemon->spool);
        if (spool_was_woken(daemon->spool))
            announce_changed(daemon->announce);
        announce_poll(daemon->announce,
                      workers_next(&daemon->workers, NULL) ||
                          (!daemon->stop.number && !spool_is_empty(daemon->spool)));
        report_to_supervisor(daemon);
        if (spool_leads(daemon->spool))
            cleaner_poll(daemon->cleaner);
        if (is_over(daemon))
            break;
        wait_for_events(daemon);
    }
    supervisor_stopping(daemon->supervisor);
    status = daemon->stop.number ? 128 + daemon->stop.number : once_status(daemon);
    log_line(daemon->log, LOG_INFO, "watch: ended");
    return status;
}

/* A job may name a folder in either way. */
static bool find_roots(struct daemon *daemon, struct error *err)
{
    const char *const *given = daemon->options->root;
    size_t count = 0;

    while (given && given[count])
        count++;
    if (count == 0)
        return true;
    daemon->roots = memory_alloc((2 * count + 1) * sizeof(*daemon->roots));
    for (size_t i = 0; i < count; i++) {
        char *real = realpath(given[i], NULL);

        if (!real)
            return error_set(err, ERROR_USAGE, "--root %s: %s", given[i],
                             strerror(errno));
        daemon->roots[2 * i] = path_absolute(given[i]);
        daemon->roots[2 * i + 1] = real;
    }
    return true;
}

static void free_roots(struct daemon *daemon)
{
    for (size_t i = 0; daemon->roots && daemon->roots[i]; i++)
        free(daemon->roots[i]);
    free(daemon->roots);
}

static bool open_cleaner(struct daemon *daemon, struct error *err)
{
    struct old_limits limits;

    if (!cleaning_limits_read(daemon->options, &limits, err))
        return false;
    daemon->cleaner = cleaner_new(&limits, daemon->log);
    return true;
}

/* First, while this process has no helpers: all of them start in its group then. */
static void open_groups(struct daemon *daemon)
{
    const char *said = getenv("TRAINSPOOL_DELEGATED");
    struct error err = { 0 };

    daemon->workers.groups = job_groups_open("", daemon->supervisor != NULL,
                                             said && strcmp(said, "1") == 0, &err);
    unsetenv("TRAINSPOOL_DELEGATED"); /* it is not about the groups of other processes */
    if (err.code)
        log_line(daemon->log, LOG_WARN, "watch: jobs have no control groups: %s",
                 err.text);
}

static bool open_daemon(struct daemon *daemon, bool *busy, struct error *err)
{
    const struct options *options = daemon->options;
    gid_t group;
    const size_t slots = options->slots > 0 ? (size_t)options->slots : 0;

    if (options->slots == 0)
        return error_set(err, ERROR_USAGE, "--slots must be at least 1");
    if (options->node && !nodes_name_is_valid(options->node, err))
        return false;
    open_groups(daemon);
    if (!group_open(options->group, &group, err) || !find_roots(daemon, err) ||
        !machine_open(NULL, &daemon->machine, err) ||
        !people_limits_read(options, &daemon->fleet.people.limits, err) ||
        !fleet_open(&daemon->fleet, &daemon->machine.probe, options->devices, slots, err))
        return false;
    daemon->machine.cluster = cluster_nodes_new();
    daemon->machine.whole = true; /* what is free now decides only when a job starts */
    daemon->fleet.log = daemon->log;
    daemon->workers.roots = (const char *const *)daemon->roots;
    daemon->announce = announce_open(daemon->options, daemon->log, err);
    if (!daemon->announce || !open_cleaner(daemon, err))
        return false;
    daemon->signals = open_signals(daemon->reloads);
    if (daemon->signals < 0)
        return error_errno(err, "cannot wait for signals");
    daemon->spool = spool_open(daemon->options->operands[0], &daemon->machine,
                               &(struct spool_options) { daemon->log, &daemon->fleet,
                                                         !daemon->options->no_sandbox,
                                                         daemon->options->node },
                               busy, err);
    if (!daemon->spool)
        return false;
    daemon->workers.node = spool_node(daemon->spool);
    announce_as_node(daemon->announce, daemon->workers.node);
    spool_set_access(daemon->spool, daemon->workers.roots, group);
    spool_on_end(daemon->spool, announce_job_ended, daemon->announce);
    log_line(daemon->log, LOG_INFO, "watch: %s, pid %d%s%s", daemon->options->operands[0],
             (int)getpid(), daemon->workers.node[0] ? ", node " : "",
             daemon->workers.node);
    if (daemon->workers.groups)
        log_line(daemon->log, LOG_INFO, "watch: each job has a control group in %s",
                 job_groups_path(daemon->workers.groups));
    return true;
}

static void report_start(const struct options *options, bool busy, struct error *err)
{
    if (busy && !err->code)
        error_set(err, ERROR_SYSTEM,
                  "%s is already watched; that watch takes the jobs dropped there, "
                  "and `trainspool status %s` shows them",
                  options->operands[0], options->operands[0]);
    if (supervisor_reads(STDERR_FILENO))
        fputs("<3>", stderr);
    report_error(options->program, err);
}

static struct guard_limits find_limits(const struct options *options)
{
    return (struct guard_limits) {
        .grace = options->grace >= 0 ? (double)options->grace : GUARD_GRACE_DEFAULT,
        .hang = options->hang >= 0 ? (double)options->hang : GUARD_HANG_DEFAULT
    };
}

static int cmd_watch(const struct options *options)
{
    struct daemon daemon = { .options = options, .signals = -1 };
    struct error err = { 0 };
    bool busy = false;
    char *program = spawn_sibling("trainspool-train");
    int status;

    signal(SIGPIPE, SIG_IGN); /* the reader of the log may end */
    limits_raise_files();     /* one for each job that runs */
    daemon.supervisor = supervisor_open();
    daemon.reloads = options->log || daemon.supervisor;
    if (watch_log_open(options, &daemon.output, &err))
        daemon.log = daemon.output.log;
    daemon.workers = (struct workers) { .program = program,
                                        .log = daemon.log,
                                        .no_sandbox = options->no_sandbox,
                                        .group = options->group,
                                        .limits = find_limits(options) };
    if (daemon.log && open_daemon(&daemon, &busy, &err)) {
        status = loop(&daemon);
    } else {
        report_start(options, busy, &err);
        status = busy ? EXIT_AGAIN : report_exit(err.code);
    }
    workers_close(&daemon.workers);
    job_groups_close(daemon.workers.groups);
    spool_close(daemon.spool);
    announce_close(daemon.announce);
    cleaner_free(daemon.cleaner);
    supervisor_close(daemon.supervisor);
    free_roots(&daemon);
    fleet_close(&daemon.fleet);
    cluster_nodes_free(daemon.machine.cluster);
    watch_log_close(&daemon.output);
    free(program);
    return status;
}
