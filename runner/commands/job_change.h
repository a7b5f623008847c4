/*
 * runner/commands/job_change.h - a change of a job's state that a command makes: directly
 * while it holds the job's lock, or as a request to the running process.
 */
#ifndef RUNNER_COMMANDS_JOB_CHANGE_H
#define RUNNER_COMMANDS_JOB_CHANGE_H

#include "runner/job/job.h"
#include "runner/options/options.h"

struct job_answer {
    const struct options *options; /* with dry_run, change nothing */
    struct text sentence;          /* printed after the job's name */
    bool changed;                  /* the command has, or would have, an effect */
};

/* Both append the sentence and set `changed`. */
struct job_change {
    const char *done; /* "canceled": of the jobs that it changes, for the summary */
    bool queues;      /* it queues ended jobs */
    /* Called with the job's lock held. */
    bool (*unlocked)(const struct job *job, struct job_record *record,
                     struct job_answer *answer, struct error *err);
    /* Called while another process holds the lock, so the job is running. */
    bool (*running)(const struct job *job, struct job_answer *answer, struct error *err);
};

/* Change every job of the command line that is in a state of --state, print a line for
 * each and a summary for each folder, wake the watch.  Return the highest exit status. */
int job_change_all(const struct job_change *change, const struct options *options);

#endif
