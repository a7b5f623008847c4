/* patcher/rules_model.c - the model: one that is trained here, with the layers that the
 * job names. */
#include "config.h"

#include "patcher/rules_parts.h"

/* ---- TS716: an architecture or a setting that is not there ---- */

void rule_model_unknown(struct rule_context *context)
{
    if (!context->model_error)
        return;
    rule_tell(context,
              &(struct finding) { .rule = "TS716",
                                  .severity = SEVERITY_ERROR,
                                  .message = context->model_error,
                                  .because = "config.json of the model" },
              "model_name_or_path");
}
