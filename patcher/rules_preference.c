/* patcher/rules_preference.c - pairs of answers: what they are held against, and settings
 * that are of another loss or of another stage. */
#include "config.h"

#include "patcher/rules_parts.h"

#include "base/size.h"
#include "patcher/rules/teacher.h"
#include "patcher/schema/scalar.h"

static bool is_preference(const struct rule_context *context)
{
    return context->plan->stage == STAGE_DPO;
}

/* ---- TS707: what is not done here ---- */

static void refuse(struct rule_context *context, const char *key, const char *message,
                   const char *note)
{
    rule_tell(context,
              &(struct finding) { .rule = "TS707",
                                  .severity = SEVERITY_ERROR,
                                  .message = message,
                                  .note = note },
              key);
}

void rule_preference_here(struct rule_context *context)
{
    double weight;

    if (!is_preference(context))
        return;
    if (rule_number(context, "pref_bco_weight", &weight) && weight > 0)
        refuse(context, "pref_bco_weight",
               "the loss of a binary classifier (pref_bco_weight) is not done here",
               "leave it out, or 0");
    if (rule_entry(context, "ld_alpha"))
        refuse(
            context, "ld_alpha",
            "another weight for what the longer answer has more (ld_alpha) is not done "
            "here",
            "leave it out");
    if (context->plan->additional_target && ref_model_of(context->plan) == REF_MODEL_BASE)
        refuse(
            context, "additional_target",
            "the reference is the model without its adapter, and of modules that are "
            "trained whole beside it there is no original",
            "leave it out, or name the model as ref_model, which is then read a second "
            "time");
}

/* ---- TS907 ---- */

void rule_reference(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const enum ref_model reference = ref_model_of(plan);

    if (reference == REF_MODEL_COPY && plan->train_from_scratch)
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS907",
                      .severity = SEVERITY_ERROR,
                      .message =
                          "the reference would be the model as it begins, and this one "
                          "begins with numbers drawn at random",
                      .note = "ref_model: a folder with a trained model; pref_loss: "
                              "orpo and simpo have no reference" },
                  "train_from_scratch");
    if (reference == REF_MODEL_BASE && plan->adapter_name_or_path &&
        !plan->create_new_adapter)
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS907",
                      .severity = SEVERITY_INFO,
                      .message =
                          "the reference is the model without any adapter, not with the "
                          "one that is started from",
                      .note = "create_new_adapter: true merges that first; ref_model "
                              "and ref_model_adapters name it as the reference" },
                  "adapter_name_or_path");
}

/* ---- TS908 ---- */

/* A key and the loss that it is of. */
static void idle_for_loss(struct rule_context *context, const char *key, const char *what)
{
    if (rule_entry(context, key))
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS908",
                      .severity = SEVERITY_INFO,
                      .message = arena_printf(context->arena,
                                              "%s has no effect with pref_loss: %s, %s",
                                              key, ref_model_loss(context->plan), what) },
                  key);
}

void rule_other_loss(struct rule_context *context)
{
    const struct preference *preference = &context->plan->preference;

    if (!is_preference(context))
        return;
    if (preference->loss != PREFERENCE_SIGMOID && preference->label_smoothing > 1e-6)
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS908",
                      .severity = SEVERITY_ERROR,
                      .message = arena_printf(
                          context->arena,
                          "dpo_label_smoothing is of pref_loss: sigmoid alone, not of %s",
                          ref_model_loss(context->plan)),
                      .note = "leave it out, or 0" },
                  "dpo_label_smoothing");
    if (preference->loss != PREFERENCE_SIMPO)
        idle_for_loss(context, "simpo_gamma", "only with simpo");
    if (ref_model_of(context->plan) == REF_MODEL_NONE) {
        idle_for_loss(context, "ref_model", "which has no reference");
        idle_for_loss(context, "ref_model_adapters", "which has no reference");
    } else if (preference->adapter && !preference->reference) {
        rule_tell(context,
                  &(struct finding) {
                      .rule = "TS908",
                      .severity = SEVERITY_WARNING,
                      .message = "ref_model_adapters has no effect without ref_model",
                      .note = "ref_model: the folder of the model that they are of" },
                  "ref_model_adapters");
    }
}

/* ---- TS909 ---- */

static const struct stranger {
    const char *key;
    enum severity severity;
    bool stops;   /* LLaMA-Factory does: hparams/parser.py, get_train_args */
    bool of_lora; /* without it TS712 tells */
    const char *why;
} strangers[] = {
    { "predict_with_generate", SEVERITY_WARNING, true, false,
      "evaluations compare pairs, and answer nothing" },
    { "train_on_prompt", SEVERITY_WARNING, true, false, "answers alone are compared" },
    { "mask_history", SEVERITY_WARNING, true, false,
      "of a conversation its last answer is compared" },
    { "neat_packing", SEVERITY_WARNING, true, false, "pairs are not packed" },
    { "packing", SEVERITY_INFO, false, false, "pairs are not packed" },
    { "label_smoothing_factor", SEVERITY_WARNING, false, false,
      "it is of the cross-entropy; dpo_label_smoothing is that of pairs" },
    { "compute_accuracy", SEVERITY_INFO, false, false,
      "the share of pairs that come out right is always told, as rewards/accuracies" },
    { "lora_dropout", SEVERITY_INFO, false, true,
      "nothing is dropped where a model is held against a reference" },
};

static bool is_on(const struct rule_context *context, const char *key)
{
    const struct entry *entry = rule_entry(context, key);
    double number = 0;
    bool on = false;

    if (!entry)
        return false;
    if (scalar_bool(entry->value, &on) != SCALAR_WRONG)
        return on;
    return scalar_number(entry->value, &number) != SCALAR_WRONG && number > 0;
}

static void tell_stranger(struct rule_context *context, const struct stranger *row)
{
    const bool external = context->plan->external;

    rule_tell(
        context,
        &(struct finding) {
            .rule = "TS909",
            .severity = external ? SEVERITY_ERROR : row->severity,
            .message = external ? arena_printf(context->arena,
                                               "LLaMA-Factory takes %s in stage sft "
                                               "alone, and stops at it",
                                               row->key)
                                : arena_printf(context->arena,
                                               "%s has no effect in stage dpo: %s",
                                               row->key, row->why),
            .note = row->stops && !external ? "LLaMA-Factory stops at it; take it out"
                                            : NULL },
        row->key);
}

void rule_strangers(struct rule_context *context)
{
    const bool external = context->plan->external;

    if (!is_preference(context) || (external && !rule_is_llamafactory(context)))
        return;
    for (size_t i = 0; i < TS_COUNT(strangers); i++)
        if (is_on(context, strangers[i].key) && (!external || strangers[i].stops) &&
            (!strangers[i].of_lora || context->plan->method == METHOD_LORA))
            tell_stranger(context, &strangers[i]);
}
