/* patcher/rules/rules_preference.c - preference training: the reference model, and
 * settings that belong to another loss or stage. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/rules/teacher.h"
#include "patcher/schema/scalar.h"

static bool is_preference(const struct rule_context *context)
{
    return plan_prefers(context->plan);
}

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
                            "the reference would be the initial model, but its weights "
                            "are random",
                        .note = "set ref_model to the folder of a trained model; "
                                "pref_loss: orpo and simpo need no reference" },
                    "train_from_scratch");
    if (reference == REF_MODEL_BASE && plan->adapter_name_or_path &&
        !plan->create_new_adapter)
        rule_report(
            context,
            &(struct finding) {
                .rule = "TS907",
                .severity = SEVERITY_INFO,
                .message = "the reference is the model without any adapter, not with the "
                           "adapter that training continues from",
                .note = "set create_new_adapter: true to merge that adapter first, or "
                        "use it as the reference with ref_model and ref_model_adapters" },
            "adapter_name_or_path");
}

/* Report a key that belongs to another loss. */
static void report_unused_with_loss(struct rule_context *context, const char *key,
                                    const char *what)
{
    const bool feedback = context->plan->stage == STAGE_KTO;

    if (rule_entry(context, key))
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS908",
                        .severity = SEVERITY_INFO,
                        .message = arena_printf(context->arena,
                                                "%s has no effect with %s: %s, %s", key,
                                                feedback ? "stage" : "pref_loss",
                                                ref_model_loss(context->plan), what) },
                    key);
}

static void rule_unused_loss_keys(struct rule_context *context)
{
    const struct preference *preference = &context->plan->preference;

    if (!is_preference(context) || preference->loss == PREFERENCE_REWARD)
        return; /* TS712 reports keys of another stage */
    if (preference->loss != PREFERENCE_SIGMOID && preference->label_smoothing > 1e-6)
        rule_report(
            context,
            &(struct finding) {
                .rule = "TS908",
                .severity = SEVERITY_ERROR,
                .message = arena_printf(
                    context->arena,
                    "dpo_label_smoothing belongs to pref_loss: sigmoid, not to %s",
                    ref_model_loss(context->plan)),
                .note = "remove it, or set it to 0" },
            "dpo_label_smoothing");
    if (preference->loss == PREFERENCE_KTO) {
        report_unused_with_loss(context, "pref_loss", "which has one loss");
        report_unused_with_loss(context, "dpo_label_smoothing", "only with pairs");
    }
    if (preference->loss != PREFERENCE_SIMPO)
        report_unused_with_loss(context, "simpo_gamma", "only with simpo");
    if (ref_model_of(context->plan) == REF_MODEL_NONE) {
        report_unused_with_loss(context, "ref_model", "which has no reference");
        report_unused_with_loss(context, "ref_model_adapters", "which has no reference");
    } else if (preference->adapter && !preference->reference) {
        rule_report(context,
                    &(struct finding) {
                        .rule = "TS908",
                        .severity = SEVERITY_WARNING,
                        .message = "ref_model_adapters has no effect without ref_model",
                        .note = "set ref_model to the folder of the model that the "
                                "adapters belong to" },
                    "ref_model_adapters");
    }
}

static const struct ignored_key {
    const char *key;
    enum severity severity;
    bool stops;   /* LLaMA-Factory rejects it: hparams/parser.py, get_train_args */
    bool of_lora; /* TS712 reports it without LoRA */
    bool not_rm;  /* it has its meaning in stage rm */
    const char *why;
} ignored_keys[] = {
    { "predict_with_generate", SEVERITY_WARNING, true, false, false,
      "evaluations compare pairs and generate no answers" },
    { "train_on_prompt", SEVERITY_WARNING, true, false, false,
      "only answers are compared" },
    { "mask_history", SEVERITY_WARNING, true, false, false,
      "only the last answer of a conversation is compared" },
    { "neat_packing", SEVERITY_WARNING, true, false, false,
      "compared answers are not packed" },
    { "packing", SEVERITY_INFO, false, false, false, "compared answers are not packed" },
    { "label_smoothing_factor", SEVERITY_WARNING, false, false, false,
      "it belongs to the cross-entropy; dpo_label_smoothing is the counterpart for "
      "pairs" },
    { "compute_accuracy", SEVERITY_INFO, false, false, false,
      "the fraction of correctly ordered pairs is always reported, as "
      "rewards/accuracies" },
    { "lora_dropout", SEVERITY_INFO, false, true, true,
      "dropout is off while a model is compared with a reference" },
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

static const char *stage_name(enum stage stage)
{
    return stage == STAGE_KTO ? "kto" : stage == STAGE_RM ? "rm" : "dpo";
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
            .message =
                external
                    ? arena_printf(context->arena,
                                   "LLaMA-Factory accepts %s only in stage "
                                   "sft and rejects the job",
                                   row->key)
                    : arena_printf(context->arena, "%s has no effect in stage %s: %s",
                                   row->key, stage_name(context->plan->stage), row->why),
            .note =
                row->stops && !external ? "remove it: LLaMA-Factory rejects it" : NULL },
        row->key);
}

static void rule_dpo_ignored_keys(struct rule_context *context)
{
    const bool external = context->plan->external;

    if (!is_preference(context) || (external && !rule_is_llamafactory(context)))
        return;
    for (size_t i = 0; i < TS_COUNT(ignored_keys); i++)
        if (is_on(context, ignored_keys[i].key) && (!external || ignored_keys[i].stops) &&
            (!ignored_keys[i].of_lora || plan_adapts(context->plan)) &&
            (!ignored_keys[i].not_rm || context->plan->stage != STAGE_RM))
            report_ignored_key(context, &ignored_keys[i]);
}

static void rule_single_feedback(struct rule_context *context)
{
    const struct plan *plan = context->plan;

    if (plan->stage != STAGE_KTO || plan->external ||
        plan->per_device_train_batch_size > 1)
        return;
    rule_report(
        context,
        &(struct finding) {
            .rule = "TS911",
            .severity = SEVERITY_WARNING,
            .message = "stage kto estimates the divergence from the reference from the "
                       "samples of a micro-batch, and each has only one",
            .note = "set per_device_train_batch_size to 2 or more, as TRL requires, and "
                    "lower gradient_accumulation_steps as much" },
        rule_entry(context, "per_device_train_batch_size") ? "per_device_train_batch_size"
                                                           : "stage");
}

static const struct rule rows[] = {
    { .id = "TS907",
      .title = "reference model of preference training",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_NATIVE,
      .run = rule_reference_model,
      .explain =
          "pref_loss sigmoid, hinge and ipo measure how much likelier an answer has "
          "become than it is for a reference, a model that stays unchanged. The "
          "reference is ref_model if the job names one. Otherwise, with lora, it is the "
          "model without its adapter; if weights of the model itself are trained, it is "
          "the initial model, which is loaded a second time. With train_from_scratch "
          "the initial weights are random, and a random model is not a useful "
          "reference.\n\n"
          "adapter_name_or_path continues training an adapter, and the reference is the "
          "model without any adapter. LLaMA-Factory does the same. An info reports it, "
          "because usually the model of stage sft is intended, which is the model with "
          "that adapter. create_new_adapter: true merges it and trains a new one; "
          "ref_model with ref_model_adapters needs the memory of a second model.",
      .source = "LLaMA-Factory train/trainer_utils.py: create_ref_model; "
                "train/dpo/trainer.py: compute_reference_log_probs" },
    { .id = "TS908",
      .title = "setting of another preference loss",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .run = rule_unused_loss_keys,
      .explain =
          "dpo_label_smoothing belongs to pref_loss: sigmoid; LLaMA-Factory rejects it "
          "with another loss. simpo_gamma is used by simpo only. orpo and simpo have no "
          "reference, so ref_model has no effect with them; ref_model_adapters has no "
          "effect without ref_model.",
      .source = "LLaMA-Factory hparams/finetuning_args.py: FinetuningArguments" },
    { .id = "TS909",
      .title = "setting without effect in stage dpo",
      .severity = SEVERITY_WARNING,
      .run = rule_dpo_ignored_keys,
      .explain =
          "Stage dpo compares two answers to one question, each as a whole and without "
          "other tokens. train_on_prompt and mask_history therefore have nothing to add "
          "or omit, nothing is packed, nothing is generated, and label_smoothing_factor "
          "and compute_accuracy, which belong to the cross-entropy, have no effect: "
          "dpo_label_smoothing and rewards/accuracies are their counterparts. Dropout, "
          "of adapters and of the model, is off: its influence on the probability of an "
          "answer would count as a preference. Stages kto and rm do the same, but rm "
          "compares nothing with a reference and keeps dropout.\n\n"
          "LLaMA-Factory rejects predict_with_generate, train_on_prompt, mask_history "
          "and neat_packing outside of stage sft and ignores the other keys; in a job "
          "for it (target: external) the former are errors.",
      .source = "LLaMA-Factory hparams/parser.py: get_train_args; train/dpo/trainer.py; "
                "data/processor/pairwise.py; TRL DPOConfig: disable_dropout" },
    { .id = "TS911",
      .title = "divergence of stage kto from a single sample",
      .severity = SEVERITY_WARNING,
      .target = RULE_NATIVE,
      .run = rule_single_feedback,
      .explain =
          "KTO compares an answer with how much likelier answers have become on average "
          "than they are for the reference. This average is estimated from the samples "
          "of a micro-batch, each with the answer to another question. With one sample "
          "the estimate is that of one answer, and the loss is as noisy. TRL refuses "
          "such a job; LLaMA-Factory, whose example has a batch of 1, accepts it.",
      .source = "TRL trainer/kto_trainer.py: KTOTrainer.__init__; LLaMA-Factory "
                "examples/train_lora/qwen3_lora_kto.yaml" },
};

const struct rules rules_preference = { rows, TS_COUNT(rows) };
