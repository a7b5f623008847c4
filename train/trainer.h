/* train/trainer.h - the loop, and nothing but the loop. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <signal.h>

#include "base/log.h"
#include "kernels/backend.h"
#include "train/plan.h"

/* For a progress line; told after each optimizer step. */
struct trainer_progress {
    int64_t step, total;
    double seconds; /* of the last step */
    double loss, grad_norm, tokens_per_second, epoch;
};

/* What a run is made of, known once all is open. */
struct run_info {
    const char *backend; /* "cpu: 2 threads, avx512, oneDNN 2.6.3" */
    int threads;         /* of a CPU; 0: all */
    uint64_t parameters, trainable;
    size_t samples, eval_samples, longest; /* tokens of the longest sample */
    uint64_t tokens;                       /* of an epoch */
    int64_t steps_per_epoch, steps, first; /* the step it goes on behind */
    double loss;                           /* the last before that; NaN: none is known */
    struct memory_use memory;
};

struct trainer_options {
    struct log *log;                   /* train.log */
    const volatile sig_atomic_t *stop; /* set by a signal: finish the step, save, leave */
    void (*progress)(void *context,
                     const struct trainer_progress *progress); /* or NULL */
    /* A logged step or evaluation as Trainer prints it, for the terminal; or NULL. */
    void (*logged)(void *context, const char *line);
    void (*opened)(void *context, const struct run_info *facts); /* or NULL */
    /* After an evaluation or a checkpoint, when the files of the run tell how far it is;
     * or NULL. */
    void (*milestone)(void *context);
    /* Before each step of a preflight, of which progress does not tell: may the run be
     * asked to stop?  Or NULL. */
    void (*waiting)(void *context);
    void *context;
    const char *about; /* the job in Markdown, for TensorBoard; or NULL */
    bool resume;       /* go on from this job's last checkpoint if there is one */
    bool no_onednn;
    /* This process's place among the plan's ranks; NULL: there is but one.  Ranks other
     * than 0 use of all the above no_onednn alone. */
    const struct backend_group *group;
};

/*
 * Train.  True: the final model is in plan->output_dir and complete.  ERROR_STOPPED after
 * a stop (checkpoint saved), ERROR_DIVERGED with a diagnosis, else what went wrong.
 *
 * The order of things, as in transformers' Trainer: step, log, evaluate, save.  A step
 * whose gradients are not finite is skipped: the schedule and Adam's count do not
 * advance.
 */
bool trainer_run(const struct plan *plan, const struct trainer_options *options,
                 struct error *err);

/* Optimizer steps an epoch and in all for a number of micro-batches; the last window of
 * an epoch may be short and is stepped too. */
struct trainer_steps {
    int64_t per_epoch, total;
};
struct trainer_steps trainer_steps(const struct plan *plan, size_t micro_batches);

/* save_steps and its like: below 1 a share of all steps, rounded up; at least 1. */
int64_t trainer_interval(double steps, int64_t total);

#endif
