/* patcher/rules/rules_preference.c - preference training: the reference model, and
 * settings that belong to another loss or stage. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/rules/teacher.h"
#include "patcher/schema/scalar.h"

static bool is_preference(const struct rule_context *context)
{
    return context->plan->stage == STAGE_DPO;
}

/* ---- TS907 ---- */

static void rule_reference_model(struct rule_context *context)
{
    const struct plan *plan = context->plan;
    const enum ref_model reference = ref_model_of(plan);

    if (reference == REF_MODEL_COPY && plan->train_from_scratch)
        rule_report(context,
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
        rule_report(
            context,
            &(struct finding) {
                .rule = "TS907",
                .severity = SEVERITY_INFO,
                .message = "the reference is the model without any adapter, not with the "
                           "one that is started from",
                .note = "create_new_adapter: true merges that first; ref_model "
                        "and ref_model_adapters name it as the reference" },
            "adapter_name_or_path");
}

/* ---- TS908 ---- */

/* A key and the loss that it is of. */
static void unused_with_loss(struct rule_context *context, const char *key,
                             const char *what)
{
    if (rule_entry(context, key))
        rule_report(context,
                    &(struct finding) { .rule = "TS908",
                                        .severity = SEVERITY_INFO,
                                        .message = arena_printf(
                                            context->arena,
                                            "%s has no effect with pref_loss: %s, %s",
                                            key, ref_model_loss(context->plan), what) },
                    key);
}

static void rule_unused_loss_keys(struct rule_context *context)
{
    const struct preference *preference = &context->plan->preference;

    if (!is_preference(context))
        return;
    if (preference->loss != PREFERENCE_SIGMOID && preference->label_smoothing > 1e-6)
        rule_report(
            context,
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
        unused_with_loss(context, "simpo_gamma", "only with simpo");
    if (ref_model_of(context->plan) == REF_MODEL_NONE) {
        unused_with_loss(context, "ref_model", "which has no reference");
        unused_with_loss(context, "ref_model_adapters", "which has no reference");
    } else if (preference->adapter && !preference->reference) {
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS908",
                        .severity = SEVERITY_WARNING,
                        .message = "ref_model_adapters has no effect without ref_model",
                        .note = "ref_model: the folder of the model that they are of" },
                    "ref_model_adapters");
    }
}

/* ---- TS909 ---- */

static const struct ignored_key {
    const char *key;
    enum severity severity;
    bool stops;   /* LLaMA-Factory does: hparams/parser.py, get_train_args */
    bool of_lora; /* without it TS712 tells */
    const char *why;
} ignored_keys[] = {
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

static void report_ignored_key(struct rule_context *context,
                               const struct ignored_key *row)
{
    const bool external = context->plan->external;

    rule_report(
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

static void rule_dpo_ignored_keys(struct rule_context *context)
{
    const bool external = context->plan->external;

    if (!is_preference(context) || (external && !rule_is_llamafactory(context)))
        return;
    for (size_t i = 0; i < TS_COUNT(ignored_keys); i++)
        if (is_on(context, ignored_keys[i].key) && (!external || ignored_keys[i].stops) &&
            (!ignored_keys[i].of_lora || context->plan->method == METHOD_LORA))
            report_ignored_key(context, &ignored_keys[i]);
}

static const struct rule rows[] = {
    { .id = "TS907",
      .title = "what preferences are held against",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .target = RULE_NATIVE,
      .run = rule_reference_model,
      .explain =
          "pref_loss sigmoid, hinge and ipo ask how much likelier an answer has become "
          "than a reference finds it, a model that stays as it is. That is ref_model "
          "where the job names one. Without it, and with lora, it is the model without "
          "its adapter; where weights of the model itself are trained, the model as it "
          "begins, which is read a second time. With train_from_scratch it begins with "
          "numbers drawn at random, and to stay near those is no aim.\n\n"
          "adapter_name_or_path goes on with an adapter, and the reference is the model "
          "without any. So LLaMA-Factory has it, and it is told (info), as mostly the "
          "model of stage sft is meant, which is the model with that adapter. "
          "create_new_adapter: true merges it and trains a new one; ref_model with "
          "ref_model_adapters takes a second model's memory.",
      .source = "LLaMA-Factory train/trainer_utils.py: create_ref_model; "
                "train/dpo/trainer.py: compute_reference_log_probs" },
    { .id = "TS908",
      .title = "a setting of another loss of preferences",
      .severity = SEVERITY_ERROR,
      .firm = true,
      .run = rule_unused_loss_keys,
      .explain =
          "dpo_label_smoothing is of pref_loss: sigmoid: LLaMA-Factory stops where it "
          "stands beside another. simpo_gamma is read with simpo alone. orpo and simpo "
          "have no reference, so that ref_model has no effect with them; nor has "
          "ref_model_adapters where no ref_model is named.",
      .source = "LLaMA-Factory hparams/finetuning_args.py: FinetuningArguments" },
    { .id = "TS909",
      .title = "a setting that has no place in stage dpo",
      .severity = SEVERITY_WARNING,
      .run = rule_dpo_ignored_keys,
      .explain =
          "Two answers to one question are compared, the whole of each and no other "
          "token. So there is nothing that train_on_prompt or mask_history could add or "
          "leave out, nothing is packed, nothing is generated, and "
          "label_smoothing_factor and compute_accuracy, which are of the cross-entropy, "
          "have nothing to work on: dpo_label_smoothing and rewards/accuracies are "
          "their likes. Dropout, that of adapters and of the model, is off: what it "
          "does to an answer's probability would count as a preference.\n\n"
          "LLaMA-Factory stops at predict_with_generate, train_on_prompt, mask_history "
          "and neat_packing outside of stage sft, and passes over the others; so in a "
          "job for it (target: external) the first are errors.",
      .source = "LLaMA-Factory hparams/parser.py: get_train_args; train/dpo/trainer.py; "
                "data/processor/pairwise.py; TRL DPOConfig: disable_dropout" },
};

const struct rules rules_preference = { rows, TS_COUNT(rows) };
