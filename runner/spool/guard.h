/*
 * runner/spool/guard.h - decides when the process of a running job must be ended from
 * outside: it did not end in time after it was asked to, or at the job's timeout, or it
 * shows no sign of life.
 *
 * Signs of life are the modification times of NAME.run/lock, which the process sets with
 * every beat (base/heartbeat.h). Only whether they change counts, not what they are: the
 * clock may be set.
 */
#ifndef RUNNER_SPOOL_GUARD_H
#define RUNNER_SPOOL_GUARD_H

#include <time.h>

#include "runner/job/job.h"

#define GUARD_SECONDS       1 /* between two looks at a job */
#define GUARD_GRACE_DEFAULT 300
#define GUARD_HANG_DEFAULT  900

struct guard_limits {
    double grace; /* seconds to end in after a request or the timeout */
    double hang;  /* seconds without a sign of life; 0: as many as it likes */
};

enum guard_cause {
    GUARD_NONE,
    GUARD_STOP,    /* the watch ends */
    GUARD_REQUEST, /* the file `cancel` */
    GUARD_TIMEOUT,
    GUARD_HANG
};

enum guard_action {
    GUARD_WAIT,
    GUARD_ASK,  /* ask it to end; a stopped process must continue for that */
    GUARD_WAKE, /* let it continue, in case it is stopped: it knows its timeout */
    GUARD_WARN, /* log `why` */
    GUARD_KILL  /* `why` says why */
};

struct guard {
    int lock;   /* open lock file of the job; -1: signs of life are unknown */
    uid_t user; /* whose processes hold it; at first that of the watch */
    double started, before,
        timeout;             /* the clock and record.seconds then; 0: no timeout */
    struct timespec beat;    /* the last sign of life */
    double beat_at, look_at; /* when it was seen; when to look at a silent process */
    double used, used_at;    /* its processor time at an earlier look */
    bool silent;
    enum guard_cause cause;
    double since; /* of the cause */
    bool killed;
    char why[160];
};

/* What the watch knows about the job. */
struct guard_view {
    bool asked; /* to end, because the watch does */
    enum job_request_kind request;
};

void guard_begin(struct guard *guard, int lock, const struct job_record *record,
                 double now);
/* Return what to do now; now: clock_seconds. */
enum guard_action guard_look(struct guard *guard, const struct guard_limits *limits,
                             const struct guard_view *view, double now);

#endif
