/*
 * runner/commands/job_change.h - a change of a job's state that a command makes: directly
 * while it holds the job's lock, or as a request to the running process.
 */
#ifndef RUNNER_COMMANDS_JOB_CHANGE_H
#define RUNNER_COMMANDS_JOB_CHANGE_H

#include "runner/job/job.h"
#include "runner/options/options.h"

/* Both append the sentence that the command prints after the job's name. */
struct job_change {
    /* Called with the job's lock held. */
    bool (*unlocked)(const struct job *job, struct job_record *record,
                     struct text *sentence, struct error *err);
    /* Called while another process holds the lock, so the job is running. */
    bool (*running)(const struct job *job, struct text *sentence, struct error *err);
};

/* Change every job of the command line, print a line for each, wake the watch of its
 * folder.  Return the highest exit status. */
int job_change_all(const struct job_change *change, const struct options *options);

#endif
