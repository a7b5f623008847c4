/*
 * train/checkpoint/checkpoint_find.h - which checkpoints lie in a folder: of whose job, of what
 * step, whole or not.  It reads manifests and needs no model.
 */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_FIND_H
#define TRAIN_CHECKPOINT_CHECKPOINT_FIND_H

#include "base/error.h"

#define CHECKPOINT_PREFIX    "checkpoint-"
#define CHECKPOINT_OPTIMIZER "trainspool_optimizer.safetensors"

struct checkpoint_found {
    char *name; /* malloc'ed */
    int64_t step;
};

/* dir/checkpoint-N, malloc'ed */
char *checkpoint_name(const char *dir, int64_t step);
/* N of checkpoint-N; -1 for another name. */
int64_t checkpoint_step(const char *base);

/* Was this folder finished, and by the job with this digest (NULL: by any)? */
bool checkpoint_is_of(const char *name, const char *digest);
/* The checkpoints of a job in a folder, newest first; malloc'ed, names too.  Every file
 * of them is there in its size. */
size_t checkpoint_list(const char *dir, const char *digest,
                       struct checkpoint_found **out);

/* With all that a run goes on from?  `deep`: whole to the last bit too, for which every
 * byte is read. */
bool checkpoint_can_resume(const char *name, bool deep);
/* The newest checkpoint in `dir` of the job with this digest (NULL: of any) that can be
 * gone on from, malloc'ed; NULL: none.  Half ones are passed over, with `deep` damaged
 * ones too. */
char *checkpoint_last(const char *dir, const char *digest, bool deep);

#endif
