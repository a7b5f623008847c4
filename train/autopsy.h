/*
 * train/autopsy.h - search for the first non-finite value of a step: repeat its
 * micro-batches and check the result of each operation (train/model/model_watch.h).  The
 * result goes to the log, to autopsy.json in the folder of the run, and as a short text
 * into the error of a failed run.
 *
 * autopsy.json, one object:
 *   schema       1
 *   step         from 1; of the run, or of its preflight if `preflight` is true; if
 *                `evaluation` is true, the number of steps done before it
 *   loss         of the step; a number, or "NaN", "Infinity"
 *   loss_scale   of the step
 *   skipped_in_row  steps skipped immediately before
 *   mode         of precision, as in plan --json
 *   sentence     the finding as text
 *   advice       what to do
 *   kind         weight, activation, loss, gradient; or nothing: each micro-batch alone
 *                is finite
 *   found        null, or
 *     operation    as in kernels/ops.h; null for a weight
 *     tensor, layer, format, rows, cols   layer from 0, null: not in a layer
 *     nan, inf     their counts; row, col: position of the first
 *     largest      of the finite values, by magnitude
 *   micro_batch  null, or
 *     index, count of the step
 *     samples      their indices from 0, in the order of the data
 *     sample, position, token   of the first bad row: numbers, never text
 *   before       the results written just before it, a list: operation, tensor, layer,
 *                format, largest
 *   most         of all results before it, the one with the largest value; or null
 *   weight       the weight (or working copy) with the largest value; or null
 */
#ifndef TRAIN_AUTOPSY_H
#define TRAIN_AUTOPSY_H

#include "train/run.h"

/* On rank 0, after a skipped step and before the new loss scale is adopted, run an
 * autopsy if the loss scale cannot be the cause and the run has no finding yet. */
void autopsy_consider(struct run *run, double loss);
/* On rank 0, after an evaluation of data with trained tokens, run an autopsy if its
 * loss is not finite and the run has no finding yet. */
void autopsy_evaluation(struct run *run, double loss);
/* Run an autopsy of a step (from 0) of this run with the current weights. */
void autopsy_make(struct run *run, int64_t step, double loss);
/* Return whether a step skipped at this scale and loss has another cause than the loss
 * scale. */
bool autopsy_is_warranted(const struct scaler *scaler, double loss);
/* Remove the autopsy.json of an earlier run, if this run starts from scratch. */
void autopsy_forget(const struct run *run);
/* Append the finding to the text of an error. */
void autopsy_explain(const struct run *run, struct error *err);

#endif
