/* train/checkpoint/checkpoint_lost.h - what a checkpoint has trained, and a run that
 * resumes from it would begin again with. */
#ifndef TRAIN_CHECKPOINT_CHECKPOINT_LOST_H
#define TRAIN_CHECKPOINT_CHECKPOINT_LOST_H

#include "train/checkpoint/optimizer_file.h"
#include "train/files/safetensors.h"

/* The files of a checkpoint, in its folder. */
struct checkpoint_lost {
    const char *dir;
    const struct safetensors *weights;
    const struct optimizer_file *kept;
};

/* ERROR_JOB if there is anything of that kind: adapters that the run does not have, or weights that
 * it freezes. */
bool checkpoint_lost_check(const struct checkpoint_lost *files, struct model *model,
                           struct error *err);

#endif
