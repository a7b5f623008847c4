/*
 * train/checkpoint.h - save, resume, prune.  A checkpoint is a folder `checkpoint-N`:
 * written as
 * `.checkpoint-N.tmp`, every file and the folder fsynced, a manifest of sizes and SHA-256
 * (trainspool_manifest.json) as its last file, then renamed, then the parent fsynced.  A
 * folder without a whole manifest is not a checkpoint.
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
    double window_loss; /* sum of the losses of the steps since the last logged one */
    int64_t window_steps;
    double best_metric; /* NaN: none yet */
    int64_t best_step;
    struct scaler scaler;
};

struct logged { /* one entry of log_history in trainer_state.json */
    bool evaluation;
    int64_t step;
    double epoch, loss; /* of the training, or eval_loss */
    double grad_norm, learning_rate;
};

struct history {
    struct logged *list; /* malloc'ed */
    size_t count, room;
};
void history_add(struct history *history, const struct logged *entry);
void history_clear(struct history *history); /* frees */

/* Save into plan->output_dir.  On failure (a full disk) the previous checkpoint stays
 * good and no half one is left. */
bool checkpoint_save(struct model *model, const struct plan *plan,
                     const struct progress *progress, const struct history *history,
                     struct error *err);
/* Put model, moments, progress and history back.  `name` is a checkpoint folder.  Another
 * model or method than the one it was made with is ERROR_DATA. */
bool checkpoint_load(struct model *model, const char *name, struct progress *progress,
                     struct history *history, struct error *err);
/* The weights alone. */
bool checkpoint_load_weights(struct model *model, const char *name, struct error *err);
/* The newest checkpoint of a folder that is whole and can be gone on from, malloc'ed;
 * NULL: none. Half and damaged ones are passed over. */
char *checkpoint_last(const char *dir);
/* Keep the newest `keep` (0: all) and `protect` (NULL: none); remove temporary ones. */
bool checkpoint_prune(const char *dir, int64_t keep, const char *protect,
                      struct error *err);
/* Every file is there with the size and SHA-256 that the manifest has. */
bool checkpoint_verify(const char *name, struct error *err);
/* The trained model itself into plan->output_dir: written beside, then each file renamed.
 */
bool checkpoint_publish(struct model *model, const struct plan *plan, struct error *err);

#endif
