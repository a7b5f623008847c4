/* runner/ending.h - what the end of an attempt means for its job. */
#ifndef RUNNER_ENDING_H
#define RUNNER_ENDING_H

#include "base/error.h"
#include "runner/job/heal.h"
#include "train/plan.h"

struct ending_facts {
    bool spooled;
    bool timed_out; /* the job's timeout stopped it */
    bool waits;     /* it has not begun: memory that it needs is in use */
    bool advanced;  /* it made a step */
    bool heals;     /* a problem that a patch may remedy is to be remedied */
    bool retries;   /* a crash is followed by another attempt */
    bool launched;  /* a cluster may start its ranks again, on other devices */
    int signal;     /* that stopped it; the timeout and requests count as SIGTERM */
    enum job_request_kind request;
};

struct ending {
    enum job_event event;
    bool paused;          /* by a fault of the machine */
    enum ailment ailment; /* to be healed */
    int status;           /* exit status */
    char reason[800];
};

/* err: NULL if the job is done. ERROR_STOPPED says where: "stopped at step 12". */
void ending_find(const struct ending_facts *facts, const struct error *err,
                 struct ending *out);

struct ending_run {
    const struct job *job;
    const struct plan *plan;
    int64_t step;
    bool advanced;
    int64_t warnings; /* and errors that it survived */
};

/* Describe the end of a run that did not fail, and where its warnings are. */
void ending_describe(const struct ending *ending, const struct ending_run *run,
                     struct text *out);
/* Return the exit status of an attempt that an error ended. */
int ending_status(bool spooled, enum error_code code);

#endif
