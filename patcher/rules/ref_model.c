/* patcher/rules/ref_model.c - of which model a preference wants to know what it says. */
#include "config.h"

#include "patcher/rules/ref_model.h"

#include "patcher/schema/schema.h"

const char *const ref_model_names[REF_MODELS] = {
    [REF_MODEL_NONE] = "none",
    [REF_MODEL_BASE] = "base",
    [REF_MODEL_COPY] = "copy",
    [REF_MODEL_FOLDER] = "folder",
};

enum ref_model ref_model_of(const struct plan *plan)
{
    if (!plan_has_reference(plan))
        return REF_MODEL_NONE;
    if (plan->preference.reference)
        return REF_MODEL_FOLDER;
    return plan_has_second_model(plan) ? REF_MODEL_COPY : REF_MODEL_BASE;
}

const char *ref_model_loss(const struct plan *plan)
{
    return schema_find("pref_loss")->values[plan->preference.loss];
}
