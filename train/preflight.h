/*
 * train/preflight.h - trial steps on the real model and data before the run.  Afterwards
 * the state is restored, so the run computes the same bits as without a preflight.
 *
 * It ends a job that cannot work: if PREFLIGHT_FAILURES_MAX steps in a row were skipped
 * and the loss scale is not the cause (it is static, or down to 1, or the loss itself is
 * not finite), or if every step of the run was skipped.  A dynamic loss scale that skips
 * some steps on its way down from its initial value is normal.
 */
#ifndef TRAIN_PREFLIGHT_H
#define TRAIN_PREFLIGHT_H

#include "train/run.h"

enum {
    PREFLIGHT_STEPS = 10,     /* successful ones */
    PREFLIGHT_STEPS_MAX = 30, /* with skipped ones: a scale of 2^16 takes 16 to reach 1 */
    PREFLIGHT_FAILURES_MAX = 3, /* skipped in a row */
};

/* Return whether the plan requests a preflight: by default if it computes in fp16, and
 * only before step 1. */
bool preflight_wanted(const struct run *run);

typedef bool preflight_step(struct run *run, struct error *err);
/*
 * Run the preflight on rank 0; `step` performs one step of the run, on all ranks.  The
 * result is logged.  Fails with ERROR_DIVERGED and a diagnosis if the job cannot work.
 * Without disk space for the saved state the preflight is skipped with a warning.  A
 * stop ends the preflight; the run then handles it.
 */
bool preflight_run(struct run *run, preflight_step *step, struct error *err);

/* Save the state before a preflight and restore it afterwards, on every rank. */
bool preflight_save_state(struct run *run, struct error *err);
bool preflight_restore_state(struct run *run, struct error *err);

#endif
