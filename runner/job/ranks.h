/*
 * runner/job/ranks.h - the processes of one job: trainspool-train starts itself again, once
 * for each rank but its own, and is rank 0.
 *
 * So a watch sees one child a job, whatever it starts.  The others hold the job's lock
 * too: it is free when the last of them has gone.  They take no signal, write no file and
 * print nothing; they end when rank 0 does.
 */
#ifndef RUNNER_JOB_RANKS_H
#define RUNNER_JOB_RANKS_H

#include "base/log.h"
#include "kernels/backend.h"
#include "runner/job/child.h"
#include "runner/job/machine.h"

struct ranks {
    struct backend_group group; /* of rank 0 */
    int links[DEVICE_RANKS_MAX];
    struct child children[DEVICE_RANKS_MAX]; /* by rank; 0 is this process */
};

struct ranks_start {
    const struct options *options; /* passed on: no_onednn */
    const struct job *job;         /* frozen */
    struct log *log;
    int lock;
    int count;
    const struct device *devices; /* by rank */
};

bool ranks_start(const struct ranks_start *start, struct ranks *out, struct error *err);
/*
 * Let go of the others and wait for them; those that stay for 10 s are killed.  The
 * number of the signal that ended one by itself, or 0.  Of ranks never started: nothing.
 */
int ranks_end(struct ranks *ranks, struct log *log);

/* A rank other than 0, for as long as rank 0 wants; the exit status. */
int ranks_follow(const struct options *options, const struct machine *machine,
                 struct error *err);

#endif
