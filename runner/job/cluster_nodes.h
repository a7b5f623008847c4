/*
 * runner/job/cluster_nodes.h - what sinfo says of the nodes of a cluster.  It may not answer
 * at all, so it has a time limit, and a watch asks it once a minute about a partition.
 */
#ifndef RUNNER_JOB_CLUSTER_NODES_H
#define RUNNER_JOB_CLUSTER_NODES_H

#include "base/arena.h"
#include "base/error.h"

struct cluster_nodes;

struct cluster_nodes *cluster_nodes_new(void);
/* NULL is allowed. */
void cluster_nodes_free(struct cluster_nodes *nodes);

/* Fork a process that asks sinfo for this one, which will not be able to: it opens no
 * socket.  The process ends with this one, and closes the descriptor `other`.  Nothing
 * happens where there is no sinfo. NULL is allowed. */
bool cluster_nodes_detach(struct cluster_nodes *nodes, int other, struct error *err);

/* Return lines "GRES|FEATURES" about the nodes of a partition, "" for all, in the arena.
 * nodes: NULL asks without remembering.  NULL with ERROR_DEVICE: sinfo does not answer, as
 * in "sinfo did not answer within 5 s". */
const char *cluster_nodes_ask(struct cluster_nodes *nodes, const char *partition,
                              struct arena *arena, struct error *err);

#endif
