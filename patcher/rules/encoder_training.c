/* patcher/rules/encoder_training.c - which jobs can train parts of a model that reads images or
 * sound. */
#include "config.h"

#include "patcher/rules/encoder_training.h"

#include <string.h>

#include "base/file.h"
#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "precision/policy.h"
#include "train/model/adapter_check.h"
#include "train/model/cross_layers.h"
#include "train/model/optimizer_table.h"
#include "train/model/shapes.h"

static void report_towers(struct rule_context *context, const char *key,
                          const char *message, const char *note)
{
    rule_report(context,
                &(struct finding) { .rule = "TS716",
                                    .severity = SEVERITY_ERROR,
                                    .message = message,
                                    .because = "config.json of the model",
                                    .note = note },
                key);
}

/* Of a model with towers, the text model is trained, and the other parts if the job asks. */
static void check_parts(struct rule_context *context)
{
    const struct multimodal *row = context->model ? context->model->multimodal : NULL;
    struct arena *arena = context->arena;

    if (!row)
        return;
    if (context->plan->train_from_scratch)
        report_towers(context, "train_from_scratch",
                      arena_printf(arena,
                                   "train_from_scratch is not supported for a model of "
                                   "type %s: its towers would have no weights",
                                   row->model_type),
                      "train the text model alone: make a folder with a config.json of "
                      "its own");
    if (rule_is_true(context, "freeze_language_model") &&
        !(context->plan->train_cross_attention && row->crosses) &&
        !shapes_trains_encoder(context->plan, context->model) &&
        (plan_adapts(context->plan) ||
         !shapes_trains_projector(context->plan, context->model)))
        report_towers(context, "freeze_language_model",
                      arena_printf(arena,
                                   "freeze_language_model leaves nothing to train: a "
                                   "job trains the text model of a %s, its encoder "
                                   "with freeze_vision_tower: false, and, with "
                                   "finetuning_type: full, its projector with "
                                   "freeze_multi_modal_projector: false",
                                   row->model_type),
                      "remove the key, or add one of these");
}

/* Report a job that train_cross_attention does not fit. */
static void check_cross_attention(struct rule_context *context)
{
    static const char key[] = "train_cross_attention";
    const struct plan *plan = context->plan;
    const struct model_config *model = context->model;
    const struct proposal to = rule_proposal(context);
    struct finding finding = { .rule = "TS716", .severity = SEVERITY_ERROR };

    if (!plan->train_cross_attention)
        return;
    if (model && !cross_layers_exist(model)) {
        finding.message = "train_cross_attention requires a model with layers of "
                          "cross-attention, such as Llama 3.2 Vision; this one has none";
        finding.because = "config.json of the model";
        finding.note = "remove the key";
    } else if (plan->method != METHOD_FULL && plan->method != METHOD_LORA) {
        finding.message = arena_printf(
            context->arena,
            "train_cross_attention requires finetuning_type: full or lora, not %s",
            plan_method_name(plan));
        finding.note = "set finetuning_type: full or lora, or remove the key";
    } else if (!plan->freeze_language_model) {
        finding.message =
            "train_cross_attention has no effect without "
            "freeze_language_model: true: all layers of the text model are trained";
        finding.note =
            "add freeze_language_model: true to train only these layers of it, "
            "or remove the key";
    } else {
        return;
    }
    propose_key_remark(&to, &finding, rule_block_entry(context, key));
}

/* Return whether the job sets a key to false. */
static bool is_off(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    bool on = true;

    return entry && scalar_bool(entry->value, &on) != SCALAR_WRONG && !on;
}

/* PEFT adapts no projector here: it is trained as a whole next to adapters. */
static void report_adapted_projector(struct rule_context *context, const char *key,
                                     const char *value)
{
    const char *path = context->model->media.projector.path;

    rule_report(
        context,
        &(struct finding) {
            .rule = "TS716",
            .severity = SEVERITY_WARNING,
            .message = arena_printf(context->arena,
                                    "%s%s adds no adapter to the projector", key, value),
            .note = arena_printf(context->arena,
                                 "to train it with the adapters, add "
                                 "additional_target: %s",
                                 projector_config_leaf(path)) },
        key);
}

/* Return why the encoder of the model cannot be trained; NULL: it can, or there is no config.json
 * of the model yet. */
static const char *model_refusal(const struct model_config *model)
{
    if (!model || model->encoder.count > 0)
        return NULL;
    if (model->encoder.why)
        return model->encoder.why;
    return model->media.projector.path
               ? "its encoder is not supported"
               : "its projector is only computed next to a frozen encoder";
}

static const char *value_of(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);

    return rule_printable(context, entry ? node_value(entry->value)->text : "");
}

static enum format trained_format(const struct rule_context *context)
{
    struct plan plan = *context->plan;

    if (context->device)
        plan.device = *context->device;
    policy_decide(&plan.request, &plan.device, &plan.precision);
    return plan.precision.trainable;
}

/* Return why the run cannot train an encoder, and in *note what to do; NULL: it can. */
static const char *refusal(const struct rule_context *context, const char **note)
{
    const struct plan *plan = context->plan;
    struct arena *arena = context->arena;
    const char *why;

    if (plan->method != METHOD_FULL && plan->method != METHOD_LORA) {
        *note = "set finetuning_type: full or lora; or remove the key, which keeps the "
                "encoder frozen";
        return arena_printf(arena, "requires finetuning_type: full or lora, not %s",
                            plan_method_name(plan));
    }
    if (plan->stage != STAGE_SFT && plan->stage != STAGE_PT) {
        *note =
            "remove the key, which keeps the encoder frozen in this stage; another job "
            "with stage: sft can train it before";
        return arena_printf(arena, "requires stage: sft or pt, not %s",
                            value_of(context, "stage"));
    }
    if (plan->features) {
        *note = "remove trainspool: {features: ...}, or remove the key, which keeps the "
                "encoder frozen";
        return "cannot train an encoder on rows of features that a file has: it has to "
               "read the images or sounds";
    }
    if (plan->save_torch_state) {
        *note = "remove save_torch_state, or remove the key, which keeps the encoder "
                "frozen";
        return "is not supported with save_torch_state: the state of torch's optimizer "
               "has another order of parameters";
    }
    if (trained_format(context) != FORMAT_FP32) {
        *note =
            "set bf16: true in place of pure_bf16, or remove the key, which keeps the "
            "encoder frozen";
        return "requires weights in fp32";
    }
    if (plan->method == METHOD_FULL && optimizer_of(plan)->whole) {
        *note = "use another optim, such as adamw_torch, or remove the key, which keeps "
                "the encoder frozen";
        return "is not supported with an optimizer that updates whole matrices";
    }
    why = model_refusal(context->model);
    if (why) {
        *note = "remove the key, which keeps the encoder frozen, or train it all with "
                "LLaMA-Factory: trainspool: {target: external}";
        return arena_printf(arena, "is not supported for this model: %s", why);
    }
    return NULL;
}

/* Without config.json of the model, it is not known whether there is an encoder. */
static void check_encoder(struct rule_context *context)
{
    static const char key[] = "freeze_vision_tower";
    const struct multimodal *row = context->model ? context->model->multimodal : NULL;
    const char *note = NULL, *why;

    if (!is_off(context, key) || (context->model && !row))
        return;
    why = refusal(context, &note);
    if (why)
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS716",
                        .severity = row ? SEVERITY_ERROR : SEVERITY_WARNING,
                        .message = arena_printf(context->arena, "%s: false %s", key, why),
                        .note = note },
                    key);
}

/* LLaMA-Factory would train the projector of any model that has one
 * (model/model_utils/visual.py). */
static void check_projector(struct rule_context *context)
{
    static const char key[] = "freeze_multi_modal_projector";
    const struct multimodal *row = context->model ? context->model->multimodal : NULL;

    if (!is_off(context, key) || (context->model && !row))
        return;
    if (row && context->model->media.projector.path) {
        if (plan_adapts(context->plan) && !context->plan->additional_target)
            report_adapted_projector(context, key, ": false");
        return;
    }
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS716",
            .severity = row ? SEVERITY_ERROR : SEVERITY_WARNING,
            .message = arena_printf(
                context->arena,
                row ? "%s: false is not supported: of this model, the projector stays as "
                      "it is"
                    : "%s: false may have no effect here: the projectors of some models "
                      "are not trained",
                key),
            .note = "remove the key to train the text model alone, or train it all with "
                    "LLaMA-Factory: trainspool: {target: external}" },
        key);
}

/* A job that trains an adapter further, and not its layers in the encoder, would leave them out. */
static void check_adapter(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const char *dir = plan->adapter_name_or_path;

    if (!context->model || !plan_adapts(plan) || !dir || !file_is_dir(dir) ||
        plan_trains_encoder(plan) || !plan_trains(plan) || plan->create_new_adapter ||
        !adapter_check_encoder(dir, context->model))
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS716",
            .severity = SEVERITY_ERROR,
            .message = "the adapter has layers in the encoder of images or sound, "
                       "which this job does not train",
            .note = "set freeze_vision_tower: false to train it further, or "
                    "create_new_adapter: true, which merges it into the model first" },
        "adapter_name_or_path");
}

/* A pattern may name what gets no adapters. */
static void check_pattern(struct rule_context *context)
{
    static const char key[] = "lora_target";
    const struct plan *plan = context->plan;
    struct error ignored = { 0 };
    struct lora lora;

    if (context->model && context->model->media.projector.path && plan_adapts(plan) &&
        !plan->additional_target && lora_read(plan, context->model, &lora, &ignored) &&
        lora.names_projector)
        report_adapted_projector(context, key, "");
}

/* The same of an adapter that is on layers which the job does not train. */
static void check_adapted_layers(struct rule_context *context)
{
    static const char key[] = "adapter_name_or_path";
    const struct plan *plan = context->plan;
    struct error err = { 0 };
    struct lora lora;

    if (!context->model || !plan->train_cross_attention || !plan->adapter_name_or_path ||
        !file_is_dir(plan->adapter_name_or_path) || !plan_trains(plan) ||
        lora_read(plan, context->model, &lora, &err) || !text_starts(err.text, key))
        return;
    rule_report(context,
                &(struct finding) { .rule = "TS716",
                                    .severity = SEVERITY_ERROR,
                                    .message = arena_strdup(context->arena, err.text) },
                key);
}

void encoder_training_check(struct rule_context *context)
{
    check_parts(context);
    check_cross_attention(context);
    check_encoder(context);
    check_adapter(context);
    check_adapted_layers(context);
    check_pattern(context);
    check_projector(context);
}
