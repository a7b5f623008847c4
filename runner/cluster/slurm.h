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
    const char *name; /* of the submission; unique */
    const char *dir;  /* absolute: in which the ranks start */
    /* of a job that is not in an array */
    const char *run_dir;                    /* absolute: NAME.run */
    const char *const *words;               /* command of a rank, NULL-ended */
    const struct slurm_script_tasks *tasks; /* NULL: no array */
};

/* A task of an array. */
struct slurm_script_task {
    const char *name;    /* of the submission of its job */
    const char *run_dir; /* absolute */
    const char *const *words;
};

struct slurm_script_tasks {
    const char *id; /* absolute: file with the number of the array, once that is known */
    const struct slurm_script_task *list;
    size_t count;
};

/* Append the batch script of a job, or of an array of jobs.  Its shell passes on SIGTERM,
 * which Slurm sends two minutes before the time limit, or less before a short one, and
 * writes how the ranks ended into NAME.run/slurm.exit unless rank 0 did. */
void slurm_script_write(const struct slurm_script *script, struct text *out);
/* Append the options of a job: those of an array have the same. */
void slurm_script_options(const struct plan *plan, struct text *out);

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

/* What was submitted: a job, or a task of an array. */
struct slurm_target {
    const char *name; /* of the submission */
    int64_t task;     /* -1: no array */
    int64_t id;       /* that it probably has; 0: not known */
};

enum slurm_state {
    SLURM_WAITS, /* also one that is requeued */
    SLURM_RUNS,  /* also one that is ending */
    SLURM_ENDED,
    SLURM_GONE /* unknown: ended a while ago, or forgotten */
};

struct slurm_job {
    enum slurm_state state;
    int64_t id;      /* of a task: the number of the array */
    int64_t task;    /* -1: no task, or several that wait */
    char word[24];   /* Slurm's name of the state, such as PENDING or NODE_FAIL */
    char reason[64]; /* why it waits, such as Priority */
    char nodes[128];
    bool inferred; /* only from the other tasks of the array */
};

/* Find a job by its name, or a task of the array with that name.  SLURM_UNSURE: the
 * controller does not answer.  A task that squeue does not have, though it has others of the
 * array, was canceled while it waited, or ended a while ago: CANCELLED, inferred. */
enum slurm_answer slurm_find(const struct slurm_target *target, struct slurm_job *out,
                             struct error *err);
/* Find any task of an array, to learn its number. */
enum slurm_answer slurm_find_array(const char *name, struct slurm_job *out,
                                   struct error *err);
/* Read one line of squeue or sacct: number, state, reason and nodes, separated by "|".
 * False: it is none. */
bool slurm_read_line(const char *line, struct slurm_job *out);
/* Find a target in such lines, and any job; SLURM_GONE: there is none.  SLURM_NO: no line;
 * SLURM_UNSURE: what there is, is not about jobs. */
enum slurm_answer slurm_read_lines(const char *lines, const struct slurm_target *target,
                                   struct slurm_job *exact, struct slurm_job *any);
/* Cancel a job by its name, or a task; what is gone counts as canceled. */
enum slurm_answer slurm_cancel(const struct slurm_target *target, struct error *err);

#endif
