/*
 * runner/cluster/host.h - this machine among those on which a cluster starts one process
 * each: LLaMA-Factory's variables, which a pod of Kubernetes gets too, and SkyPilot's.
 */
#ifndef RUNNER_CLUSTER_HOST_H
#define RUNNER_CLUSTER_HOST_H

#include <stdbool.h>

#include "base/error.h"

struct host {
    const char *launcher; /* "NNODES", "SkyPilot"; NULL: none, this process is alone */
    int index, nodes;     /* 0 <= index < nodes <= RANKS_MAX */
    int ranks;            /* to start on each machine; 0: the variables do not say */
};

/* Read the variables of the environment.  A machine that is the only one counts as none.
 * ERROR_USAGE names a variable that has no valid value. */
bool host_read(struct host *out, struct error *err);

/* The variables of a rank, as torchrun sets them; rank: among those of this machine. */
void host_set_rank(const struct host *host, int ranks, int rank);

#endif
