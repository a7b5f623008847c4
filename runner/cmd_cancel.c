/*
 * runner/cmd_cancel.c - cancel, retry: a person changes what becomes of a job.  A waiting
 * job is changed here, under its lock; a running one is asked by a file it looks for
 * after each step.
 */
#include "config.h"

#include "runner/commands.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/digest.h"
#include "base/file.h"
#include "patcher/document/document.h"
#include "runner/job/job.h"
#include "runner/output/report.h"
#include "runner/spool/spool.h"
#include "runner/spool/watch.h"
#include "runner/spool/worker.h"

enum { LEAVING_MOMENTS = 200 }; /* ten seconds */

/* What a command does with a job whose lock it holds; the sentence is for the person. */
typedef bool (*change)(const struct job *job, struct job_record *record,
                       struct text *sentence, struct error *err);

/* The text that is cancelled is the one that lies there: a watch that has not taken it
 * yet must not take it for a new one. */
static bool note_text(const struct job *job, struct job_record *record, struct error *err)
{
    struct stat st;
    struct text text;
    bool ok;

    text_init(&text, DOCUMENT_MAX_BYTES);
    ok = file_read(job->path, DOCUMENT_MAX_BYTES, &text, &st, err);
    if (ok) {
        job_source(&st, record->source);
        digest_bytes(text.data, text.len, record->digest);
    }
    text_clear(&text);
    return ok;
}

static bool cancel(const struct job *job, struct job_record *record,
                   struct text *sentence, struct error *err)
{
    if (job_next(record->state, EVENT_CANCELLED) == JOB_NOWHERE) {
        text_addf(sentence, "is %s, there is nothing to cancel",
                  job_state_names[record->state]);
        return true;
    }
    text_adds(sentence, "cancelled");
    if (record->state == JOB_NEW && !note_text(job, record, err))
        return false;
    return job_event(job, record, EVENT_CANCELLED, "cancelled before it ran", err);
}

static bool cancel_running(const struct job *job, struct text *sentence,
                           struct error *err)
{
    text_adds(sentence, "will end after this step, with a checkpoint");
    return job_ask(job, WISH_CANCEL, err);
}

static void tell_queued(const struct job *job, struct text *sentence)
{
    char *dir = path_dir(job->path);

    text_adds(sentence, "queued again");
    if (!spool_is_watched(dir))
        text_addf(sentence, "; no watch is at work on %s yet: trainspool watch %s", dir,
                  dir);
    free(dir);
}

static bool retry(const struct job *job, struct job_record *record, struct text *sentence,
                  struct error *err)
{
    /* what was done is done anew, what was not goes on */
    record->resume = record->state != JOB_DONE;
    if (job_next(record->state, EVENT_RETRIED) == JOB_NOWHERE) {
        text_addf(sentence, "is %s already", job_state_names[record->state]);
        return true;
    }
    job_forget(job);
    tell_queued(job, sentence);
    return job_event(job, record, EVENT_RETRIED, NULL, err);
}

static bool retry_running(const struct job *job, struct text *sentence, struct error *err)
{
    (void)job;
    (void)err;
    text_adds(sentence, "is running already");
    return true;
}

/* It has said how it ended, and holds the lock until it has left. */
static bool is_leaving(const struct job *job)
{
    struct job_record record;

    return job_read(job, &record, NULL) &&
           (record.state == JOB_DONE || record.state == JOB_FAILED ||
            record.state == JOB_STOPPED);
}

static int lock_job(const struct job *job, bool *busy, struct error *err)
{
    static const struct timespec moment = { .tv_nsec = 50000000 };
    int lock = job_lock(job, busy, err);

    for (int i = 0; *busy && i < LEAVING_MOMENTS && is_leaving(job); i++) {
        nanosleep(&moment, NULL);
        *busy = false;
        lock = job_lock(job, busy, err);
    }
    return lock;
}

/* Under the lock, or what there is to do while somebody else holds it. */
static bool change_job(const struct job *job, change free_job,
                       bool (*held_job)(const struct job *, struct text *,
                                        struct error *),
                       struct text *sentence, struct error *err)
{
    struct job_record record;
    bool busy = false, ok;
    int lock;

    if (!file_exists(job->path) && !file_exists(job->state)) /* it may run all the same */
        return error_set(err, ERROR_USAGE, "there is no job %s", job->path);
    if (!job_make_dir(job, err))
        return false;
    lock = lock_job(job, &busy, err);
    if (busy)
        return held_job(job, sentence, err);
    if (lock < 0)
        return false;
    ok = job_read(job, &record, err);
    if (ok && record.state == JOB_RUNNING) { /* a crash that nobody has settled */
        record.resume = true;
        ok = job_event(job, &record, EVENT_GAVE_UP, "trainspool-train vanished", err);
    }
    ok = ok && free_job(job, &record, sentence, err);
    close(lock);
    return ok;
}

static void wake_watch(const struct job *job)
{
    char *dir = path_dir(job->path);
    char *inner = path_join(dir, SPOOL_INNER);

    if (spool_is_watched(dir))
        watch_wake(inner);
    free(inner);
    free(dir);
}

static int change_all(const struct options *options, change free_job,
                      bool (*held_job)(const struct job *, struct text *, struct error *))
{
    struct report report;
    int worst = EXIT_FINE;

    report_init(&report, options);
    for (size_t i = 0; i < options->operand_count; i++) {
        struct error err = { 0 };
        struct text sentence;
        struct job job;
        int status;

        job_init(&job, options->operands[i]);
        text_init(&sentence, 0);
        if (change_job(&job, free_job, held_job, &sentence, &err)) {
            wake_watch(&job);
            if (!options->quiet)
                report_line(&report, "%s: %s", job.path, sentence.data);
        } else {
            report_error(options->program, &err);
        }
        status = report_exit(err.code);
        worst = status > worst ? status : worst;
        text_clear(&sentence);
        job_clear(&job);
    }
    return worst;
}

int cmd_cancel(const struct options *options)
{
    return change_all(options, cancel, cancel_running);
}

int cmd_retry(const struct options *options)
{
    return change_all(options, retry, retry_running);
}
