/* train/optimizer.h - the norm of all gradients, clipping, and one update of every
 * weight. */
#ifndef TRAIN_OPTIMIZER_H
#define TRAIN_OPTIMIZER_H

#include "train/model.h"

/*
 * The step of a window, once its micro-batches are under way (train/model.h): norm over
 * all gradients, then unscale, clip, AdamW and the 16-bit copy in one pass, unless the
 * norm is not finite.  What was found is in model_numbers.  Nothing is waited for.
 */
void optimizer_step(struct model *model, const struct plan *plan);

#endif
