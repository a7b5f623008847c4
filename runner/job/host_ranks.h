/*
 * runner/job/host_ranks.h - the ranks of one machine among several: `trainspool run` starts
 * itself once for each, as torchrun would.
 */
#ifndef RUNNER_JOB_HOST_RANKS_H
#define RUNNER_JOB_HOST_RANKS_H

#include "runner/cluster/host.h"
#include "runner/options/options.h"

/* Find the number of ranks on each machine: what the variables say, or else the job's ranks
 * divided by the machines, or else one for each GPU here. */
bool host_ranks_count(const struct host *host, const char *job, int *out,
                      struct error *err);

/* Start the ranks with the same command, pass signals on to them, and wait until all have
 * ended.  When one fails, the others end, too.  Return 0, or the exit status of the first
 * rank that failed; if that is EXIT_SYSTEM, which a rank has that lost another, the first
 * EXIT_FINDINGS or EXIT_NO_JOB instead. */
int host_ranks_run(const struct host *host, int ranks, const struct options *options,
                   struct error *err);

#endif
