/*
 * train/checkpoint/checkpoint.h - save, resume, prune.
 *
 * A checkpoint is a folder `checkpoint-N` in Hugging Face's layout.  It is written as
 * `.checkpoint-N.tmp`; every file is flushed, a manifest of sizes and SHA-256 comes last
 * (train/files/manifest.h), then the folder is renamed and its parent flushed.  A folder
 * without a whole manifest is not a checkpoint.
 *
 * Each checkpoint knows the digest of the job that made it, so that a changed job never
 * goes on from another one's, and nothing of an earlier run is overwritten or pruned.
 */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_H
#define TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/checkpoint/checkpoint_find.h"
#include "train/model/model.h"
#include "train/checkpoint/progress.h"

/* Save into plan->output_dir.  One of the same job and step that is whole is left as it
 * is; a folder of that name from another job is moved to checkpoint-N.old-K.  On failure
 * (a full disk) the previous checkpoint stays good and no half one is left. */
bool checkpoint_save(struct model *model, const struct plan *plan,
                     const struct progress *progress,
                     const struct progress_history *history, struct error *err);

/* Put model, moments, progress and history back.  `name` is a checkpoint folder; all of
 * it is checked against the manifest first.  Another model or method is ERROR_DATA. */
bool checkpoint_load(struct model *model, const char *name, struct progress *progress,
                     struct progress_history *history, struct error *err);
/* The weights alone. */
bool checkpoint_load_weights(struct model *model, const char *name, struct error *err);

/* Keep the newest `keep` (0: all) of the job with this digest, and `protect` (NULL:
 * none). */
bool checkpoint_prune(const char *dir, const char *digest, int64_t keep,
                      const char *protect, struct error *err);
/* A run begins behind step `after` (-1: with nothing): checkpoints of later steps that
 * the job with this digest left before are moved to checkpoint-N.old-K, lest a resume
 * takes them for this run's. */
bool checkpoint_begin(const char *dir, const char *digest, int64_t after,
                      struct error *err);
/* Remove what a killed save left: `.checkpoint-N.tmp`. */
bool checkpoint_tidy(const char *dir, struct error *err);

/* The trained model itself into plan->output_dir: written beside, then each file
 * renamed. */
bool checkpoint_publish(struct model *model, const struct plan *plan, struct error *err);
/* The same of the whole model, adapters merged, into plan->export_dir. */
bool checkpoint_export(struct model *model, const struct plan *plan, struct error *err);

#endif
