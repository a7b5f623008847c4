/* train/eval_answers.h - the questions of the evaluation data, answered by the model in
 * training. */
#ifndef TRAIN_EVAL_ANSWERS_H
#define TRAIN_EVAL_ANSWERS_H

#include "train/run.h"

struct eval_answers {
    size_t asked, found, right;
    bool cut; /* the run is to stop: some were not answered */
};

/* This rank's share of plan->eval_questions, greedily or by draws that are the same at
 * each evaluation.  Rank 0 keeps some in run->samples. */
bool eval_answers_generate(struct run *run, struct eval_answers *out, struct error *err);

#endif
