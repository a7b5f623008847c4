/*
 * train/step.h - one optimizer step of a run: its micro-batches, the update, the results.
 *
 * A step is issued to the device by step_begin, and its results are taken over by
 * step_end.  On a device that works concurrently, the next step may be issued between the
 * two: the device itself decides whether a step is applied, and skips all steps after one
 * that is not (struct step_scalars).  step_end of a skipped step forgets those that were
 * issued after it, so that they are issued again with the scalars that apply then.  The
 * progress of the run is always that of the steps that have ended.
 */
#ifndef TRAIN_STEP_H
#define TRAIN_STEP_H

#include "train/run.h"

/* Return the learning rate of the next step. */
double step_next_rate(const struct run *run);
/* Return whether this backend lets a step be issued before the previous one has ended.
 * TRAINSPOOL_NO_PIPELINE=1 in the environment: never. */
bool step_can_overlap(const struct run *run);
/*
 * Issue the step after those issued so far; sends the order for it to the other ranks.
 * A stop abandons the step before the next micro-batch (run->abandoned): no weight has
 * changed yet, and a resumed run repeats the step.  Several ranks finish it, because they
 * wait for each other's gradients.
 */
bool step_begin(struct run *run, struct error *err);
/* Wait for the earliest step that was issued.  False, with an error, if it has failed or
 * the run has diverged. */
bool step_end(struct run *run, struct error *err);
/* Do both, without another step between. */
bool step_run(struct run *run, struct error *err);

#endif
