/* patcher/ref_model.c - of which model a preference wants to know what it says. */
#include "config.h"

#include "patcher/ref_model.h"

#include "patcher/schema.h"

const char *const ref_model_names[REF_MODELS] = {
    [REF_MODEL_NONE] = "none",
    [REF_MODEL_BASE] = "base",
    [REF_MODEL_COPY] = "copy",
    [REF_MODEL_FOLDER] = "folder",
};

enum ref_model ref_model_of(const struct plan *plan)
{
    const enum preference_loss loss = plan->preference.loss;

    if (plan->stage != STAGE_DPO || loss == PREFERENCE_ORPO || loss == PREFERENCE_SIMPO)
        return REF_MODEL_NONE;
    if (plan->preference.reference)
        return REF_MODEL_FOLDER;
    return plan->method == METHOD_LORA ? REF_MODEL_BASE : REF_MODEL_COPY;
}

const char *ref_model_loss(const struct plan *plan)
{
    return schema_find("pref_loss")->values[plan->preference.loss];
}
