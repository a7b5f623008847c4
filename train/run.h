/*
 * train/run.h - the state of a training run: data, model, device, progress.  The trainer
 * opens it, steps it, and closes it.
 */
#ifndef TRAIN_RUN_H
#define TRAIN_RUN_H

#include "base/arena.h"
#include "base/text.h"
#include "train/chat/template_saving.h"
#include "train/checkpoint/checkpoint.h"
#include "train/metrics.h"
#include "train/predictions.h"
#include "train/score_file.h"
#include "train/run_media.h"
#include "train/samples.h"
#include "train/schedule.h"
#include "train/teacher/distillation.h"
#include "train/trainer.h"

/* The micro-batches of an optimizer step. */
struct run_step_batches {
    int64_t epoch;
    uint64_t first; /* micro-batch of the epoch */
    size_t batches; /* of all ranks */
    double weight;  /* of its targets: divisor of the sum of losses */
};

/* A step that was issued and has not ended. */
struct rollout;

struct run_step {
    int64_t index; /* from 0 */
    struct run_step_batches place;
    double tokens;  /* of this rank */
    double started; /* clock_seconds */
};

/* Everything that run_close releases. */
struct run {
    const struct plan *plan;
    struct plan measured; /* the same, with values measured from the data */
    const struct trainer_options *options;
    struct arena *arena;
    struct backend *be;
    struct model_config config;
    struct tokenizer *tokenizer;
    struct template_saving saving; /* what the saved tokenizer must say */
    /* train NULL: nothing is trained; eval NULL: no evaluation */
    struct dataset *train, *eval;
    struct dataset *whole;  /* eval without truncation, if different, for prompts */
    size_t eval_size;       /* samples in an evaluation batch */
    size_t gradients_bytes; /* backend_options.gradients_bytes */
    struct run_media media; /* rows of features of images and sounds */
    struct model *model;
    struct distillation *teaching; /* a second model, or a file of its logits; or NULL */
    struct rollout *rollout;       /* sampled answers, in stage grpo; or NULL */
    struct batch batch;
    struct metrics *metrics;
    struct samples *samples;         /* answers to save; NULL: none */
    struct predictions *predictions; /* of an evaluation without training; or NULL */
    struct score_file *scores;       /* the same, of stage rm */
    int64_t evaluated;               /* its batches and answers so far */
    double evaluated_loss;           /* of these batches; NaN: none yet */
    /* of an evaluation, which rank 0 may cut in other ranks; NULL: that of the options */
    struct heartbeat *eval_heartbeat;
    struct progress progress;
    struct progress_history history;
    char *choices;     /* progress.choices, malloc'ed */
    char *answers;     /* progress.answers, malloc'ed */
    bool told_methods; /* logged that ranks compute differently */
    bool told_absent;  /* logged that ranks do not see output_dir */
    struct trainer_steps steps;
    double logged_at; /* clock_seconds */
    uint64_t logged_tokens;
    double save_failed_at; /* 0: the last save succeeded */
    double grad_norm, learning_rate, seconds,
        rate;                               /* of the last step; tokens per second */
    struct run_step issued[BACKEND_FENCES]; /* earliest first: train/step.h */
    size_t issued_count;
    struct schedule_average average;
    double ordered_rate; /* other ranks: of the step that rank 0 ordered */
    double ended_at;     /* clock_seconds, of the last step */
    bool abandoned;      /* the step that was to be issued, by a stop */
    int64_t
        first_bad; /* the first of the last steps in a row that were skipped; 0: unknown */
    bool trial;    /* a preflight is in progress */
    struct preflight_kept *kept; /* the state to restore after the preflight */
    char finding[256];           /* short result of an autopsy; "": there was none */
};

/* Return the micro-batches of a step, which counts from 0. */
struct run_step_batches run_step_batches(const struct run *run, int64_t step);
/* Return the micro-batches of an epoch, as trainer_steps takes them. */
size_t run_micro_batches(const struct plan *plan, const struct dataset *train);
/* Return the data that the evaluation prompts come from.  Prompts longer than
 * plan->cutoff_len tokens are not used. */
const struct dataset *run_questions(const struct run *run);
/* Return the micro-batches of all ranks in one optimizer step; the last step of an epoch
 * may have fewer. */
size_t run_window_size(const struct run *run);

/* Report the progress of an evaluation without training: another batch or answer. */
void run_evaluated_one(struct run *run);

/* The data of a run; eval is NULL without an evaluation, train without training. */
struct run_data {
    const struct dataset *train, *eval;
};
/* Check that the data fit the model and make at least one step. */
bool run_check_data(const struct plan *plan, const struct model_config *config,
                    const struct run_data *data, struct error *err);
/* Check that predict_with_generate has prompts that it can answer. */
bool run_check_questions(const struct plan *plan, const struct model_config *config,
                         const struct dataset *questions, struct error *err);

/* The largest batch of training and evaluation, for which memory is laid out. */
struct run_sizes {
    size_t rows, sequences;
    size_t media_rows; /* of features of images and sounds */
    size_t eval_size;  /* samples in an evaluation batch; 0: no evaluation */
};
struct run_sizes run_measure(const struct plan *plan, const struct model_config *config,
                             const struct dataset *train, const struct dataset *eval);

/* Log device, precision, model, data and steps. */
void run_describe(struct run *run);
/* Write a line in the format of transformers' Trainer to the log and to the `logged`
 * callback. */
void run_log_line(const struct run *run, const char *line);
/* Format a number as Python does in such a line: nan, inf, 0.0002. */
void run_number_text(double value, char out[32]);
/* Append "'rewards/chosen': 0.1, " and so on; prefix is "" or "eval_". */
void run_rewards_text(const struct rewards *rewards, const char *prefix,
                      struct text *line);

/* Read the data, allocate memory, load the weights and find the checkpoint to resume
 * from.  Only plan and options are set before the call.  After a failure too, run_close
 * releases what was opened. */
bool run_open(struct run *run, struct error *err);
void run_close(struct run *run);
/* Load the checkpoint to resume from, if there is one.  Rank 0 finds it and moves later
 * ones aside. */
bool run_resume(struct run *run, struct error *err);

#endif
