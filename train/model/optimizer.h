/* train/model/optimizer.h - an optimizer step: gradient norm, clipping, update of all
 * weights. */
#ifndef TRAIN_MODEL_OPTIMIZER_H
#define TRAIN_MODEL_OPTIMIZER_H

#include "train/model/model.h"

/*
 * Issue the step of a window, once its micro-batches have been issued
 * (train/model/model.h): norm over all gradients, then unscale, clip, update and 16-bit
 * copy in one pass, unless the norm is not finite. Results are in model_step_scalars.
 * Does not wait for the device, except where GaLore needs the gradients on the host
 * (train/model/optimizer_refresh.h), which may fail.
 */
bool optimizer_step(struct model *model, const struct plan *plan, struct error *err);

#endif
