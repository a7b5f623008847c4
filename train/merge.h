/*
 * train/merge.h - a job that trains nothing (plan_merges): its model and its adapter are
 * loaded, and the whole model is written as a training with export_dir writes it.
 */
#ifndef TRAIN_MERGE_H
#define TRAIN_MERGE_H

#include "train/trainer.h"

/* True: the merged model is in plan->export_dir and complete.  ERROR_STOPPED after a
 * stop; what is told of a step is not, as there is none. */
bool merge_run(const struct plan *plan, const struct trainer_options *options,
               struct error *err);

#endif
