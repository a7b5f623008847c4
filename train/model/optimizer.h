/* train/model/optimizer.h - the norm of all gradients, clipping, and one update of every
 * weight. */
#ifndef TRAIN_MODEL_OPTIMIZER_H
#define TRAIN_MODEL_OPTIMIZER_H

#include "train/model/model.h"

/*
 * The step of a window, once its micro-batches are under way (train/model/model.h): norm over
 * all gradients, then unscale, clip, AdamW and the 16-bit copy in one pass, unless the
 * norm is not finite.  What was found is in model_numbers.  Nothing is waited for.
 */
void optimizer_step(struct model *model, const struct plan *plan);

#endif
