/* train/trainer.h - the training loop. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "base/heartbeat.h"
#include "base/log.h"
#include "kernels/backend.h"
#include "train/plan.h"

/* For a progress line; reported after each optimizer step. */
struct trainer_progress {
    bool evaluates; /* nothing is trained: steps are batches and answers */
    int64_t step, total;
    double seconds; /* of the last step */
    double loss, grad_norm, tokens_per_second, epoch;
};

/* Properties of a run, known once everything is open. */
struct run_info {
    const char *backend; /* "cpu: 2 threads, avx512, oneDNN 2.6.3" */
    int threads;         /* of a CPU; 0: all */
    uint64_t parameters, trainable;
    size_t samples, eval_samples, longest; /* tokens of the longest sample */
    uint64_t tokens;                       /* per epoch */
    int64_t steps_per_epoch, steps, first; /* steps already done before this start */
    double loss;                           /* last one before that; NaN: unknown */
    struct memory_use memory;
};

struct trainer_options {
    struct log *log; /* train.log */
    /* It ticks while data and model are read, and with every layer; a stop saves a
     * checkpoint if there is something to save; or NULL. */
    struct heartbeat *heartbeat;
    /* true: the files of the job are gone, and a stop saves nothing; or NULL */
    const bool *lost;
    void (*progress)(void *context,
                     const struct trainer_progress *progress); /* or NULL */
    /* Called with a logged step or evaluation in the format of Trainer, for the
     * terminal; or NULL. */
    void (*logged)(void *context, const char *line);
    void (*opened)(void *context, const struct run_info *facts); /* or NULL */
    /* Called after an evaluation or a checkpoint, when the files of the run are up to
     * date; or NULL. */
    void (*milestone)(void *context);
    void *context;
    const char *about; /* the job in Markdown, for TensorBoard; or NULL */
    bool resume;       /* resume from the last checkpoint of this job, if any */
    int64_t before;    /* ... that was saved before this step; 0: any */
    /* Set if the run diverged: the first step whose checkpoint must not be resumed from;
     * or NULL. */
    int64_t *bad_from;
    bool no_onednn;
    /* This process among the ranks of the plan; NULL: the only one.  Of the options
     * above, ranks other than 0 use only no_onednn and the heartbeat. */
    const struct backend_group *group;
};

/*
 * Train.  On success the complete final model is in plan->output_dir.  Fails with
 * ERROR_STOPPED after a stop (checkpoint saved), ERROR_DIVERGED with a diagnosis, or
 * another error.
 *
 * The order is that of transformers' Trainer: step, log, evaluate, save.  A step with
 * non-finite gradients is skipped: the schedule and Adam's step count do not advance.
 */
bool trainer_run(const struct plan *plan, const struct trainer_options *options,
                 struct error *err);

/* Optimizer steps per epoch and in total for a number of micro-batches; an incomplete
 * last window of an epoch is a step too. */
struct trainer_steps {
    int64_t per_epoch, total;
};
struct trainer_steps trainer_steps(const struct plan *plan, size_t micro_batches);

/* Return the interval in steps of save_steps and similar keys: below 1 they are a share
 * of all steps, rounded up; at least 1. */
int64_t trainer_interval(double steps, int64_t total);

#endif
