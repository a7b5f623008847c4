/*
 * train/autopsy.h - where in a step a number was first not finite: its micro-batches are
 * done again, each operation watched (train/model/model_watch.h).  What is found goes to the
 * log, to autopsy.json in the run's folder, and in short into the reason of a failed run.
 *
 * autopsy.json, one object:
 *   schema       1
 *   step         from 1; of the run, or of its preflight where `preflight` is true; where
 *                `evaluation` is true, how many were made before it
 *   loss         of the step; a number, or "NaN", "Infinity"
 *   loss_scale   at which it was computed
 *   skipped_in_row  steps skipped just before
 *   mode         of precision, as plan --json has it
 *   sentence     what was found, for people
 *   advice       what to do
 *   kind         weight, activation, loss, gradient; or nothing: each micro-batch is
 *                finite alone
 *   found        null, or
 *     operation    as in kernels/ops.h; null for a weight
 *     tensor, layer, format, rows, cols   layer from 0, null: of none
 *     nan, inf     how many; row, col: of the first
 *     largest      of its finite numbers
 *   micro_batch  null, or
 *     index, count of the step
 *     samples      their numbers from 0, as the data were read
 *     sample, position, token   of the row where it began: numbers, never text
 *   before       what was written just before it, a list: operation, tensor, layer,
 *                format, largest
 *   most         the one with the largest number of all before it; or null
 *   weight       the weight (or working copy) with the largest number; or null
 */
#ifndef TRAIN_AUTOPSY_H
#define TRAIN_AUTOPSY_H

#include "train/run.h"

/* After a step that was not made, before what became of the loss scale is taken over:
 * look, if this cannot be the scale's doing and nobody has looked yet.  Rank 0's. */
void autopsy_consider(struct run *run, double loss);
/* Rank 0's, after an evaluation of data that have something to learn: look, if its loss
 * is not finite and nobody has looked yet. */
void autopsy_evaluation(struct run *run, double loss);
/* Look at a step of this run, from 0, with the weights as they are. */
void autopsy_make(struct run *run, int64_t step, double loss);
/* Is a step that was not made, at this scale and loss, none of the scaler's doing? */
bool autopsy_wonders(const struct scaler *scaler, double loss);
/* A run that begins anew: what was found in one before is none of its. */
void autopsy_forget(const struct run *run);
/* Add what was found to the sentence of an error. */
void autopsy_explain(const struct run *run, struct error *err);

#endif
