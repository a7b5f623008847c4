/*
 * patcher/rules/ref_model.h - what the answers of stage dpo are held against, as
 * create_ref_model of LLaMA-Factory (train/trainer_utils.py) chooses it.
 */
#ifndef PATCHER_RULES_REF_MODEL_H
#define PATCHER_RULES_REF_MODEL_H

#include "train/plan.h"

enum ref_model {
    REF_MODEL_NONE,   /* another stage, or a loss that has none: orpo, simpo */
    REF_MODEL_BASE,   /* the model without the adapter that is trained */
    REF_MODEL_COPY,   /* the model as it begins, a second time */
    REF_MODEL_FOLDER, /* ref_model */
    REF_MODELS
};

extern const char *const ref_model_names[REF_MODELS]; /* "none", "base" .. */

enum ref_model ref_model_of(const struct plan *plan);
/* "sigmoid", as pref_loss has it. */
const char *ref_model_loss(const struct plan *plan);

#endif
