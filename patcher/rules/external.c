/*
 * patcher/rules/external.c - the precision of an external job, decided as
 * TrainingArguments, Accelerate, PEFT and LLaMA-Factory decide it.
 */
#include "config.h"

#include "patcher/rules/external.h"

#include <stdio.h>

#include "patcher/rules/rules_context.h"
#include "patcher/rules/stored_weights.h"
#include "patcher/rules/trainer_file.h"
#include "patcher/rules/trainer_settings.h"
#include "patcher/rules/python_value.h"
#include "patcher/schema/scalar.h"
#include "patcher/schema/schema.h"
#include "precision/scaler.h"

static void write_message(const struct rule_context *context,
                          const struct stored_weights *weights, struct precision *out)
{
    bool stops = stored_weights_stop_any_scaler(weights);
    int len = weights->autocast == FORMAT_FP32
                  ? snprintf(out->message, sizeof(out->message), "no autocast, as %s",
                             weights->autocast_source)
                  : snprintf(out->message, sizeof(out->message), "%s autocast by %s",
                             format_dtype(weights->autocast), weights->autocast_source);
    size_t room = sizeof(out->message) - (size_t)len;

    if (stops)
        snprintf(out->message + len, room, "; trained weights would be %s (%s), %s",
                 format_dtype(out->trainable), weights->trained_source,
                 stored_weights_refusal(out->trainable));
    else
        snprintf(out->message + len, room, "; trained weights %s: %s%s",
                 format_dtype(out->trainable), weights->trained_source,
                 rule_is_set(context, "quantization_bit")
                     ? "; the base model is stored in quantization_bit bits"
                 : rule_trains_all(context)
                     ? "; all of them, as no key configures adapters"
                     : "");
}

static const char *program_text(const struct rule_context *context)
{
    const char *text = rule_is_llamafactory(context) ? "LLaMA-Factory"
                       : rule_is_trl(context)        ? "TRL"
                                                     : "another program",
               *versions = "";

    for (size_t i = 0; i < PACKAGES; i++) {
        const struct package_version *known = &context->versions->packages[i];

        if (versions_know(context->versions, (enum package)i))
            versions = arena_printf(context->arena, "%s%s%s %s", versions,
                                    *versions ? ", " : "", package_names[i],
                                    known->given ? known->given : known->found);
    }
    return *versions ? arena_printf(context->arena, "%s, with %s", text, versions) : text;
}

static void decide_by_keys(const struct rule_context *context, struct plan *plan)
{
    const struct stored_weights weights = stored_weights_of(context, &plan->request);
    bool scales = weights.autocast == FORMAT_FP16;
    struct precision *out = &plan->precision;

    *out = (struct precision) {
        .mode = stored_weights_mode(context, &weights),
        .trainable = weights.trained,
        .has_frozen = plan->request.has_frozen,
        .frozen = weights.base,
        .scaling = scales ? SCALING_DYNAMIC : SCALING_NONE,
        .loss_scale = scales ? SCALER_START : 1,
        .max_grad_norm = plan->request.max_grad_norm,
        .fp8 = plan->request.fp8 && weights.autocast == FORMAT_BF16,
    };
    out->compute = out->mode == MODE_TF32 ? FORMAT_TF32 : weights.compute;
    write_message(context, &weights, out);
    plan->program = program_text(context);
}

static enum mode mode_of(const struct trainer_formats *formats, enum format compute)
{
    bool pure = formats->trained == compute;

    switch (compute) {
    case FORMAT_FP16:
        return pure ? MODE_FP16_PURE : MODE_FP16_MIXED;
    case FORMAT_BF16:
        return pure ? MODE_BF16_PURE : MODE_BF16_MIXED;
    default:
        return MODE_FP32;
    }
}

/* Decide as Axolotl, torchtune or Lightning, from its own file. */
static void decide_by_file(const struct rule_context *context, struct plan *plan)
{
    const struct trainer_formats formats = trainer_file_formats(context);
    const char *title = profile_at(context->view->trainer)->title;
    enum format compute =
        formats.autocast == FORMAT_FP32 ? formats.weights : formats.autocast;

    plan->program = title;
    plan->precision = (struct precision) {
        .mode = mode_of(&formats, compute),
        .compute = formats.known ? compute : FORMAT_FP32,
        .trainable = formats.known ? formats.trained : FORMAT_FP32,
        .has_frozen = formats.known && formats.trained != formats.weights,
        .frozen = formats.weights,
        .scaling = formats.scaled ? SCALING_DYNAMIC : SCALING_NONE,
        .loss_scale = formats.scaled ? SCALER_START : 1,
        .max_grad_norm = plan->request.max_grad_norm,
    };
    snprintf(plan->precision.message, sizeof(plan->precision.message), "%s in %s: %s, %s",
             formats.known ? formats.request : "no format given", title,
             format_dtype(compute),
             formats.scaled ? "with a loss scaler" : "without a loss scaler");
}

void external_decide(const struct rule_context *context, struct plan *plan)
{
    if (trainer_file_is_foreign(context)) {
        decide_by_file(context, plan);
        return;
    }
    decide_by_keys(context, plan);
}

/* Off unless the job asks for them; only LLaMA-Factory has them on by default. */
void external_defaults(const struct rule_context *context, struct plan *plan)
{
    if (rule_is_llamafactory(context)) {
        trainer_settings_bind(context, plan);
        return;
    }
    if (!rule_entry(context, "gradient_checkpointing") &&
        !rule_entry(context, "disable_gradient_checkpointing"))
        plan->gradient_checkpointing = false;
    trainer_settings_bind(context, plan);
    if (rule_trains_all(context)) {
        plan->method = METHOD_FULL;
        plan->request.all_trainable = true;
        plan->request.has_frozen = false;
    }
}

bool external_read_strings(const struct rule_context *context, struct plan *plan)
{
    const struct node *root = context->document->root;
    bool any = false, word;

    for (size_t i = 0; i < root->count; i++) {
        const struct entry *entry = &root->entries[i];
        const char *name = entry->key->kind == NODE_SCALAR ? entry->key->text : "";
        struct error ignored = { 0 };

        if (scalar_bool(entry->value, &word) == SCALAR_WRONG || word ||
            !python_reads_string(context, name, entry->value))
            continue;
        any |= schema_set(name, "true", context->arena, plan, &ignored);
        error_clear(&ignored);
    }
    return any;
}
