/*
 * runner/job/child.h - start, signal and reap trainspool-train. The child inherits the
 * job's lock and outlives its parent; it reports through the files next to the job.
 */
#ifndef RUNNER_JOB_CHILD_H
#define RUNNER_JOB_CHILD_H

#include <sys/types.h>

#include "base/user.h"
#include "runner/job/job.h"
#include "runner/job/job_group.h"
#include "runner/options/options.h"

struct child {
    /* 0: none.  Our own child: its pid is not reused before it is reaped */
    pid_t pid;
    /* readable when the child has ended (pidfd), or -1 if the system has no pidfd */
    int fd;
    int64_t kills; /* cgroup_oom_kills when it started; -1: its own group counts */
};

struct child_start {
    const char *program; /* path of trainspool-train */
    const struct job *job;
    int lock; /* the job's lock; the child keeps it when the caller closes it */
    const char *const *roots; /* where the job may write, as in patch_options; or NULL */
    const char *digest;       /* of the frozen text as admitted; "": unknown */
    bool resume;
    /* In a spool: use a new session, with output to train.log. Otherwise use the caller's
     * terminal. */
    bool spooled;
    bool launched;           /* it is rank 0 of a launcher, as this process is */
    const struct user *user; /* as which it runs; NULL: as this process */
    /* in which it starts, if it can; sets `trouble`; NULL: as this process. Only if spooled */
    struct job_group *group;
    const char *devices; /* --device; "" or NULL: as the job says */
    int threads;         /* --threads; 0: as the job says */
    /* passed on: quiet, verbose, no_onednn, no_sandbox, group; NULL: none */
    const struct options *options;
};

/* ERROR_FAULT if the program cannot be started, which is no fault of the job; ERROR_SYSTEM
 * or ERROR_FAULT if its log cannot be opened. */
bool child_start(const struct child_start *start, struct child *out, struct error *err);
/* Return whether the child ended, or did not begin, because of a fault of the machine. */
bool child_met_fault(int status);
/* Return whether it did not begin because other programs use the memory that it needs. */
bool child_found_no_room(int status);
/* Return whether it ran out of memory: an allocation failed, or the kernel killed it for
 * that. */
bool child_met_memory(int status);
/* Return whether it ended because its device does not work. */
bool child_lost_device(int status);
/* Ask it to save and end, however often this was asked before. */
void child_stop(const struct child *child);
void child_signal(const struct child *child, int number);
/* Return whether the child has ended. *status is then the status of waitpid, and the
 * child is gone. `wait`: block until it ends. */
bool child_reap(struct child *child, bool wait, int *status);
/* Append "was killed by signal 9 (Killed): ...", "ran out of memory", with memory_limit if
 * that is the reason, or "exited with status 3". */
void child_describe_exit(int status, struct text *out);

#endif
