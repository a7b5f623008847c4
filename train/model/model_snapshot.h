/*
 * train/model/model_snapshot.h - a snapshot of a model before its first update, which can
 * be restored to the bit: for preflights, which must not change the model.
 */
#ifndef TRAIN_MODEL_MODEL_SNAPSHOT_H
#define TRAIN_MODEL_MODEL_SNAPSHOT_H

#include "train/model/model.h"

struct model_snapshot;

/* Write the trained weights to a file in `dir` that has no name and disappears with the
 * process, because there may be no memory for a second copy.  Moments must be zero, as
 * before a first step.  ERROR_SYSTEM if the file cannot be written. */
struct model_snapshot *model_snapshot_take(struct model *model, const char *dir,
                                           struct error *err);
/* Restore weights, working copies and moments; frees the snapshot. */
bool model_snapshot_restore(struct model *model, struct model_snapshot *snapshot,
                            struct error *err);

#endif
