/*
 * train/rollout.h - sampled answers, in stage grpo: generated, rewarded, and made into the
 * micro-batches of one or several optimizer steps.
 *
 * The answers of a generation are a function of the weights at its first step, the seed and
 * its number, so a step that a stop or a crash interrupts generates them again.  If later
 * steps use them too, checkpoints between have them, with the losses that the first step
 * compares with.
 */
#ifndef TRAIN_ROLLOUT_H
#define TRAIN_ROLLOUT_H

#include "train/generation/generate.h"
#include "train/reward.h"
#include "train/run.h"

/* A sampled answer to a question of the training data. */
struct rollout_answer {
    size_t question; /* its number: dataset_question */
    int32_t *ids;    /* tokens, with the one that ended the answer */
    size_t count;
    enum completion_end end;
    struct scored reward;
    float *old; /* (count): losses of the tokens before the first step; NULL: not kept */
};

struct rollout {
    const struct plan *plan;
    const struct dataset *data;
    struct reward_rule *rule;
    int64_t generation; /* its number in the run, from 0; -1: there is none */
    struct rollout_answer *answers;
    double *advantages;
    size_t count;
    struct batch batch; /* as dataset_batch makes them */
    float *rows[3];     /* advantages, factors, and old losses of its rows */
    size_t longest;     /* tokens of the longest prompt */
};

/* Needs plan, configuration, tokenizer and training data of the run. */
bool rollout_open(struct run *run, struct error *err);
void rollout_close(struct rollout *rollout); /* NULL is allowed */
/* Forget the answers, because the weights have changed other than by steps. */
void rollout_forget(struct rollout *rollout);

/* Generate the answers of a step unless they are there, and set its weight.  Stopped: the
 * error is ERROR_STOPPED. */
bool rollout_prepare(struct run *run, struct run_step *step, struct error *err);
/* Make micro-batch `index` of a step, and give the model what belongs to it. */
const struct batch *rollout_batch(struct run *run, const struct run_step *step,
                                  size_t index);
/* Make it without a model: *policy has the advantages, factors and old losses of its
 * sequences and rows. */
void rollout_make_batch(struct rollout *rollout, int64_t step, size_t index,
                        struct model_policy *policy);
/* Return by what the sum of the losses of a step is divided; 0: its answers are not
 * there. */
double rollout_weight(const struct rollout *rollout, int64_t step);
/* Compute the advantages of all answers from their rewards. */
void rollout_reward(struct rollout *rollout);
/* If later steps use the answers too, keep the losses of their tokens as they are now. */
bool rollout_keep_losses(struct run *run, struct error *err);
/* Return why the answers teach nothing, as a sentence; NULL: they do, or there are none. */
const char *rollout_idle(const struct rollout *rollout);
/* Return the means that are logged for a step, given the sums of model_rewards over it. */
struct rewards rollout_metrics(const struct rollout *rollout, const struct rewards *sums);

/* Return the answers as text for a checkpoint after `step` steps, malloc'ed; NULL: the next
 * step does not need them. */
char *rollout_text(const struct rollout *rollout, int64_t step);
/* Read the text.  If its answers are to other prompts, or of other settings, there are none
 * afterwards, and the next step samples them.  ERROR_DATA naming `name`. */
bool rollout_read(struct rollout *rollout, const char *text, size_t len, const char *name,
                  struct error *err);

#endif
