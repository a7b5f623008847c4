/* train/model/optimizer_refresh.h - the projections of GaLore and APOLLO, which are made
 * again every few steps. */
#ifndef TRAIN_MODEL_OPTIMIZER_REFRESH_H
#define TRAIN_MODEL_OPTIMIZER_REFRESH_H

#include "train/model/model.h"

/*
 * Make the projections for the step that model_begin named, if it begins an interval: of
 * the singular vectors of the gradients, for which it waits for them, or of random numbers
 * that depend on the plan's seed, the parameter and the interval.  Gradients that are not
 * finite keep their projection: their step is skipped, and made again.
 */
bool optimizer_refresh(struct model *model, const struct plan *plan, struct error *err);

#endif
