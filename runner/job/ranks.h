/*
 * runner/job/ranks.h - the processes of one job on this machine: trainspool-train starts
 * itself again, once for each rank but its own, and is rank 0. (Those that a launcher
 * starts: launched_ranks.h.)
 *
 * A watch therefore sees one child per job. The other ranks hold the job's
 * lock too: it is free when the last of them has exited. They ignore signals, write only
 * their parts of checkpoints and print nothing; they end when rank 0 does.
 */
#ifndef RUNNER_JOB_RANKS_H
#define RUNNER_JOB_RANKS_H

#include "base/log.h"
#include "kernels/backend.h"
#include "runner/job/child.h"
#include "runner/job/machine.h"

/* The ranks of a job, as rank 0 has them; starts as { 0 }. */
struct ranks {
    struct backend_group group; /* group.ranks 0: none were started */
    int *links;                 /* of the group */
    int *peers;                 /* of the group; NULL: none */
    struct child *children;     /* by rank; 0 is this process. NULL: a launcher's */
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

/* ---- For launched_ranks.c ---- */

/* What a rank other than 0 works with. */
struct rank_work {
    struct backend_group group; /* ranks is set here */
    const struct machine *machine;
    const struct job *job;
    const struct text *text; /* of the job */
    struct containment *containment;
    bool no_onednn;
    /* Return the stage of ZeRO, after the plan is made; NULL: that of the plan. */
    bool (*stage)(void *context, int64_t *out, struct error *err);
    void *context;
};

/* Ignore the signals that rank 0 handles, except for one; 0: all of them. */
void rank_ignore_signals(int except);
/* Plan the job and train until rank 0 ends; report errors to rank 0. */
bool rank_work(const struct rank_work *work, struct error *err);

#endif
