/*
 * train/evaluation_only.h - evaluation without training (plan_only_evaluates), as in
 * LLaMA-Factory with do_eval and do_predict (train/sft/workflow.py).
 */
#ifndef TRAIN_EVALUATION_ONLY_H
#define TRAIN_EVALUATION_ONLY_H

#include "train/trainer.h"

/*
 * Evaluate the model with its adapter on the evaluation data.  Writes to
 * plan->output_dir eval_results.json (do_eval), predict_results.json and
 * generated_predictions.jsonl (do_predict) and all_results.json, and the same metrics to
 * metrics.jsonl.  Fails with ERROR_STOPPED after a stop; an evaluation always starts from
 * the beginning.  Its progress counts batches and answers as steps.
 */
bool evaluation_only_run(const struct plan *plan, const struct trainer_options *options,
                         struct error *err);

#endif
