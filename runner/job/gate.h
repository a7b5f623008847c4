/*
 * runner/job/gate.h - what keeps a job that waits from starting, apart from the machine.
 * Each is a file in NAME.run, on disk before a command reports it: it outlasts the watch
 * and a power cut, and every process that looks at the job finds the same.
 *
 *   NAME.run/hold    the job is held until the file is removed (trainspool release)
 */
#ifndef RUNNER_JOB_GATE_H
#define RUNNER_JOB_GATE_H

#include "runner/job/job.h"

enum gate_kind {
    GATE_OPEN,
    GATE_HELD, /* by a person */
};

struct gate {
    enum gate_kind kind;
    char reason[512]; /* for people; "" if open */
};

/* It can keep a job only in these states. */
bool gate_matters(enum job_state state);
/* Find what keeps a job from starting. `run` is its NAME.run, relative to an open
 * directory (AT_FDCWD allowed). ERROR_FAULT if that cannot be found out for now. */
bool gate_read(int dir, const char *run, struct gate *out, struct error *err);

/* Hold a job, or release it; both are on disk then. NAME.run must exist. why: NULL for
 * none. */
bool gate_hold(const struct job *job, const char *why, struct error *err);
bool gate_release(const struct job *job, struct error *err);

#endif
