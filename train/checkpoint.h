/*
 * train/checkpoint.h - save, resume, prune.  A checkpoint is a folder `checkpoint-N`: written as
 * `.checkpoint-N.tmp`, every file and the folder fsynced, a manifest of sizes and SHA-256
 * (trainspool_manifest.json) as its last file, then renamed, then the parent fsynced.  A folder
 * without a whole manifest is not a checkpoint.
 */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "precision/scaler.h"
#include "train/model.h"

/* All that a run needs to go on exactly, besides the tensors. */
struct progress {
    int64_t step;          /* optimizer steps made or skipped: the place in the data */
    int64_t updates;       /* steps really made: Adam's and the schedule's count */
    uint64_t epoch, batch; /* next micro-batch */
    uint64_t tokens;
    double best_metric;    /* NaN: none yet */
    int64_t best_step;
    struct scaler scaler;
};

struct logged { /* one entry of log_history in trainer_state.json */
    int64_t step;
    double epoch, loss, grad_norm, learning_rate, eval_loss; /* NaN: not in this entry */
};

/* Save into plan->output_dir.  On failure (a full disk) the previous checkpoint stays good and no
 * half one is left. */
bool checkpoint_save(struct model *model, const struct plan *plan,
                     const struct progress *progress, const struct logged *history,
                     size_t logged, struct error *err);
/* Put model, moments and progress back.  `name` is a checkpoint folder. */
bool checkpoint_load(struct model *model, const char *name, struct progress *progress,
                     struct error *err);
/* The newest whole checkpoint of a folder, malloc'ed; NULL: none.  Half ones are passed over. */
char *checkpoint_last(const char *dir);
/* Keep the newest `keep` (0: all) and `protect` (NULL: none); remove temporary ones. */
bool checkpoint_prune(const char *dir, int64_t keep, const char *protect, struct error *err);
bool checkpoint_verify(const char *name, struct error *err);

#endif
