/* train/model/optimizer.h - an optimizer step: gradient norm, clipping, update of all
 * weights. */
#ifndef TRAIN_MODEL_OPTIMIZER_H
#define TRAIN_MODEL_OPTIMIZER_H

#include "train/model/model.h"

/*
 * Issue the step of a window, once its micro-batches have been issued
 * (train/model/model.h): norm over all gradients, then unscale, clip, update and 16-bit
 * copy in one pass, unless the norm is not finite. Results are in model_step_scalars.
 * Does not wait for the device.
 */
void optimizer_step(struct model *model, const struct plan *plan);

#endif
