/*
 * train/checkpoint/progress.h - progress of a run as two files of a checkpoint:
 * trainer_state.json, which Hugging Face tools read, and trainspool_state.json, from
 * which a run resumes exactly.
 */
#ifndef TRAIN_CHECKPOINT_PROGRESS_H
#define TRAIN_CHECKPOINT_PROGRESS_H

#include "base/json.h"
#include "precision/scaler.h"
#include "train/plan.h"
#include "train/model/model.h"

enum { PROGRESS_ATTENTION = 64, PROGRESS_OPTIMIZER = 32 }; /* bytes of a name */

/* How the ranks of a run add gradients, on which its bits depend. */
struct progress_ranks {
    int64_t count, zero_stage; /* count 0: of one process, or unknown */
    enum reduction reduce_dtype;
};

/* Everything besides the tensors that a run needs to resume exactly. */
struct progress {
    int64_t step;    /* optimizer steps including skipped ones: position in the data */
    int64_t updates; /* steps without skipped ones: count of Adam and the schedule */
    int64_t total;   /* steps of the whole run */
    double epoch;
    uint64_t tokens;    /* trained on, padding not counted */
    double window_loss; /* sum of the losses of the steps since the last logged one */
    double window_ce, window_kd;   /* the two parts of the loss, for stage distill */
    struct rewards window_rewards; /* summed in the same way, for stage dpo and grpo */
    int64_t window_steps;
    double best_metric; /* NaN: none yet */
    int64_t best_step;
    double next_rate; /* learning rate of the next step; only for torch_state_write */
    char optimizer[PROGRESS_OPTIMIZER]; /* optimizer_name of that run; "": unknown */
    /* what computes it in each rank: backend_ops.attention_name; "": unknown, and in
     * ranks after the first, the same as there */
    char attention[RANKS_MAX][PROGRESS_ATTENTION];
    /* only for checkpoint_save: what the backends of all ranks chose (methods.h) */
    const char *choices;
    const char *answers;         /* rollout_text; NULL: none */
    struct progress_ranks ranks; /* of the run that saved it */
    struct scaler scaler;
};

/* Return how the ranks of a plan add gradients. */
struct progress_ranks progress_ranks_of(const struct plan *plan);

/* Results of an evaluation. */
struct evaluation {
    double loss;   /* NaN in stage grpo, which does not measure it */
    bool weighted; /* loss is no cross-entropy of tokens: there is no perplexity */
    bool measures; /* accuracy is set: share of correct answers or tokens */
    double accuracy;
    bool prefers; /* rewards are set: means, for stage dpo */
    struct rewards rewards;
    bool answers; /* answer_rate is set: share of completions with an answer */
    double answer_rate;
};

/* One entry of log_history. */
struct logged {
    bool evaluation;
    int64_t step;
    double epoch, loss; /* training loss */
    double grad_norm, learning_rate;
    bool distilled; /* ce_loss and kd_loss are set */
    double ce_loss, kd_loss;
    bool prefers; /* rewards are set */
    struct rewards rewards;
    struct evaluation evaluated;
};

struct progress_history {
    struct logged *list; /* malloc'ed */
    size_t count, room;
};

void progress_history_add(struct progress_history *history, const struct logged *entry);
void progress_history_clear(struct progress_history *history); /* frees the list */
/* Return the last training loss; NaN: none. */
double progress_history_loss(const struct progress_history *history);

/* Add the rewards to a JSON object; prefix is "" or "eval_". */
void progress_rewards_json(const struct rewards *rewards, const char *prefix,
                           json_t *object);
/* Add eval_accuracy, eval_answer_rate, eval_rewards and eval_loss, as far as they were
 * measured. */
void progress_evaluation_json(const struct evaluation *evaluation, json_t *object);

bool progress_write(const char *dir, const struct plan *plan,
                    const struct progress *progress,
                    const struct progress_history *history, struct error *err);
bool progress_read(const char *dir, struct progress *progress,
                   struct progress_history *history, struct error *err);

#endif
