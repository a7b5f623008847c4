/*
 * runner/cluster/slurm.h - Slurm's commands: submit a script, find a job, cancel it.
 *
 * A job is identified by its name, which is unique, and never by its number: a controller
 * that is killed forgets what it acknowledged in the last seconds, and gives the numbers to
 * other jobs. Every command has a time limit, because a controller may not answer.
 */
#ifndef RUNNER_CLUSTER_SLURM_H
#define RUNNER_CLUSTER_SLURM_H

#include "base/text.h"
#include "train/plan.h"

enum { SLURM_NAME = 80 };

/* ---- The script ---- */

struct slurm_script {
    const struct plan *plan;
    const char *name;         /* unique */
    const char *run_dir;      /* absolute: NAME.run */
    const char *dir;          /* absolute: in which the ranks start */
    const char *const *words; /* command of a rank, NULL-ended */
};

/* Append the batch script of a job.  Its shell passes on SIGTERM, which Slurm sends two
 * minutes before the time limit, or less before a short one, and writes how the ranks ended into NAME.run/slurm.exit
 * unless rank 0 did. */
void slurm_script_write(const struct slurm_script *script, struct text *out);

/* ---- Commands ---- */

enum slurm_answer {
    SLURM_YES,
    SLURM_NO,     /* *err says why: trying the same again is useless until someone acts */
    SLURM_LATER,  /* the same for now: a limit of jobs is reached */
    SLURM_UNSURE, /* no answer in time: it may have happened. *err says what is known */
};

/* Submit a script; output: absolute name of the file for its output. *id: the number. */
enum slurm_answer slurm_submit(const char *script, const char *output, int64_t *id,
                               struct error *err);

/* Ask whether Slurm would take a script, without submitting it.  SLURM_NO: it would not, and
 * *err has its words. */
enum slurm_answer slurm_test(const char *script, struct error *err);

enum slurm_state {
    SLURM_WAITS, /* also one that is requeued */
    SLURM_RUNS,  /* also one that is ending */
    SLURM_ENDED,
    SLURM_GONE /* unknown: ended a while ago, or forgotten */
};

struct slurm_job {
    enum slurm_state state;
    int64_t id;
    char word[24];   /* Slurm's name of the state, such as PENDING or NODE_FAIL */
    char reason[64]; /* why it waits, such as Priority */
    char nodes[128];
};

/* Find a job by its name. SLURM_UNSURE: the controller does not answer. */
enum slurm_answer slurm_find(const char *name, struct slurm_job *out, struct error *err);
/* Read one line of squeue or sacct: number, state, reason and nodes, separated by "|".
 * False: it is none. */
bool slurm_read_line(const char *line, struct slurm_job *out);
/* Cancel a job by its name; one that is gone counts as canceled. */
enum slurm_answer slurm_cancel(const char *name, struct error *err);

#endif
