/* patcher/rules_model.c - the model: one that is trained here, with the layers that the
 * job names. */
#include "config.h"

#include "patcher/rules_parts.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "train/shapes.h"

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

/* ---- TS717: a layer that the model does not have ---- */

void rule_model_layers(struct rule_context *context)
{
    static const char *const keys[] = { "lora_target", "additional_target",
                                        "freeze_trainable_modules" };
    struct error err = { 0 };
    struct lora lora;

    if (!context->model || shapes_check(context->plan, context->model, &lora, &err))
        return;
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const char *rest = err.text + strlen(keys[i]);

        if (!text_starts(err.text, keys[i]) || !rule_entry(context, keys[i]))
            continue;
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS717",
                      .severity = SEVERITY_ERROR,
                      .message = arena_strdup(
                          context->arena, text_starts(rest, ": ") ? rest + 2 : err.text),
                      .because = arena_printf(context->arena, "the model is a %s",
                                              context->model->architecture->model_type) },
                  keys[i]);
    }
    error_clear(&err);
}
