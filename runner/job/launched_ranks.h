/*
 * runner/job/launched_ranks.h - the processes of one job that srun, mpirun or torchrun
 * started, on one machine or several.
 *
 * Rank 0 does what a single process does: it alone locks the job, reads its file, records
 * its state and writes its files. The others get the text of the job from it, over the
 * network, and work until it ends. All need the model, the data and the folder of the job
 * under the same names.
 */
#ifndef RUNNER_JOB_LAUNCHED_RANKS_H
#define RUNNER_JOB_LAUNCHED_RANKS_H

#include <signal.h>

#include "base/arena.h"
#include "runner/cluster/world.h"
#include "runner/job/ranks.h"

struct launched_start {
    const struct world *world;
    const struct options *options; /* passed on: no_onednn, no_sandbox */
    const struct job *job;
    const struct text *text;       /* of the job, with ranks and nodes */
    const struct machine *machine; /* of launched_machine */
    const volatile sig_atomic_t *stop;
    struct log *log;
};

/* Rank 0: wait for the others and send them the job. Call ranks_end in any case. */
bool launched_ranks_meet(const struct launched_start *start, struct ranks *out,
                         struct error *err);
/* Rank 0: send the stage of ZeRO, once the plan is made. */
bool launched_ranks_begin(const struct ranks *ranks, int64_t zero_stage,
                          struct error *err);
/* Rank 0, once the state of the job is recorded: end the others with the same exit
 * status.  A rank that rank 0 did not reach so has failed: a launcher that starts failed
 * ranks again must start all of them.  Nothing without launched ranks. */
void launched_ranks_finish(const struct ranks *ranks, int status);

/* Run as a rank other than 0 until rank 0 ends.  Return the exit status. */
int launched_ranks_follow(const struct options *options, const struct world *world,
                          const struct machine *machine, volatile sig_atomic_t *stop,
                          struct error *err);

#endif
