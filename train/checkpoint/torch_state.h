/*
 * train/checkpoint/torch_state.h - what transformers' Trainer reads when it resumes from a
 * checkpoint: optimizer.pt, scheduler.pt and, with a dynamic loss scale, scaler.pt.
 * Source: trainer.py of transformers 4.57 and 5.24, _load_optimizer_and_scheduler and
 * _load_scaler.  rng_state.pth is left out, because this run draws no numbers from torch's
 * generators; the Trainer then keeps its own.
 */
#ifndef TRAIN_CHECKPOINT_TORCH_STATE_H
#define TRAIN_CHECKPOINT_TORCH_STATE_H

#include "train/checkpoint/progress.h"

/* Return whether the Trainer with the plan's settings has the state that this run has;
 * false: ERROR_JOB, which starts with the key. */
bool torch_state_check(const struct plan *plan, struct error *err);
/* Write the files to an existing folder. */
bool torch_state_write(struct model *model, const char *dir, const struct plan *plan,
                       const struct progress *progress, struct error *err);

#endif
