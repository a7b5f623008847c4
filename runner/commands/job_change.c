/*
 * runner/commands/job_change.c - locks each job of a command line and changes its state,
 * or passes the change on to the process that holds the lock.
 */
#include "config.h"

#include "runner/commands/job_change.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "runner/output/report.h"
#include "runner/spool/spool.h"
#include "runner/spool/watch.h"

enum { LEAVING_TRIES = 200 }; /* ten seconds */

/* Return whether the process has recorded the end of the job and holds the lock only
 * until it exits. */
static bool is_ending(const struct job *job)
{
    struct job_record record;

    return job_read(job, &record, NULL) &&
           (record.state == JOB_DONE || record.state == JOB_FAILED ||
            record.state == JOB_STOPPED);
}

static int lock_job(const struct job *job, bool *busy, struct error *err)
{
    static const struct timespec pause = { .tv_nsec = 50000000 };
    int lock = job_lock(job, busy, err);

    for (int i = 0; *busy && i < LEAVING_TRIES && is_ending(job); i++) {
        nanosleep(&pause, NULL);
        *busy = false;
        lock = job_lock(job, busy, err);
    }
    return lock;
}

/* Change the job under its lock, or ask the process that holds the lock. */
static bool change_job(const struct job_change *change, const struct job *job,
                       struct text *sentence, struct error *err)
{
    struct job_record record;
    bool busy = false, ok;
    int lock;

    /* the job may still run without its file */
    if (!file_exists(job->path) && !file_exists(job->state))
        return error_set(err, ERROR_USAGE, "there is no job %s", job->path);
    if (!job_make_dir(job, err))
        return false;
    lock = lock_job(job, &busy, err);
    if (busy)
        return change->running(job, sentence, err);
    if (lock < 0)
        return false;
    ok = job_read(job, &record, err) && change->unlocked(job, &record, sentence, err);
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

int job_change_all(const struct job_change *change, const struct options *options)
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
        if (change_job(change, &job, &sentence, &err)) {
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
