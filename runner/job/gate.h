/*
 * runner/job/gate.h - what keeps a job that waits from starting, apart from the machine.
 * Each is a file in NAME.run, on disk before anything depends on it: it outlasts the watch
 * and a power cut, and every process that looks at the job finds the same.
 *
 *   NAME.run/hold    the job is held until the file is removed (trainspool release)
 *   NAME.run/waits   trainspool.begin and trainspool.after of the admitted text, or the
 *                    jobs of a sweep
 */
#ifndef RUNNER_JOB_GATE_H
#define RUNNER_JOB_GATE_H

#include "runner/job/job.h"

enum gate_kind {
    GATE_OPEN,
    GATE_HELD,  /* by a person */
    GATE_AFTER, /* other jobs have to be done first */
    GATE_BEGIN, /* it is too early */
    GATE_SWEEP  /* the jobs of a sweep have not ended */
};

struct gate {
    enum gate_kind kind;
    char reason[512];    /* for people; "" if open */
    char waits_for[256]; /* AFTER, SWEEP: the name of the first job that is not done */
    bool broken;         /* GATE_AFTER: that job has ended otherwise, or is gone */
    double seconds;      /* GATE_BEGIN: until then, by the wall clock */
};

/* It can keep a job only in these states. */
bool gate_matters(enum job_state state);
/* Find what keeps a job from starting. `run` is its NAME.run, relative to an open
 * directory (AT_FDCWD allowed); jobs to wait for are next to it. ERROR_FAULT if that
 * cannot be found out for now. */
bool gate_read(int dir, const char *run, struct gate *out, struct error *err);

/* Return whether a person holds the job; false if that cannot be found out for now. */
bool gate_is_held(const struct job *job);

/* Call a function for each job that NAME.run/waits names in trainspool.after, or as a job of
 * the sweep, until it returns false. */
typedef bool gate_job_function(void *context, const char *name);
bool gate_each_job(const char *run, gate_job_function *job, void *context);
bool gate_each_of_sweep(const char *run, gate_job_function *job, void *context);

/* Hold a job, or release it; both are on disk then. NAME.run must exist. why: NULL for
 * none. */
bool gate_hold(const struct job *job, const char *why, struct error *err);
bool gate_release(const struct job *job, struct error *err);

/* Write NAME.run/waits, or remove it if nothing is to be waited for. after: names with
 * commas, NULL: none. begin: as in the job, NULL: none; arrived: what a delay counts
 * from. ERROR_JOB for a begin that is not a time. */
struct gate_waits {
    const char *after, *begin;
    double arrived;          /* seconds since 1970 */
    const char *const *jobs; /* of a sweep; ends with NULL; NULL: none */
};
bool gate_set_waits(const struct job *job, const struct gate_waits *waits,
                    struct error *err);

#endif
