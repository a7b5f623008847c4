/*
 * train/checkpoint/checkpoint_find.h - the checkpoints in a folder: job, step, complete
 * or not. Reads manifests and does not need a model.
 */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_FIND_H
#define TRAIN_CHECKPOINT_CHECKPOINT_FIND_H

#include "base/error.h"
#include "base/heartbeat.h"

#define CHECKPOINT_PREFIX    "checkpoint-"
#define CHECKPOINT_OPTIMIZER "trainspool_optimizer.safetensors"
#define CHECKPOINT_ANSWERS   "trainspool_answers.json" /* sampled, to be used again */
#define CHECKPOINT_CHOICES   "trainspool_matmuls.txt"  /* of a GPU, for large matmuls */

struct checkpoint_found {
    char *name; /* malloc'ed */
    int64_t step;
};

/* Return dir/checkpoint-N, malloc'ed. */
char *checkpoint_name(const char *dir, int64_t step);
/* Return N of checkpoint-N; -1 for another name. */
int64_t checkpoint_step(const char *base);

/* Return whether the folder is complete and belongs to the job with this digest (NULL: to
 * any). */
bool checkpoint_belongs_to(const char *name, const char *digest);
/* List the checkpoints of a job in a folder, newest first; list and names are malloc'ed.
 * All their files exist with the right size. If the folder exists and cannot be read to its
 * end, *err says why some may be missing. */
size_t checkpoint_list(const char *dir, const char *digest, struct checkpoint_found **out,
                       struct error *err);

/* Return whether the checkpoint has everything that a run resumes from.  `deep`: also
 * read every file and compare its digest, until the heartbeat (or NULL) stops. */
bool checkpoint_can_resume(const char *name, bool deep, struct heartbeat *heartbeat);
/* Return the newest checkpoint in `dir` of the job with this digest (NULL: of any) that
 * can be resumed, malloc'ed; NULL: none.  Skips incomplete ones, with `deep` also damaged
 * ones.  After a stop the result means nothing. */
char *checkpoint_last(const char *dir, const char *digest, bool deep,
                      struct heartbeat *heartbeat);
/* The same, not deep, among those before a step that is not one of `skipped`. */
struct checkpoint_among {
    int64_t before;
    const int64_t *skipped;
    size_t count;
};
char *checkpoint_last_among(const char *dir, const char *digest,
                            const struct checkpoint_among *among);

#endif
