/* train/trainer.h - the loop, and nothing but the loop. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include <signal.h>

#include "base/log.h"
#include "train/plan.h"

struct trainer_progress { /* for a progress line; called after each optimizer step */
    int64_t step, total;
    double seconds, loss, tokens_per_second, epoch;
};

struct trainer_options {
    struct log *log;                    /* train.log */
    volatile sig_atomic_t *stop;        /* set by a signal: finish the step, save, leave */
    void (*progress)(void *context, const struct trainer_progress *progress); /* or NULL */
    /* The line of a logged step or evaluation, Python-style, for the terminal; or NULL. */
    void (*logged)(void *context, const char *line);
    void *context;
    bool resume;                        /* go on from the last checkpoint if there is one */
    bool no_onednn;
};

/* ERROR_STOPPED after a stop (checkpoint saved), ERROR_DIVERGED with a diagnosis, else what went
 * wrong.  True: the final model is in plan->output_dir and complete. */
bool trainer_run(const struct plan *plan, const struct trainer_options *options,
                 struct error *err);

/* Optimizer steps of an epoch and in all, for `plan`; needs the number of micro-batches. */
struct trainer_steps {
    int64_t per_epoch, total;
};
struct trainer_steps trainer_steps(const struct plan *plan, size_t micro_batches);

#endif
