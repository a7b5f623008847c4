/*
 * train/model/model_aside.h - a model as it is before its first update, kept aside and put back
 * to the bit: for a trial of which nothing shall stay.
 */
#ifndef TRAIN_MODEL_MODEL_ASIDE_H
#define TRAIN_MODEL_MODEL_ASIDE_H

#include "train/model/model.h"

struct model_aside;

/* Trained weights go to a file in `dir` that has no name and is gone with the process, as
 * memory for a second copy may not be there.  Moments must be zero, as before a first
 * step. ERROR_SYSTEM where the file cannot be written. */
struct model_aside *model_set_aside(struct model *model, const char *dir,
                                    struct error *err);
/* Weights, working copies and moments as they were; frees it. */
bool model_put_back(struct model *model, struct model_aside *kept, struct error *err);

#endif
