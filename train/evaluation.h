/*
 * train/evaluation.h - evaluation during training, selection of the best model, and early
 * stopping.
 */
#ifndef TRAIN_EVALUATION_H
#define TRAIN_EVALUATION_H

#include "train/run.h"

/* On rank 0, evaluate with the other ranks, log the result and update the best model.  A
 * stop discards the evaluation; the resumed run repeats it. */
bool evaluation_run(struct run *run, struct error *err);
/* What evaluation_measure measures, and how long each part took. */
struct evaluation_parts {
    bool loss, answers;
    double loss_seconds, answer_seconds;
    bool cut; /* a stop ended it: there is no result */
};
/* Measure with all ranks.  Without training, a stop is ERROR_STOPPED. */
bool evaluation_measure(struct run *run, struct evaluation_parts *parts,
                        struct evaluation *out, struct error *err);
/* On the other ranks, evaluate their share when rank 0 orders it. */
bool evaluation_follow(struct run *run, struct error *err);

/* Return whether the history has an evaluation of this step. */
bool evaluation_is_done(const struct run *run);
/* Return whether early_stopping_steps evaluations in a row brought no improvement. */
bool evaluation_stops_early(const struct run *run);

/* On rank 0, return the learning rate that the evaluations after steps left to
 * reduce_lr_on_plateau.  As the history has them, a resumed run has the same rate. */
double evaluation_rate(const struct run *run);

/* Return the heartbeat of this rank's share. */
struct heartbeat *evaluation_heartbeat(const struct run *run);

#endif
