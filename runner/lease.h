/*
 * runner/lease.h - rank 0 of a job that Slurm runs, whose lock a process of another machine
 * holds (handover.h): the lease is its right to work.
 */
#ifndef RUNNER_LEASE_H
#define RUNNER_LEASE_H

#include "runner/job/job.h"

/* The files of the job, for the attempt of a submission: its state is cluster.json, and its
 * lock the lease. */
void lease_take_names(struct job *job);
/* Take the lease of a submission. Return a descriptor of it, or -1: another submission has
 * it, or the job was canceled. */
int lease_take(const struct job *job, const char *name, struct error *err);
/* Note the exit status of rank 0. */
void lease_note_exit(const char *job, const char *name, int status);

#endif
