/*
 * train/run.h - all that a training run holds: data, model, device, progress.  The
 * trainer opens it, steps it, and gives it back.
 */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "base/arena.h"
#include "base/text.h"
#include "train/checkpoint/checkpoint.h"
#include "train/metrics.h"
#include "train/samples.h"
#include "train/teacher/distillation.h"
#include "train/trainer.h"

/* All that a run holds, so that it can be given back in one place. */
struct run {
    const struct plan *plan;
    struct plan measured; /* the same, with what the data told */
    const struct trainer_options *options;
    struct arena *arena;
    struct backend *be;
    struct model_config config;
    struct tokenizer *tokenizer;
    struct dataset *train, *eval; /* eval NULL: no evaluation */
    struct dataset *whole;        /* eval uncut, where that differs, for its questions */
    size_t eval_size;             /* samples of a batch of it */
    struct model *model;
    struct distillation
        *teaching; /* a second model, or what was kept of one; else NULL */
    struct batch batch;
    struct metrics *metrics;
    struct samples *samples; /* answers that are kept; NULL: none */
    struct progress progress;
    struct progress_history history;
    struct trainer_steps steps;
    double started, logged_at; /* clock_seconds */
    uint64_t logged_tokens;
    double save_failed_at; /* 0: the last save was good */
    double grad_norm, learning_rate, seconds,
        rate;                    /* of the last step; tokens a second */
    bool trial;                  /* a preflight is under way */
    struct preflight_kept *kept; /* as it was before it */
    char finding[256];           /* of an autopsy, in short; "": there was none */
};

/* What an optimizer step, from 0, is made of. */
struct run_place {
    int64_t epoch;
    uint64_t first; /* micro-batch of the epoch */
    size_t batches; /* of all ranks */
    double weight;  /* of its targets: what the sum of losses is divided by */
};
struct run_place run_place(const struct run *run, int64_t step);
/* The data whose questions are asked, of which each has plan->cutoff_len tokens at
 * most. */
const struct dataset *run_questions(const struct run *run);
/* Micro-batches of one optimizer step, of all ranks, but for a last short one. */
size_t run_window_size(const struct run *run);

/* What a block is laid out for: the largest batch, of training and evaluation. */
struct run_sizes {
    size_t rows, sequences;
    size_t eval_size; /* samples of an evaluation's batch; 0 without one */
};
struct run_sizes run_measure(const struct plan *plan, const struct dataset *train,
                             const struct dataset *eval);

/* A line as Trainer prints it: to the log, and to whoever listens. */
void run_say(const struct run *run, const char *line);
/* A number in such a line: Python writes nan, inf and 0.0002. */
void run_number_text(double value, char out[32]);
/* "'rewards/chosen': 0.1, " and so on, behind what is there; prefix "" or "eval_". */
void run_rewards_text(const struct rewards *rewards, const char *prefix,
                      struct text *line);

/* Read the data, take the memory, load the weights, find where to go on from.  plan and
 * options are set, all else is zero.  False: *err tells; run_close gives back what was
 * taken. */
bool run_open(struct run *run, struct error *err);
void run_close(struct run *run);

#endif
