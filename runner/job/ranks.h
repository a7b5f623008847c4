/*
 * runner/job/ranks.h - the processes of one job: trainspool-train starts itself again,
 * once for each rank but its own, and is rank 0.
 *
 * A watch therefore sees one child per job. The other ranks hold the job's
 * lock too: it is free when the last of them has exited. They ignore signals, write no
 * file and print nothing; they end when rank 0 does.
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
    int zero_stage;
    const struct device *devices; /* by rank */
};

bool ranks_start(const struct ranks_start *start, struct ranks *out, struct error *err);
/* Release the other ranks and wait for them; kill those that remain after 10 s. Return
 * the number of the signal that killed one of them otherwise, or 0. Do nothing for ranks
 * that were never started. */
int ranks_end(struct ranks *ranks, struct log *log);

/* Run as a rank other than 0 until rank 0 ends.  Return the exit status. */
int ranks_follow(const struct options *options, const struct machine *machine,
                 struct error *err);

#endif
