/*
 * train/merge.h - merging without training (plan_merges): load a model and its adapter,
 * and write the whole model as a training run with export_dir does.
 */
#ifndef TRAIN_MERGE_H
#define TRAIN_MERGE_H

#include "train/trainer.h"

/* Write the complete merged model to plan->export_dir.  Fails with ERROR_STOPPED after a
 * stop.  There are no steps, so callbacks for steps are not called. */
bool merge_run(const struct plan *plan, const struct trainer_options *options,
               struct error *err);

#endif
