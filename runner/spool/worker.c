/* runner/spool/worker.c - moves a job from ready to running to its final state. */
#include "config.h"

#include "runner/spool/worker.h"

#include <fcntl.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/holders.h"
#include "runner/job/gate.h"
#include "runner/job/heal.h"
#include "runner/job/record.h"
#include "runner/job/submitted.h"
#include "runner/spool/drop.h"
#include "runner/spool/pause.h"
#include "runner/spool/spool.h"
#include "runner/spool/worker_group.h"

enum { LONGEST_PATIENCE = 60 };
enum {
    RANKS_END_MS = 3000
}; /* a GPU driver takes a while to clean up after a killed process */

double worker_retry_delay(const struct job_record *record)
{
    double seconds = 1;

    if (record->crashes == 0)
        return 0;
    for (int64_t i = 1; i < record->crashes && seconds < LONGEST_PATIENCE; i++)
        seconds *= 2;
    return seconds < LONGEST_PATIENCE ? seconds : LONGEST_PATIENCE;
}

/* Append "trainspool-train was killed by ..." */
static void describe_end(const struct worker_end *end, struct text *out)
{
    text_adds(out, "trainspool-train ");
    if (end->why)
        text_addf(out, "was killed: %s", end->why);
    else if (end->status < 0)
        text_adds(out, "vanished");
    else
        child_describe_exit(end->status, out);
}

/* Also record a child that ended before it could set its state to `running`. */
static bool crashed(const struct job *job, const struct worker_end *end,
                    struct job_record *record, struct error *err)
{
    const int status = end->status;
    bool again = end->forgive && record->crashes < record->max_retries;
    bool requested = !end->forgive && status >= 0 && WIFSIGNALED(status) &&
                     (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM);
    struct text reason;
    bool ok;

    text_init(&reason, 0);
    describe_end(end, &reason);
    if (record->state == JOB_READY)
        text_adds(&reason, " before it began");
    if (end->forgive && !again)
        text_addf(&reason, "; gave up after %" PRId64 " crashes", record->crashes + 1);
    record->resume |= record->state == JOB_RUNNING;
    ok = job_event(job, record,
                   requested ? EVENT_CANCELLED
                   : again   ? EVENT_CRASHED
                             : EVENT_GAVE_UP,
                   reason.data, err);
    text_clear(&reason);
    return ok;
}

/* Return whether the job handled a signal and stopped, or waits for the machine: a job
 * that is ready was then paused. */
static bool was_paused(int status)
{
    return status < 0 || child_met_fault(status) || child_found_no_room(status) ||
           (WIFEXITED(status) && WEXITSTATUS(status) > 128);
}

/* Return whether a process that followed a submission was killed or stopped: the job did not
 * end with it. */
static bool lost_sight(const struct job *job, int status)
{
    return submitted_is_left(job) &&
           (was_paused(status) || (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL ||
                                                           WTERMSIG(status) == SIGTERM)));
}

/* Record an event whose reason is followed by the way in which the process ended. */
static bool record_event(const struct job *job, const struct worker_end *end,
                         enum job_event event, struct job_record *record,
                         struct error *err)
{
    struct text reason;
    bool ok;

    text_init(&reason, 0);
    text_adds(&reason, event == EVENT_CANCELLED  ? "canceled"
                       : event == EVENT_EXIT_BAD ? "timeout reached"
                                                 : "stopped");
    if (end->why)
        text_adds(&reason, "; ");
    if (end->why)
        describe_end(end, &reason);
    record->resume |= record->state == JOB_RUNNING;
    ok = job_event(job, record, event, reason.data, err);
    text_clear(&reason);
    return ok;
}

/* The process was killed because it did not end in time. */
static bool record_kill(const struct job *job, const struct worker_end *end,
                        struct job_record *record, struct error *err)
{
    if (end->cause == GUARD_TIMEOUT)
        return record_event(job, end, EVENT_EXIT_BAD, record, err);
    if (job_requested(job) == REQUEST_REQUEUE) /* the jobs that wait go before it */
        record->arrived = clock_wall();
    return record->state == JOB_READY ||
           record_event(job, end, EVENT_PAUSED, record, err);
}

static bool heal_memory(const struct job *job, const struct worker_end *end,
                        struct job_record *record, struct error *err)
{
    struct text reason;
    bool ok;

    text_init(&reason, 0);
    describe_end(end, &reason);
    ok = heal_begin(job, record, AILMENT_MEMORY, reason.data, 0, err);
    text_clear(&reason);
    return ok;
}

/* Record a state that the child could not write, or that it had no time for. */
static bool record_lost_end(const struct job *job, const struct worker_end *end,
                            struct job_record *record, struct error *err)
{
    const int status = end->status;

    /* requeued after it was canceled, while its ranks ended */
    if (record->state == JOB_STOPPED && job_requested(job) == REQUEST_REQUEUE) {
        record->arrived = clock_wall();
        record->resume = true;
        if (!job_event(job, record, EVENT_RETRIED, NULL, err))
            return false;
        job_forget(job);
        return true;
    }
    if (record->state != JOB_RUNNING && record->state != JOB_READY)
        return true;
    if (job_requested(job) == REQUEST_CANCEL) {
        if (!record_event(job, end, EVENT_CANCELLED, record, err))
            return false;
        job_forget(job);
        return true;
    }
    if (end->cause != GUARD_TIMEOUT && lost_sight(job, status))
        return record->state == JOB_READY ||
               job_event(job, record, EVENT_PAUSED, "Slurm has it", err);
    if (end->cause == GUARD_HANG)
        return crashed(job, end, record, err);
    if (end->cause != GUARD_NONE)
        return record_kill(job, end, record, err);
    if (record->state == JOB_RUNNING && end->forgive && child_met_fault(status))
        return job_event(job, record, EVENT_PAUSED,
                         "a fault of the machine ended it; its log may have the reason",
                         err);
    if (child_met_memory(status) && heal_is_left(record))
        return heal_memory(job, end, record, err);
    if (record->state == JOB_READY && end->counted && record->crashes > end->crashes)
        return true; /* it recorded its crash itself: a device does not work */
    if (record->state == JOB_RUNNING ||
        (record->state == JOB_READY && !was_paused(status)))
        return crashed(job, end, record, err);
    return true;
}

/* The ranks of a job hold its lock too, and end shortly after our child. */
static int lock_of_ended(const struct job *job, bool ours, bool *busy, struct error *err)
{
    int lock = job_lock(job, busy, err);

    for (int waited = 0; ours && lock < 0 && *busy && waited < RANKS_END_MS;
         waited += 5) {
        poll(NULL, 0, 5);
        *busy = false;
        lock = job_lock(job, busy, err);
    }
    return lock;
}

bool worker_record_end(const struct job *job, const struct worker_end *end,
                       struct job_record *record, struct error *err)
{
    bool busy = false, ok = true;
    int lock =
        lock_of_ended(job, end->status >= 0 && WIFSIGNALED(end->status), &busy, err);

    if (lock < 0 && !busy)
        return false;
    ok = job_read(job, record, err) && (busy || record_lost_end(job, end, record, err));
    if (lock >= 0)
        job_unlock(job, lock);
    return ok;
}

static void take_job(struct worker *worker, const char *path)
{
    job_init(&worker->job, path);
    worker->busy = true;
    worker->adopted = worker->asked = worker->ended = false;
    worker->due = 0;
    worker->child = (struct child) { .fd = -1 };
    worker->job_group = (struct job_group) { .door = -1 };
    worker->lock = -1;
    worker->look = clock_seconds() + GUARD_SECONDS;
}

static void release(struct worker *worker)
{
    if (worker->busy && worker->lock >= 0)
        close(worker->lock);
    if (worker->busy)
        job_clear(&worker->job);
    worker->busy = worker->adopted = worker->asked = worker->ended = false;
}

/* The trainer keeps the lock of the file, whatever happens to the file's name. */
static void open_lock(struct worker *worker)
{
    worker->lock =
        open(worker->job.lock, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC);
}

/* Check, with the lock held, whether the job should still start. */
static bool still_ready(struct worker *worker, struct job_record *record, bool *ready,
                        struct error *err)
{
    enum job_request_kind request;
    struct gate gate;

    *ready = false;
    if (!job_read(&worker->job, record, err))
        return false;
    if (record->state != JOB_READY)
        return true;
    request = job_requested(&worker->job);
    if (request == REQUEST_CANCEL) {
        if (!job_event(&worker->job, record, EVENT_CANCELLED, "canceled", err))
            return false;
        job_forget(&worker->job);
        return true;
    }
    /* of an earlier attempt; `pause --stop` relies on that it is removed before the pause
     * is looked for */
    /* the process that follows it does what a request says */
    if (submitted_is_left(&worker->job))
        return *ready = true;
    if (request != REQUEST_NONE)
        job_forget(&worker->job);
    if (!gate_read(AT_FDCWD, worker->job.run_dir, &gate, err))
        return false;
    *ready = gate.kind == GATE_OPEN;
    return true;
}

/* Show in the state why the job does not start; the job stays ready. */
static void note_trouble(struct worker *worker, struct job_record *record,
                         const struct error *err)
{
    if (strcmp(record->reason, err->text) == 0)
        return;
    record_set_text(record->reason, sizeof(record->reason), err->text);
    job_write(&worker->job, record, false, NULL); /* the same fault may prevent it */
}

/* Write where the job runs, for a watch that finds it running, if the state says something
 * else. */
static bool note_devices(struct worker *worker, struct job_record *record,
                         struct error *err)
{
    if (strcmp(record->devices, worker->devices) == 0 &&
        strcmp(record->node, worker->node) == 0)
        return true;
    snprintf(record->devices, sizeof(record->devices), "%s", worker->devices);
    snprintf(record->node, sizeof(record->node), "%s", worker->node);
    return job_write(&worker->job, record, false, err);
}

/* Do what needs our own rights: only they reach the pause of the folder, and the groups. */
static bool is_unpaused(struct worker *worker, const struct job_record *record,
                        struct user_scope *scope, bool *ready, struct error *err)
{
    struct pause pause;
    bool ok, left = submitted_is_left(&worker->job);

    user_leave(scope);
    ok = pause_read(AT_FDCWD, SPOOL_INNER, &pause, err);
    *ready = ok && (!pause.on || left);
    if (*ready)
        worker_group_make(worker, record);
    return user_enter(worker->user, scope, err) && ok;
}

static enum worker_start start(struct worker *worker, int lock, struct user_scope *scope,
                               struct error *err)
{
    const struct options options = { .no_sandbox = worker->no_sandbox,
                                     .group = user_is_own(worker->user) ? worker->group
                                                                        : NULL };
    struct child_start how = { .program = worker->program,
                               .job = &worker->job,
                               .lock = lock,
                               .spooled = true,
                               .devices = worker->devices,
                               .threads = worker->threads,
                               .user = &scope->user,
                               .options = &options };
    struct job_record record;
    bool ready, ok = still_ready(worker, &record, &ready, err);

    if (ready)
        ok = is_unpaused(worker, &record, scope, &ready, err);
    how.resume = record.resume;
    how.digest = record.frozen;
    how.roots = worker->roots;
    strcpy(worker->before, record.reason);
    worker->crashes = record.crashes;
    guard_begin(&worker->guard, worker->lock, &record, clock_seconds());
    worker->guard.user = worker->user;
    if (ready && note_devices(worker, &record, err) &&
        worker_group_start(worker, &how, err))
        return WORKER_STARTED;
    if (ok && !ready)
        return WORKER_SKIPPED;
    if (ready && err->code == ERROR_FAULT)
        note_trouble(worker, &record, err);
    else if (ready)
        job_event(&worker->job, &record, EVENT_BLOCKED, err->text, NULL);
    return WORKER_FAULT;
}

enum worker_start worker_start(struct worker *worker, const char *path, struct error *err)
{
    enum worker_start result;
    struct user_scope scope;
    bool busy = false;
    int lock = -1;

    take_job(worker, path);
    /* the folder is the user's, who may change it at any time: what we write must not reach
     * further */
    if (user_enter(worker->user, &scope, err) &&
        job_check_dir(&worker->job, worker->user, err))
        lock = job_lock(&worker->job, &busy, err);
    if (lock >= 0) {
        open_lock(worker);
        result = start(worker, lock, &scope, err);
        if (result == WORKER_STARTED)
            job_pass_lock(&worker->job, lock);
        else
            job_unlock(&worker->job, lock);
    } else {
        result = busy ? WORKER_HELD : WORKER_FAULT;
    }
    user_leave(&scope);
    if (result != WORKER_STARTED || worker->job_group.trouble[0])
        job_group_remove(worker->groups, &worker->job_group);
    if (result != WORKER_STARTED)
        release(worker);
    return result;
}

void worker_adopt(struct worker *worker, const char *path)
{
    struct job_record record;

    take_job(worker, path);
    worker->adopted = true;
    open_lock(worker);
    if (!job_read(&worker->job, &record, NULL))
        record_init(&record);
    guard_begin(&worker->guard, worker->lock, &record, clock_seconds());
    worker->guard.user = worker->user;
    worker_group_adopt(worker, &record);
    log_line(worker->log, LOG_INFO, "job %s: already running, waiting for its end",
             worker->job.name);
}

/* Send a signal to all processes of the job. */
static void send_signal(struct worker *worker, int number)
{
    struct user_scope scope;

    /* the user decides who holds the lock: only the user's own processes are signaled */
    if (!user_enter(worker->user, &scope, NULL))
        return;
    if (worker->lock >= 0)
        holders_signal(worker->lock, number);
    else if (number == SIGTERM)
        child_stop(&worker->child);
    else
        child_signal(&worker->child, number);
    user_leave(&scope);
}

void worker_request_stop(struct worker *worker)
{
    struct error err = { 0 };
    struct user_scope scope;

    if (!worker->busy || worker->asked)
        return;
    worker->asked = true;
    if (!worker->adopted) {
        child_stop(&worker->child);
        return;
    }
    if (submitted_is_left(&worker->job)) { /* a request would end the job in Slurm, too */
        send_signal(worker, SIGTERM);
        return;
    }
    /* a job that is to end is not to continue later */
    if (user_enter(worker->user, &scope, &err) &&
        job_requested(&worker->job) == REQUEST_NONE)
        job_request(&worker->job, REQUEST_PAUSE, &err);
    user_leave(&scope);
    if (err.code)
        log_line(worker->log, LOG_ERROR, "job %s: %s", worker->job.name, err.text);
}

static bool ended(struct worker *worker, int *status)
{
    bool over;

    *status = -1;
    if (worker->adopted)
        over = (worker->lock < 0 || !file_lock_is_held(worker->lock)) &&
               !job_is_locked(&worker->job);
    else
        over = child_reap(&worker->child, false, status);
    if (over)
        *status = worker_group_status(worker, *status);
    return over;
}

/* A full disk may keep the end from being recorded: try again, and keep the worker busy. */
static bool put_off(struct worker *worker, const struct error *err)
{
    if (worker->due == 0)
        worker->since = clock_seconds();
    if (worker->due == 0)
        log_line(worker->log, LOG_ERROR,
                 "job %s: cannot record its end: %s; trying again every %d s",
                 worker->job.name, err->text, DROP_RETRY_SECONDS);
    worker->due = clock_seconds() + DROP_RETRY_SECONDS;
    return false;
}

/* End the job from outside if it does not end otherwise. */
static void look(struct worker *worker)
{
    const double now = clock_seconds();
    struct guard_view view = { .asked = worker->asked };

    if (now < worker->look)
        return;
    worker->look = now + GUARD_SECONDS;
    view.request = job_requested(&worker->job);
    switch (guard_look(&worker->guard, worker->limits, &view, now)) {
    case GUARD_ASK:
        send_signal(worker, SIGTERM);
        send_signal(worker, SIGCONT);
        break;
    case GUARD_WAKE:
        send_signal(worker, SIGCONT);
        break;
    case GUARD_WARN:
        log_line(worker->log, LOG_WARN, "job %s: %s", worker->job.name,
                 worker->guard.why);
        break;
    case GUARD_KILL:
        log_line(worker->log, LOG_ERROR, "job %s: killing its process: %s",
                 worker->job.name, worker->guard.why);
        send_signal(worker, SIGKILL);
        break;
    case GUARD_WAIT:
        break;
    }
}

double worker_due(const struct worker *worker)
{
    return worker->busy && !worker->ended ? worker->look : INFINITY;
}

/* The state of another folder at the name says nothing about the job that ended. */
static bool record_end(struct worker *worker, struct job_record *record,
                       struct error *err)
{
    const struct guard *guard = &worker->guard;
    const struct worker_end end = { .status = worker->status,
                                    .forgive = true,
                                    .cause = guard->killed ? guard->cause : GUARD_NONE,
                                    .why = guard->killed ? guard->why : NULL,
                                    .counted = !worker->adopted,
                                    .crashes = worker->crashes };
    struct user_scope scope;
    bool ok;

    if (worker->lock < 0 || !file_was_replaced(worker->lock, worker->job.lock)) {
        ok = user_enter(worker->user, &scope, err) &&
             worker_record_end(&worker->job, &end, record, err);
        user_leave(&scope);
        return ok;
    }
    return error_set(err, ERROR_SYSTEM,
                     "ended because %s was removed or renamed; it starts again as a new "
                     "job",
                     worker->job.run_dir);
}

bool worker_poll(struct worker *worker, struct job_record *record)
{
    struct error err = { 0 };

    if (worker->busy && !worker->ended)
        look(worker);
    if (!worker->busy || (!worker->ended && !ended(worker, &worker->status)))
        return false;
    worker->ended = true;
    if (clock_seconds() < worker->due)
        return false;
    if (!record_end(worker, record, &err)) {
        if (err.code == ERROR_FAULT)
            return put_off(worker, &err);
        log_line(worker->log, LOG_ERROR, "job %s: %s", worker->job.name, err.text);
        record->state = JOB_INVALID;
    }
    worker->fault = child_met_fault(worker->status);
    worker->no_room = child_found_no_room(worker->status);
    worker->lost = child_lost_device(worker->status);
    job_group_remove(worker->groups, &worker->job_group);
    release(worker);
    return true;
}

bool worker_is_stuck(const struct worker *worker)
{
    return worker->busy && worker->ended && worker->due > 0 &&
           clock_seconds() - worker->since >= DROP_PATIENCE_SECONDS;
}

int worker_fd(const struct worker *worker)
{
    return worker->busy && !worker->adopted ? worker->child.fd : -1;
}

void worker_close(struct worker *worker)
{
    if (worker->busy && worker->child.fd >= 0)
        close(worker->child.fd);
    release(worker);
}
