/*
 * runner/job/child.h - start, signal and reap trainspool-train.  The child inherits the job's
 * lock and outlives its parent; what it has to say lies beside the job.
 */
#ifndef RUNNER_JOB_CHILD_H
#define RUNNER_JOB_CHILD_H

#include <sys/types.h>

#include "runner/job/job.h"
#include "runner/options/options.h"

struct child {
    /* 0: none. Our own child: its number cannot be used again before it is reaped */
    pid_t pid;
    int fd; /* readable when it has ended (pidfd), or -1 where the system has none */
};

struct child_start {
    const char *program; /* path of trainspool-train */
    const struct job *job;
    int lock; /* the job's lock; the child holds it on when the caller closes it */
    bool resume;
    /* In a spool: a session of its own, output into train.log.  Else the caller's
     * terminal. */
    bool spooled;
    const struct options *options; /* passed on: quiet, verbose, color; NULL: none */
};

bool child_start(const struct child_start *start, struct child *out, struct error *err);
void child_signal(const struct child *child, int number);
/* Has it ended?  Then *status is what waitpid says, and the child is gone.  wait: wait
 * for it. */
bool child_reap(struct child *child, bool wait, int *status);
/* "was killed by signal 9 (Killed): ..." or "left with status 3". */
void child_tell(int status, struct text *out);

#endif
