/* train/model/plan_config.h - the configuration of a plan's model, with what the plan changes
 * of it. */
#ifndef TRAIN_MODEL_PLAN_CONFIG_H
#define TRAIN_MODEL_PLAN_CONFIG_H

#include "train/model/model_config.h"
#include "train/plan.h"

/*
 * Read the config.json in `dir`, the folder of the plan's model, and change positions
 * (rope_scaling.h), vocabulary (vocabulary_growth.h) and the tie of the head as the plan
 * says: a head that is trained apart from the embeddings, by additional_target or by an
 * adapter, is no longer tied, as in PEFT.  Stage rm has another head (score_head.h).
 */
bool plan_config_read(const struct plan *plan, const char *dir, struct arena *arena,
                      struct model_config *out, struct error *err);

#endif
