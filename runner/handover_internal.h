/* runner/handover_internal.h - a submission that is followed, and the parts of handover.c. */
#ifndef RUNNER_HANDOVER_INTERNAL_H
#define RUNNER_HANDOVER_INTERNAL_H

#include <signal.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "runner/cluster/slurm.h"
#include "runner/job/job.h"
#include "runner/options/options.h"
#include "runner/sweep_array.h"
#include "train/plan.h"

enum { HANDOVER_TICK_MS = 500 };

struct handover {
    const struct options *options;
    const volatile sig_atomic_t *stop;
    struct job job;
    struct job_record record;
    struct arena *arena;
    struct plan plan;
    char *submission, *lease, *cluster, *script, *output, *exit;
    char name[SLURM_NAME]; /* of the submission */
    int64_t id;
    bool in_array;          /* it is, or will be, a task of an array of a sweep */
    char array[SLURM_NAME]; /* "": not known yet */
    int64_t task;
    struct sweep_array *sweep; /* while the task is not known; NULL: submitted alone */
    struct stat seen;          /* cluster.json when it was copied */
    bool begun;                /* rank 0 has written a state */
    double next, pause;        /* when Slurm is asked again */
    double gone_since;    /* when Slurm first did not know it, or said that it ended; 0 */
    double leaving_since; /* when this process was to end, after the ranks; 0 */
    bool exit_seen;       /* rank 0, or the script, has noted an exit */
    bool withdrawn;       /* its lease was removed */
    bool cancel_sent;     /* and Slurm was asked to cancel it */
    enum job_request_kind request; /* the last one seen: rank 0 removes what it does */
    int64_t first;                 /* the step at which the submission began */
    int lock;
};

/* ---- handover.c ---- */

/* Return what Slurm has of the submission. */
struct slurm_target handover_target(const struct handover *h);
/* Append "job 8", or "job 8_3" of an array. */
void handover_add_number(const struct handover *h, struct text *out);
/* Show in the state why a job that is ready waits. */
void handover_note_wait(struct handover *h, const char *why);
/* Write slurm.json. */
bool handover_note(struct handover *h, struct error *err);
/* Remove the files of the submission: it has ended. */
void handover_forget(struct handover *h);
void handover_log(struct handover *h, const char *fmt, ...) TS_PRINTF(2, 3);
/* Show the watch that this process lives, as a run does. */
void handover_beat(const struct handover *h);
/* Return whether the job is to end. Only a watch continues one that is stopped without a
 * request. */
bool handover_must_end(const struct handover *h);
/* Set the state of a job whose ranks could not, and return the exit status by which the
 * watch continues. */
int handover_end(struct handover *h, enum job_event event, const char *why, int status);
/* End a job that Slurm no longer has, as a request says. */
int handover_end_withdrawn(struct handover *h);

/* ---- handover_submit.c ---- */

/* Write what rank 0 finds: the job, ready; and its right to work. */
bool handover_prepare(struct handover *h, struct error *err);
/* Ask Slurm for the submission until there is an answer. */
enum slurm_answer handover_find(struct handover *h, struct slurm_job *found,
                                struct error *err);
/*
 * Submit, unless the controller has the submission already: sbatch may have been
 * acknowledged before this process, or an answer, was lost.
 */
bool handover_submit(struct handover *h, struct error *err);
/* Submit the jobs of the sweep that are ready as an array, or find the task of this one in an
 * array that another process has submitted. */
bool handover_join(struct handover *h, struct error *err);

/* ---- handover_follow.c ---- */

/* Return whether rank 0 or the script has noted its exit. */
bool handover_read_exit(const struct handover *h, int *status);
/* Follow the submission to its end, and return the exit status. */
int handover_follow(struct handover *h);

#endif
