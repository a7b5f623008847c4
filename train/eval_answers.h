/* train/eval_answers.h - generated answers to the prompts of the evaluation data, during
 * training. */
#ifndef TRAIN_EVAL_ANSWERS_H
#define TRAIN_EVAL_ANSWERS_H

#include "train/run.h"

struct eval_answers {
    size_t asked, found, right;
    /* of stage grpo: sums over the answers; SAMPLED_REWARD_STD: of squares */
    double rewards[REWARDS];
    bool cut; /* stopped by a signal before all prompts were answered */
};

/* Answer this rank's share of plan->eval_questions, greedily or with the same random
 * numbers at each evaluation.  Rank 0 saves some in run->samples. */
bool eval_answers_generate(struct run *run, struct eval_answers *out, struct error *err);

#endif
