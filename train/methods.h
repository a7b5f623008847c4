/*
 * train/methods.h - what computes a run where there is a choice: attention in 16 bits, and
 * the algorithms of matmuls.  Its bits depend on both, in each rank, so a checkpoint has
 * those of all ranks, and a run that resumes computes with the same, or says that it does
 * not.
 */
#ifndef TRAIN_METHODS_H
#define TRAIN_METHODS_H

#include "train/run.h"

/* Rank 0: ask all ranks, for the next checkpoint; warn once if attention differs. */
bool methods_record(struct run *run, struct error *err);
/* Other ranks: the reply to that order. */
bool methods_reply(struct run *run, struct error *err);

/* Continue with what computed attention before.  All ranks call it, and rank 0 logs what is
 * different in any of them.  The algorithms are replayed by checkpoint_load. */
bool methods_restore(struct run *run, struct error *err);

/* Log what computes attention. */
void methods_describe(const struct run *run);

#endif
