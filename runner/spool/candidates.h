/*
 * runner/spool/candidates.h - the machines that a job can be checked for, where the watches
 * of several nodes share a folder: this one, and one of each other kind among the nodes that
 * live. The first one on which the job passes its check decides what it is patched for, and
 * so which nodes can run it.
 */
#ifndef RUNNER_SPOOL_CANDIDATES_H
#define RUNNER_SPOOL_CANDIDATES_H

#include "runner/job/machine.h"
#include "runner/spool/nodes.h"
#include "runner/spool/queue.h"

enum { CANDIDATES_MAX = 8 };

struct candidate {
    char node[NODE_NAME_ROOM]; /* one that has it */
    struct machine machine;
    int capability;  /* of its GPUs, 80 for 8.0; 0: it has none */
    size_t gpus;     /* of that capability, in all nodes */
    uint64_t memory; /* of the largest of them, or of the CPU */
};

struct candidates {
    struct candidate *list; /* this machine first; malloc'ed */
    size_t count;
    uint64_t version; /* changes with them */
};

/* Make the list again from the nodes that live. */
void candidates_make(struct candidates *candidates, const struct machine *own,
                     const struct nodes *nodes);
void candidates_clear(struct candidates *candidates);
/* Write the indexes in the order in which to try them for a new job: those first whose GPUs
 * have fewer jobs of the queue to run. */
void candidates_order(const struct candidates *candidates, const struct queue *queue,
                      uint8_t order[CANDIDATES_MAX]);
/* Return the index of the one with the largest device. */
size_t candidates_largest(const struct candidates *candidates);

/* Return whether a job can run on another node that lives, now or later. */
bool candidates_fit_elsewhere(const struct nodes *nodes,
                              const struct placement_need *need);

#endif
