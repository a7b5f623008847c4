/*
 * train/evaluation.h - what the evaluation data say of a model in training, which model
 * is the best, and when none is better any more.
 */
#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H

#include "train/run.h"

/* Rank 0: evaluate with the others, log, and note whether it is the best.  Nothing is
 * noted where a signal to stop came while questions were answered: it is done when the
 * run goes on. */
bool evaluation_run(struct run *run, struct error *err);
/* Another rank's share, when it is told to evaluate. */
bool evaluation_follow(struct run *run, struct error *err);

/* Is the evaluation of this step in the history? */
bool evaluation_is_made(const struct run *run);
/* Have there been early_stopping_steps evaluations in a row without a better one? */
bool evaluation_ends(const struct run *run);

#endif
