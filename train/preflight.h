/*
 * train/preflight.h - some steps on the real model and data before the run, of which
 * nothing stays but what was seen: the run that follows has the bits of one without.
 *
 * It ends a job that cannot work: where PREFLIGHT_HOPELESS steps in a row could not be
 * made and the loss scale is not why (it is static, or down to 1, or the loss itself is
 * not finite), or where no step of the run could be made.  That a loss scale comes down
 * from where it starts, and skips some, is as it should be.
 */
#ifndef TRAIN_PREFLIGHT_H
#define TRAIN_PREFLIGHT_H

#include "train/run.h"

enum {
    PREFLIGHT_STEPS = 10, /* that are made */
    PREFLIGHT_MOST = 30, /* with those that the loss scale skips: 2^16 comes down in 16 */
    PREFLIGHT_HOPELESS = 3, /* in a row */
};

/* Does the plan ask for one?  By default where it computes in fp16; never behind step
 * 0. */
bool preflight_wanted(const struct run *run);

typedef bool preflight_step(struct run *run, struct error *err);
/*
 * Rank 0; `step` does one step of the run, on all ranks.  What was seen goes to the log.
 * ERROR_DIVERGED with a diagnosis where the job cannot work; true too where there is no
 * room on disk to try, which is told.  A stop is left for the run to see.
 */
bool preflight_run(struct run *run, preflight_step *step, struct error *err);

/* What every rank does before it, and after. */
bool preflight_keep(struct run *run, struct error *err);
bool preflight_put_back(struct run *run, struct error *err);

#endif
