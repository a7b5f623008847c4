/*
 * runner/spool/worker.h - the one job that trains: started here, or found running and adopted.
 * Who is alive is told by the job's lock; a pid is used only for our own child.
 */
#ifndef RUNNER_SPOOL_WORKER_H
#define RUNNER_SPOOL_WORKER_H

#include "base/log.h"
#include "runner/job/child.h"

struct worker {
    const char *program; /* trainspool-train */
    struct log *log;
    struct job job; /* of the job at work */
    bool busy, adopted;
    bool asked; /* to leave */
    struct child child;
};

enum worker_start {
    WORKER_STARTED,
    /* it is not ready any more, or failed to start, and its state says so */
    WORKER_SKIPPED,
    WORKER_HELD /* somebody else holds its lock: it can be adopted */
};

/* Start the job at `path`, which must be ready. */
enum worker_start worker_start(struct worker *worker, const char *path);
/* Wait for a job whose lock somebody else holds. */
void worker_adopt(struct worker *worker, const char *path);
/* Let the job at work finish its step, save, and leave. */
void worker_ask(struct worker *worker);
/*
 * Has the job at work ended?  Then *record is what became of it, and the worker is free.
 * An attempt that crashed is settled here.
 */
bool worker_poll(struct worker *worker, struct job_record *record);
/* Readable when our child ends; -1: ask worker_poll now and then. */
int worker_fd(const struct worker *worker);
/* Forget the job; it goes on by itself. */
void worker_close(struct worker *worker);

/*
 * A job whose lock is free and whose state is `running`: the attempt crashed.  It becomes
 * ready again if `forgive` and fewer than max_retries crashes lie behind it, else failed.
 * status: of waitpid, -1: not known.  Any other state is left as it is.  ERROR_SYSTEM; a
 * lock that is held is no error, *record then says running.
 */
bool worker_settle(const struct job *job, int status, bool forgive,
                   struct job_record *record, struct error *err);
/* Seconds that a job waits after a crash. */
double worker_patience(const struct job_record *record);

#endif
