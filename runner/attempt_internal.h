/* runner/attempt_internal.h - the state of an attempt, and its parts. */
#ifndef RUNNER_ATTEMPT_INTERNAL_H
#define RUNNER_ATTEMPT_INTERNAL_H

#include <signal.h>

#include "runner/cluster/world.h"
#include "runner/job/containment.h"
#include "runner/job/inspect.h"
#include "runner/job/job.h"
#include "runner/job/machine.h"
#include "runner/job/ranks.h"
#include "runner/lease.h"
#include "runner/options/options.h"
#include "runner/output/meter.h"
#include "runner/output/report.h"

struct attempt {
    const struct options *options;
    const struct machine *machine;
    const struct world *world;
    struct machine own_machine; /* of one of several launched ranks */
    struct ranks ranks;
    bool called; /* the other launched ranks, if there are any */
    volatile sig_atomic_t *stop;
    struct heartbeat heartbeat;
    struct job job;
    struct job_record record;
    struct inspection inspection;
    struct containment containment;
    struct meter meter;
    struct report report;
    struct log *log;
    int log_fd, lock_fd;
    struct lease lease;            /* of one that Slurm starts, with options->lease */
    int64_t warnings;              /* and errors that the run survived */
    int64_t first;                 /* the step after which this attempt resumes */
    double started, before;        /* the clock at its start, record.seconds then */
    bool lost;                     /* its folder is gone, or its lease */
    double written;                /* when state.json was last written */
    bool unwritten;                /* the record has changed since */
    bool timed_out, waits;         /* waits: for memory that other programs use */
    double page_due;               /* when the page may be written next */
    enum job_request_kind request; /* what the file `cancel` requests */
    int64_t bad_from;              /* set by a run that diverged */
};

/* ---- attempt.c ---- */

/* Treat a request in the file `cancel` like a signal. */
void attempt_check_requests(struct attempt *attempt);
/* Count the time, and treat the end of the job's timeout like a signal. */
void attempt_check_time(struct attempt *attempt);
/* The page is for people; failing to write it must not end a run. */
void attempt_write_page(struct attempt *attempt);

/* ---- attempt_end.c: each returns the exit status ---- */

/* Record and report how the attempt ended. */
int attempt_finish(struct attempt *attempt, bool done, struct error *err);
/* Before there is a record to write into, report on standard error only. */
int attempt_refuse(struct attempt *attempt, const struct error *err);
/* The folder of the job is gone, and with it what the attempt would record. */
int attempt_end_lost(struct attempt *attempt);

#endif
