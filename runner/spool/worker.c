/* runner/spool/worker.c - moves a job from ready to running to its final state. */
#include "config.h"

#include "runner/spool/worker.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/arena.h"

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

static bool crashed(const struct job *job, int status, bool forgive,
                    struct job_record *record, struct error *err)
{
    bool again = forgive && record->crashes < record->max_retries;
    bool requested = !forgive && status >= 0 && WIFSIGNALED(status) &&
                     (WTERMSIG(status) == SIGINT || WTERMSIG(status) == SIGTERM);
    struct text reason;
    bool ok;

    text_init(&reason, 0);
    if (status < 0)
        text_adds(&reason, "trainspool-train vanished");
    else {
        text_adds(&reason, "trainspool-train ");
        child_describe_exit(status, &reason);
    }
    if (forgive && !again)
        text_addf(&reason, "; gave up after %" PRId64 " crashes", record->crashes + 1);
    record->resume = true;
    ok = job_event(job, record,
                   requested ? EVENT_CANCELLED
                   : again   ? EVENT_CRASHED
                             : EVENT_GAVE_UP,
                   reason.data, err);
    text_clear(&reason);
    return ok;
}

/* Record a child that exited before it could set its state to `running`. */
static bool record_early_exit(const struct job *job, int status,
                              struct job_record *record, struct error *err)
{
    struct text reason;
    bool ok;

    text_init(&reason, 0);
    text_adds(&reason, "trainspool-train ");
    child_describe_exit(status, &reason);
    text_adds(&reason, " before it began");
    ok = job_event(job, record, EVENT_EXIT_BAD, reason.data, err);
    text_clear(&reason);
    return ok;
}

/* Return whether the job handled a signal and stopped: a job that is ready was then
 * paused. */
static bool was_paused(int status)
{
    return status < 0 || (WIFEXITED(status) && WEXITSTATUS(status) > 128);
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

bool worker_record_end(const struct job *job, int status, bool forgive,
                       struct job_record *record, struct error *err)
{
    bool busy = false, ok = true;
    int lock = lock_of_ended(job, status >= 0 && WIFSIGNALED(status), &busy, err);

    if (lock < 0 && !busy)
        return false;
    ok = job_read(job, record, err);
    if (ok && !busy && record->state == JOB_RUNNING)
        ok = crashed(job, status, forgive, record, err);
    else if (ok && !busy && record->state == JOB_READY && !was_paused(status))
        ok = record_early_exit(job, status, record, err);
    if (lock >= 0)
        close(lock);
    return ok;
}

static void take_job(struct worker *worker, const char *path)
{
    job_init(&worker->job, path);
    worker->busy = true;
    worker->adopted = worker->asked = false;
    worker->child = (struct child) { .fd = -1 };
}

static void release(struct worker *worker)
{
    if (worker->busy)
        job_clear(&worker->job);
    worker->busy = worker->adopted = worker->asked = false;
}

/* Check, with the lock held, whether the job should still start. */
static bool still_ready(struct worker *worker, struct job_record *record,
                        struct error *err)
{
    if (!job_read(&worker->job, record, err) || record->state != JOB_READY)
        return false;
    if (job_requested(&worker->job) == REQUEST_CANCEL) {
        job_event(&worker->job, record, EVENT_CANCELLED, "canceled", err);
        job_forget(&worker->job);
        return false;
    }
    job_forget(&worker->job);
    return true;
}

static enum worker_start start(struct worker *worker, int lock)
{
    struct child_start how = {
        .program = worker->program, .job = &worker->job, .lock = lock, .spooled = true
    };
    struct job_record record;
    struct error err = { 0 };

    if (still_ready(worker, &record, &err)) {
        how.resume = record.resume;
        if (child_start(&how, &worker->child, &err))
            return WORKER_STARTED;
        job_event(&worker->job, &record, EVENT_EXIT_BAD, err.text, NULL);
    }
    if (err.code)
        log_line(worker->log, LOG_ERROR, "job %s: %s", worker->job.name, err.text);
    return WORKER_SKIPPED;
}

enum worker_start worker_start(struct worker *worker, const char *path)
{
    enum worker_start result;
    struct error err = { 0 };
    bool busy = false;
    int lock;

    take_job(worker, path);
    lock = job_lock(&worker->job, &busy, &err);
    if (lock >= 0) {
        result = start(worker, lock);
        close(lock); /* the child holds it now */
    } else {
        result = busy ? WORKER_HELD : WORKER_SKIPPED;
        if (!busy)
            log_line(worker->log, LOG_ERROR, "job %s: %s", worker->job.name, err.text);
    }
    if (result == WORKER_STARTED)
        log_line(worker->log, LOG_INFO, "job %s: started", worker->job.name);
    else
        release(worker);
    return result;
}

void worker_adopt(struct worker *worker, const char *path)
{
    take_job(worker, path);
    worker->adopted = true;
    log_line(worker->log, LOG_INFO, "job %s: already running, waiting for its end",
             worker->job.name);
}

void worker_request_stop(struct worker *worker)
{
    struct error err = { 0 };

    if (!worker->busy || worker->asked)
        return;
    worker->asked = true;
    if (!worker->adopted)
        child_stop(&worker->child);
    else if (!job_request(&worker->job, REQUEST_PAUSE, &err))
        log_line(worker->log, LOG_ERROR, "job %s: %s", worker->job.name, err.text);
}

static bool ended(struct worker *worker, int *status)
{
    *status = -1;
    if (worker->adopted)
        return !job_is_locked(&worker->job);
    return child_reap(&worker->child, false, status);
}

bool worker_poll(struct worker *worker, struct job_record *record)
{
    struct error err = { 0 };
    int status;

    if (!worker->busy || !ended(worker, &status))
        return false;
    if (!worker_record_end(&worker->job, status, true, record, &err)) {
        log_line(worker->log, LOG_ERROR, "job %s: %s", worker->job.name, err.text);
        record->state = JOB_INVALID;
    }
    release(worker);
    return true;
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
