/*
 * runner/cluster/world.h - this process among the ranks that a launcher started: srun,
 * mpirun, torchrun and others put the place of each rank into environment variables.
 */
#ifndef RUNNER_CLUSTER_WORLD_H
#define RUNNER_CLUSTER_WORLD_H

#include <stdbool.h>

#include "base/error.h"
#include "precision/device.h"

/* Names are those of torch.distributed; a world of one rank has size 1 and nodes 1. */
struct world {
    const char *launcher;       /* "srun", ...; NULL: none, the process is alone */
    int rank, size;             /* 0 <= rank < size <= RANKS_MAX */
    int local_rank, local_size; /* among the ranks of this machine */
    int nodes;                  /* number of machines, from 1 */
    char start[128]; /* names this start of the launcher, in all its ranks; "": unknown */
};

/*
 * Read the variables of the environment.  Several launchers may have set theirs: mpirun
 * inside an allocation of Slurm, for example; the innermost decides.  Variables of a
 * launcher that did not start this process as one of several ranks, such as those of a
 * script of sbatch, count as none.
 *
 * ERROR_USAGE names a variable that is missing or has no valid value.
 */
bool world_read(struct world *out, struct error *err);

/* Return whether a launcher sets the variable, for the processes that it starts. */
bool world_is_variable(const char *name);

#endif
