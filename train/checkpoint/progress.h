/*
 * train/checkpoint/progress.h - how far a run is, as two files of a checkpoint: trainer_state.json,
 * which Hugging Face tools read, and trainspool_state.json, which a run goes on from
 * exactly.
 */
#ifndef TRAIN_CHECKPOINT_PROGRESS_H
#define TRAIN_CHECKPOINT_PROGRESS_H

#include "base/json.h"
#include "precision/scaler.h"
#include "train/plan.h"
#include "train/model/rewards.h"

/* All that a run needs to go on exactly, besides the tensors. */
struct progress {
    int64_t step;    /* optimizer steps made or skipped: the place in the data */
    int64_t updates; /* steps really made: Adam's and the schedule's count */
    int64_t total;   /* steps of the whole run */
    double epoch;
    uint64_t tokens;    /* trained on, padding not counted */
    double window_loss; /* sum of the losses of the steps since the last logged one */
    double window_ce, window_kd;   /* of stage distill: its two parts */
    struct rewards window_rewards; /* of stage dpo, likewise summed */
    int64_t window_steps;
    double best_metric; /* NaN: none yet */
    int64_t best_step;
    struct scaler scaler;
};

/* What an evaluation came to. */
struct evaluation {
    double loss;
    bool measures; /* it was counted how many answers are right, or tokens, */
    double accuracy;
    bool prefers; /* of preferences, their means */
    struct rewards rewards;
    bool answers; /* and of how many completions an answer was found */
    double answer_rate;
};

/* One entry of log_history. */
struct logged {
    bool evaluation;
    int64_t step;
    double epoch, loss; /* of the training */
    double grad_norm, learning_rate;
    bool distilled;
    double ce_loss, kd_loss; /* where it is */
    bool prefers;
    struct rewards rewards; /* where it does */
    struct evaluation evaluated;
};

struct progress_history {
    struct logged *list; /* malloc'ed */
    size_t count, room;
};

void progress_history_add(struct progress_history *history, const struct logged *entry);
void progress_history_clear(struct progress_history *history); /* frees */
/* the last; NaN: none */
double progress_history_loss(const struct progress_history *history);

/* prefix "" or "eval_" */
void progress_rewards_json(const struct rewards *rewards, const char *prefix,
                           json_t *object);
/* eval_accuracy, eval_answer_rate, eval_rewards and eval_loss, as far as they were
 * taken. */
void progress_evaluation_json(const struct evaluation *evaluation, json_t *object);

bool progress_write(const char *dir, const struct plan *plan,
                    const struct progress *progress,
                    const struct progress_history *history, struct error *err);
bool progress_read(const char *dir, struct progress *progress,
                   struct progress_history *history, struct error *err);

#endif
