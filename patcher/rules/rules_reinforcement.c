/* patcher/rules/rules_reinforcement.c - stage grpo: settings that do not fit together, and
 * settings of other stages. */
#include "config.h"

#include "patcher/rules/rules_context.h"

#include "base/size.h"
#include "patcher/schema/scalar.h"
#include "train/reinforcement.h"

/* The trainer rejects the same (train/rollout.c), but only when the job starts. */
static void rule_settings_of_grpo(struct rule_context *context)
{
    const struct proposal to = rule_proposal(context);
    struct error why = { 0 };
    struct finding finding = { .rule = "TS915", .severity = SEVERITY_ERROR };
    const struct entry *entry;
    const char *key;

    if (context->plan->external || reinforcement_check(context->plan, &key, &why))
        return;
    finding.message = arena_strdup(context->arena, why.text);
    entry = rule_block_entry(context, key);
    if (entry)
        propose_remark(&to, &finding, entry);
    else
        rule_report(context, &finding, key);
}

static const struct {
    const char *key;
    enum severity severity;
    const char *why;
} ignored[] = {
    { "predict_with_generate", SEVERITY_INFO,
      "evaluations always sample and reward an answer to each prompt" },
    { "max_new_tokens", SEVERITY_WARNING,
      "max_completion_length limits the answers of training and evaluation" },
    { "train_on_prompt", SEVERITY_WARNING, "only answers are trained on" },
    { "mask_history", SEVERITY_INFO,
      "only the last answer of a conversation is sampled and trained on" },
    { "neat_packing", SEVERITY_WARNING, "answers are not packed" },
    { "packing", SEVERITY_INFO, "answers are not packed" },
    { "label_smoothing_factor", SEVERITY_WARNING, "the loss is not a cross-entropy" },
    { "compute_accuracy", SEVERITY_INFO,
      "the fraction of correct answers is always reported" },
    { "lora_dropout", SEVERITY_INFO,
      "dropout is off while likelihoods are compared with those of the sampled model" },
    { "neftune_noise_alpha", SEVERITY_WARNING,
      "noise would change the likelihoods that are compared" },
};

static bool is_on(const struct entry *entry)
{
    double number = 0;
    bool on = false;

    if (scalar_bool(entry->value, &on) != SCALAR_WRONG)
        return on;
    return scalar_number(entry->value, &number) != SCALAR_WRONG && number > 0;
}

/* beta means something else in TRL's DPOConfig, where other files have it from. */
static void report_beta(struct rule_context *context)
{
    if (plan_prefers(context->plan) && rule_entry(context, "beta") &&
        !rule_entry(context, "pref_beta"))
        rule_report(
            context,
            &(struct finding) {
                .rule = "TS916",
                .severity = SEVERITY_ERROR,
                .message = "beta has no effect in this stage, where it is pref_beta",
                .note = "rename it to pref_beta, or remove it to use 0.1" },
            "beta");
}

static void rule_grpo_ignored_keys(struct rule_context *context)
{
    if (context->plan->external)
        return;
    report_beta(context);
    for (size_t i = 0; context->plan->stage == STAGE_GRPO && i < TS_COUNT(ignored); i++) {
        const struct entry *entry = rule_entry(context, ignored[i].key);

        if (entry && is_on(entry))
            rule_report(context,
                        &(struct finding) {
                            .rule = "TS916",
                            .severity = ignored[i].severity,
                            .message = arena_printf(context->arena,
                                                    "%s has no effect in stage grpo: %s",
                                                    ignored[i].key, ignored[i].why) },
                        ignored[i].key);
    }
}

static const struct rule rows[] = {
    { .id = "TS915",
      .title = "settings of stage grpo that do not fit together",
      .severity = SEVERITY_ERROR,
      .mandatory = true,
      .target = RULE_NATIVE,
      .run = rule_settings_of_grpo,
      .explain =
          "A generation has per_device_train_batch_size x gradient_accumulation_steps (or "
          "steps_per_generation) answers, in groups of num_generations to the same prompt. "
          "So num_generations must divide that number, and steps_per_generation must be a "
          "multiple of gradient_accumulation_steps. Answers to one prompt must differ, or "
          "all advantages are 0: do_sample and a temperature are required.\n\n"
          "Rewards need what they compare with: format an answer_tag or answer_marker, "
          "pattern a reward_pattern, and length a soft_punish_cache; reward_weights has a "
          "number for each of reward_funcs. A ratio of whole answers "
          "(importance_sampling_level: sequence) belongs to loss_type: grpo. The stage "
          "trains with one process.",
      .source = "TRL trl/trainer/grpo_config.py: GRPOConfig.__post_init__; "
                "trl/trainer/grpo_trainer.py; train/reinforcement.c" },
    { .id = "TS916",
      .title = "setting without effect in stage grpo, or of it",
      .severity = SEVERITY_WARNING,
      .target = RULE_NATIVE,
      .run = rule_grpo_ignored_keys,
      .explain =
          "Stage grpo samples answers and trains on these: the answers of the data are only "
          "compared with them. Nothing is packed, prompts are not trained on, and settings "
          "of the cross-entropy have no effect. Dropout is off, because the likelihood of "
          "an answer is compared with that of the model that sampled it.\n\n"
          "beta is the weight of the distance from the reference in stage grpo. In TRL's "
          "DPOConfig the same name is that of pref_beta.",
      .source = "TRL trl/trainer/grpo_config.py and dpo_config.py" },
};

const struct rules rules_reinforcement = { rows, TS_COUNT(rows) };
