/*
 * train/model/rope_scaling.h - the key rope_scaling of a job, which extends the positions
 * of the model to cutoff_len, as configure_rope of LLaMA-Factory does (0.9.4,
 * model/model_utils/rope.py).
 */
#ifndef TRAIN_MODEL_ROPE_SCALING_H
#define TRAIN_MODEL_ROPE_SCALING_H

#include "train/model/model_config.h"
#include "train/plan.h"

/*
 * Read the config.json of a folder with the scaling of the job.  It is also in out->text,
 * so a saved model keeps it.  It has no effect if the model has cutoff_len positions, or
 * learned ones.
 */
bool rope_scaling_read_config(const struct plan *plan, const char *dir,
                              struct arena *arena, struct model_config *out,
                              struct error *err);

#endif
