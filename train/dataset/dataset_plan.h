/* train/dataset/dataset_plan.h - what a job says about its data. */
#ifndef TRAIN_DATASET_DATASET_PLAN_H
#define TRAIN_DATASET_DATASET_PLAN_H

#include "train/dataset/dataset_source.h"
#include "train/plan.h"

/* Return the names of a comma-separated list, malloc'ed. A file or folder next to the job
 * gets the job's folder as prefix, so that the current directory does not matter. */
char *dataset_plan_paths(const struct plan *plan, const char *names);

/* The most records to read from a source; -1: all. */
int64_t dataset_plan_limit(const struct plan *plan, const struct dataset_source *source);

/* The folder of images and sounds. */
const char *dataset_plan_media_dir(const struct plan *plan);

/* Return whether samples share rows: with packing, or in stage pt unless packing is off.
 * Never for pairs. */
bool dataset_is_packed(const struct plan *plan);

#endif
