/*
 * runner/spool/notify.h - reports the ends of jobs to a program of the administrator and
 * by mail.  Both run as child processes that the watch does not wait for, without a
 * shell; that they fail is logged and changes nothing.
 */
#ifndef RUNNER_SPOOL_NOTIFY_H
#define RUNNER_SPOOL_NOTIFY_H

#include "base/log.h"
#include "runner/job/job.h"

struct notify;

struct notify_options {
    const char *program; /* executed with job, state, reason and path; NULL: none */
    const char *address; /* receives mail; NULL: none */
    double seconds;      /* after which a program is killed */
    struct log *log;
};

/* ERROR_USAGE: an option cannot work.  Call it while the working directory is still that
 * of the user. */
struct notify *notify_new(const struct notify_options *options, struct error *err);
/* What still runs continues without a deadline. */
void notify_free(struct notify *notify);

/* Note that the job at `path` ended, if its record says so. */
void notify_job_ended(struct notify *notify, const char *path,
                      const struct job_record *record);
/* Start what waits, reap what ended, kill what takes too long.  Call it when a child
 * ended and at notify_due(). */
void notify_poll(struct notify *notify);
/* Return when to call notify_poll again, by clock_seconds. */
double notify_due(const struct notify *notify);
bool notify_is_idle(const struct notify *notify);
/* Allow at most `seconds` from now for everything, because the watch ends. */
void notify_hurry(struct notify *notify, double seconds);

#endif
