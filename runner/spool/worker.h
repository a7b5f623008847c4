/*
 * runner/spool/worker.h - one job that trains: started here, or found running and
 * adopted. The job's lock shows whether it is alive; a pid is used only for our own
 * child.
 */
#ifndef RUNNER_SPOOL_WORKER_H
#define RUNNER_SPOOL_WORKER_H

#include "base/log.h"
#include "runner/job/child.h"
#include "runner/spool/guard.h"

struct worker {
    const char *program;      /* trainspool-train */
    const char *node;         /* the name of this one, "" if the watch is alone */
    bool no_sandbox;          /* jobs are not contained */
    const char *group;        /* that may read their files; or NULL */
    const char *const *roots; /* where jobs may write: as in patch_options */
    const struct guard_limits *limits;
    struct job_groups *groups; /* NULL: jobs have no control groups of their own */
    struct log *log;
    struct job job; /* of the running job */
    /* for the next start: as --device and --threads of trainspool-train */
    char devices[64];
    int threads;
    uid_t user; /* the owner of the job, also for an adopted one */
    bool busy, adopted;
    bool asked; /* to end */
    struct child child;
    struct job_group job_group; /* in which the job runs */
    int lock;                   /* open lock file of the job, not locked here; -1: none */
    struct guard guard;
    double look;      /* when it looks at the job again */
    bool ended;       /* the job has ended, and that is not recorded yet */
    int status;       /* from waitpid; -1: unknown */
    double due;       /* when to record it, after a fault of the machine; 0: now */
    double since;     /* when that failed first */
    bool fault;       /* a fault of the machine ended the last job */
    bool no_room;     /* the last job waits for memory */
    bool lost;        /* the device of the last job does not work */
    char before[512]; /* the reason in its state when it started */
    int64_t crashes;  /* in its state then */
};

enum worker_start {
    WORKER_STARTED,
    WORKER_SKIPPED, /* it is no longer ready */
    WORKER_FAULT,   /* it cannot be started now */
    WORKER_HELD     /* another process holds its lock: it can be adopted */
};

/* Start the job at `path`, which must be ready. WORKER_FAULT sets *err. */
enum worker_start worker_start(struct worker *worker, const char *path,
                               struct error *err);
/* Wait for a job whose lock another process holds. */
void worker_adopt(struct worker *worker, const char *path);
/* Ask the running job to finish its step, save, and exit. */
void worker_request_stop(struct worker *worker);
/* Return whether the running job has ended. *record then is its final state (JOB_INVALID
 * if it cannot be read, or if its folder is gone), and the worker is free. A crashed attempt is recorded here; as
 * long as a fault of the machine prevents that, the worker stays busy. */
bool worker_poll(struct worker *worker, struct job_record *record);
/* Return a descriptor that is readable when our child ends; -1: call worker_poll
 * periodically. */
int worker_fd(const struct worker *worker);
/* Return when worker_poll should be called at the latest. */
double worker_due(const struct worker *worker);
/* Return whether the end of the job could not be recorded for long. */
bool worker_is_stuck(const struct worker *worker);
/* Forget the job; it continues without us. */
void worker_close(struct worker *worker);

/* How the process of a job ended. */
struct worker_end {
    int status;             /* from waitpid; -1: unknown */
    bool forgive;           /* a crash may be followed by another attempt */
    enum guard_cause cause; /* for which it was killed from outside */
    const char *why;        /* the same in words; NULL: it was not */
    bool counted;           /* with forgive: `crashes` were recorded before it started */
    int64_t crashes;
};

/* Handle a job whose lock is free and whose state is `running`: the attempt crashed. It
 * becomes ready again if `forgive` is set and it crashed fewer than max_retries times
 * before, else failed. So does a job that is ready and whose child, which ended with
 * `status`, had no time to begin. After a fault of the machine the job is ready again.
 * Either is stopped if a request says so; one that was killed at its timeout failed, and
 * one that was killed because the watch ended is ready again. Any other
 * state stays. ERROR_SYSTEM or ERROR_FAULT; a
 * held lock is not an error, and *record is then `running`. */
bool worker_record_end(const struct job *job, const struct worker_end *end,
                       struct job_record *record, struct error *err);
/* Return how many seconds a job waits after a crash. */
double worker_retry_delay(const struct job_record *record);

#endif
