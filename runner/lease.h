/*
 * runner/lease.h - rank 0 of a job that Slurm runs, whose lock a process of another machine
 * holds (handover.h): the lease is its right to work.
 *
 * The file has the name of the submission, and then the mark of the start that works: Slurm
 * starts a submission again after it lost a node, on which the earlier start may continue. A
 * start writes its mark into the file as it is, and never makes one: without the file, the
 * submission was withdrawn.
 */
#ifndef RUNNER_LEASE_H
#define RUNNER_LEASE_H

#include "runner/job/job.h"

/* The files of the job, for the attempt of a submission: its state is cluster.json, and its
 * lock the lease. */
void lease_take_names(struct job *job);
struct lease {
    char text[192]; /* of the file, as long as this start works */
    char name[80];  /* of the submission */
};

/* Take the lease of a submission. Return a descriptor of it, or -1: another submission has
 * it, or the job was canceled. */
int lease_take(const struct job *job, const char *name, struct lease *out,
               struct error *err);
/* Return false if the lease was withdrawn, or another start has it. */
bool lease_is_held(const struct job *job, const struct lease *lease);
/* Note the exit status of rank 0, if the lease is held. */
void lease_note_exit(const struct job *job, const struct lease *lease, int status);

#endif
