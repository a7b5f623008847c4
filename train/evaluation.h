/*
 * train/evaluation.h - evaluation during training, selection of the best model, and early
 * stopping.
 */
#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H

#include "train/run.h"

/* On rank 0, evaluate with the other ranks, log the result and update the best model.  A
 * signal to stop during generation discards the evaluation; the resumed run repeats
 * it. */
bool evaluation_run(struct run *run, struct error *err);
/* On the other ranks, evaluate their share when rank 0 orders it. */
bool evaluation_follow(struct run *run, struct error *err);

/* Return whether the history has an evaluation of this step. */
bool evaluation_is_done(const struct run *run);
/* Return whether early_stopping_steps evaluations in a row brought no improvement. */
bool evaluation_stops_early(const struct run *run);

#endif
