/*
 * train/checkpoint/checkpoint.h - saving, loading and pruning checkpoints.
 *
 * A checkpoint is a folder `checkpoint-N` in Hugging Face's layout.  It is written as
 * `.checkpoint-N.tmp`; every file is flushed, a manifest of sizes and SHA-256 is written
 * last (train/files/manifest.h), then the folder is renamed and its parent flushed.  A
 * folder without a complete manifest is not a checkpoint.
 *
 * Each checkpoint has the digest of its job, so a changed job never resumes from the
 * checkpoint of another job, and a run never overwrites or prunes those of earlier runs.
 */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_H
#define TRAIN_CHECKPOINT_CHECKPOINT_H

#include "train/checkpoint/checkpoint_find.h"
#include "train/model/model.h"
#include "train/checkpoint/progress.h"

/* Step for checkpoint_follow: of the result. */
#define CHECKPOINT_RESULT (-1)

/* What is saved, and the ranks of the run, which write it together (team.h). */
struct checkpoint_saving {
    struct model *model;
    const struct plan *plan;
    const struct backend_group *group; /* NULL: one process */
    /* After a failure: the ranks did not complete what they do together, so the run must
     * end. */
    bool lost;
    size_t absent; /* ranks that did not see the folder */
};

/* Save into plan->output_dir.  Rank 0 orders the others to take part.  Keeps a complete checkpoint of the same job and step, and
 * moves a folder of that name from another job to checkpoint-N.old-K.  A failure (full
 * disk) leaves the previous checkpoint intact and no partial one. */
bool checkpoint_save(struct checkpoint_saving *saving, const struct progress *progress,
                     const struct progress_history *history, struct error *err);
/* Another rank: write its part of a checkpoint, or of CHECKPOINT_RESULT. Returns true also
 * if it could not write a file, which it has reported to rank 0. */
bool checkpoint_follow(struct checkpoint_saving *saving, int64_t step, struct error *err);

/* Restore model, moments, progress and history from the checkpoint folder `name`, whose
 * files were compared with the manifest.  Fails with ERROR_DATA if it belongs to another
 * model or method. */
bool checkpoint_load(struct model *model, const char *name, struct progress *progress,
                     struct progress_history *history, struct error *err);
/* Restore only the weights. Each rank compares a share of the files with the manifest: one
 * that finds a damaged file ends the run. */
bool checkpoint_load_weights(struct model *model, const char *name,
                             const struct backend_group *group, struct error *err);

/* Remove the checkpoints of the job with this digest except the newest `keep` (0: keep
 * all) and `protect` (NULL: none). */
bool checkpoint_prune(const char *dir, const char *digest, int64_t keep,
                      const char *protect, struct error *err);
/* Prepare for a run that starts after step `after` (-1: from scratch): move checkpoints
 * of later steps from earlier runs of the job with this digest to checkpoint-N.old-K, or
 * a resume would take them for checkpoints of this run. */
bool checkpoint_begin(const char *dir, const char *digest, int64_t after,
                      struct error *err);
/* Remove `.checkpoint-N.tmp` folders that killed saves left. */
bool checkpoint_remove_temporary(const char *dir, struct error *err);

/* Write the trained model to plan->output_dir: first into a temporary folder there, then
 * rename each file.  With pissa_convert, the converted adapter to pissa_converted there. */
bool checkpoint_publish(struct checkpoint_saving *saving, struct error *err);
/* Write the whole model with merged adapters to plan->export_dir in the same way, without
 * other ranks. */
bool checkpoint_export(struct checkpoint_saving *saving, struct error *err);

#endif
