/* patcher/schema/schema_preference.c - keys of preference training, and of the stages
 * that are not supported. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* In the order of enum preference_loss, kernels/ops.h. */
static const char *const losses[] = { "sigmoid", "hinge", "ipo", "orpo", "simpo", NULL };
static const char *const rewards[] = { "lora", "full", "api", NULL };

static const struct advice pair_advice[] = {
    { "kto_pair", "TRL removed it from the losses of DPO, and LLaMA-Factory rejects it" },
    { NULL, NULL },
};

static const struct key rows[] = {
    { TS_USED("pref_loss", KEY_ENUM, "sigmoid"), .values = losses,
      .into = TS_FIELD(preference.loss), .synonyms = "dpo=sigmoid cdpo=sigmoid",
      .rejects = "kto_pair", .advice = pair_advice,
      .help = "with stage: dpo, the loss: sigmoid is DPO; orpo and simpo use no "
              "reference model",
      .manual = "The section PREFERENCES has the formulas." },
    { TS_USED("pref_beta", KEY_REAL, "0.1"), .max = TS_NO_MAX, .positive = true,
      .into = TS_FIELD(preference.beta),
      .help = "beta of the preference loss: a larger value keeps the model closer "
              "to the reference; with orpo, the weight of the odds ratio" },
    { TS_USED("pref_ftx", KEY_REAL, "0.0"), .max = TS_NO_MAX,
      .into = TS_FIELD(preference.ftx),
      .help = "weight of the cross-entropy of the chosen answer, which is added to "
              "the preference loss" },
    { TS_USED("dpo_label_smoothing", KEY_REAL, "0.0"), .max = 0.5,
      .into = TS_FIELD(preference.label_smoothing),
      .help = "with pref_loss: sigmoid, the assumed share of pairs whose answers "
              "are swapped (cDPO)" },
    { TS_USED("simpo_gamma", KEY_REAL, "0.5"), .max = TS_NO_MAX,
      .into = TS_FIELD(preference.simpo_gamma),
      .help = "with pref_loss: simpo, the target margin by which the chosen answer "
              "must lead" },
    { TS_USED("ref_model", KEY_PATH, NULL), .into = TS_FIELD(preference.reference),
      .help = "folder of the reference model, which is frozen and computed in the "
              "format of its files",
      .manual = "By default, the reference is the model without its adapter with "
                "finetuning_type: lora, and otherwise a second copy of the model as "
                "it is before training." },
    { TS_USED("ref_model_adapters", KEY_PATH, NULL), .into = TS_FIELD(preference.adapter),
      .help = "folder of a LoRA adapter that is merged into ref_model when it is "
              "loaded" },
    TS_DIFFERS("ref_model_quantization_bit", KEY_INT, NULL,
               "quantization of the reference model",
               "the reference model is computed in the format of its files"),
    TS_REPORTED("pref_bco_weight", "TS707", KEY_REAL, "0.0",
                "DPO setting, not supported"),
    TS_REPORTED("ld_alpha", "TS707", KEY_REAL, NULL, "DPO setting, not supported"),
    { TS_USED("kto_chosen_weight", KEY_REAL, "1.0"), .max = TS_NO_MAX,
      .into = TS_FIELD(preference.chosen_weight),
      .help = "with stage: kto, the weight of good answers in the loss" },
    { TS_USED("kto_rejected_weight", KEY_REAL, "1.0"), .max = TS_NO_MAX,
      .into = TS_FIELD(preference.rejected_weight),
      .help = "with stage: kto, the weight of bad answers in the loss" },
    { TS_USED("center_rewards_coefficient", KEY_REAL, "0.0"), .max = TS_NO_MAX,
      .into = TS_FIELD(preference.center),
      .help = "with stage: rm, the weight of a term of the loss that keeps scores "
              "near 0: the squared sum of both scores of a pair" },
    TS_IGNORED("ppo_buffer_size", KEY_INT, "1", "PPO setting"),
    TS_IGNORED("ppo_epochs", KEY_INT, "4", "PPO setting"),
    TS_IGNORED("ppo_score_norm", KEY_BOOL, "false", "PPO setting"),
    TS_IGNORED("ppo_target", KEY_REAL, "6.0", "PPO setting"),
    TS_IGNORED("ppo_whiten_rewards", KEY_BOOL, "false", "PPO setting"),
    TS_IGNORED("reward_model", KEY_PATH, NULL, "PPO setting"),
    TS_IGNORED("reward_model_adapters", KEY_PATH, NULL, "PPO setting"),
    TS_IGNORED("reward_model_quantization_bit", KEY_INT, NULL, "PPO setting"),
    TS_IGNORED_ENUM("reward_model_type", rewards, "lora", "PPO setting"),

    /* LLaMA-Factory's own names before 0.8.0, of 2024, and before 0.3.0 */
    TS_ALIAS("dpo_beta", "pref_beta", NULL),
    TS_ALIAS("dpo_loss", "pref_loss", NULL),
    TS_ALIAS("dpo_ftx", "pref_ftx", NULL),
    TS_ALIAS("orpo_beta", "pref_beta", NULL),
    TS_ALIAS("dpo_ref_model", "ref_model", NULL),
    TS_ALIAS("dpo_ref_model_checkpoint", "ref_model_adapters", NULL),
    TS_ALIAS("ref_model_checkpoint", "ref_model_adapters", NULL),
    TS_ALIAS("kto_beta", "pref_beta", NULL),
    TS_ALIAS("kto_ftx", "pref_ftx", NULL),
    TS_ALIAS("kto_desirable_weight", "kto_chosen_weight", NULL),
    TS_ALIAS("kto_undesirable_weight", "kto_rejected_weight", NULL),
    TS_IGNORED("ppo_logger", KEY_TEXT, NULL, "PPO setting"),
    TS_IGNORED("reward_model_checkpoint", KEY_PATH, NULL, "PPO setting"),
};
const struct keys schema_preference_keys = { "Preference and reward training", rows,
                                             TS_COUNT(rows) };
