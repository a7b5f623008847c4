/* patcher/schema/schema_preference.c - pairs of answers, one of them preferred: stage dpo; and
 * what the stages want that are refused. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* In the order of enum preference_loss, kernels/ops.h. */
static const char *const losses[] = { "sigmoid", "hinge", "ipo", "orpo", "simpo", NULL };
static const char *const rewards[] = { "lora", "full", "api", NULL };

static const struct advice pair_advice[] = {
    { "kto_pair", "TRL took it out of DPO's losses, and LLaMA-Factory stops at it" },
    { NULL, NULL },
};

static const struct key rows[] = {
    { TS_USED("pref_loss", KEY_ENUM, "sigmoid"), .values = losses,
      .into = TS_INTO(preference.loss), .meant = "dpo=sigmoid cdpo=sigmoid",
      .rejects = "kto_pair", .advice = pair_advice,
      .help = "of stage dpo: sigmoid is DPO, orpo and simpo have no reference model" },
    { TS_USED("pref_beta", KEY_REAL, "0.1"), .max = TS_NO_END, .positive = true,
      .into = TS_INTO(preference.beta),
      .help =
          "beta of the loss: the larger, the nearer the model stays to the reference; "
          "of orpo the weight of the odds ratio" },
    { TS_USED("pref_ftx", KEY_REAL, "0.0"), .max = TS_NO_END,
      .into = TS_INTO(preference.ftx),
      .help = "weight of the cross-entropy of the answer that was chosen, which is "
              "added to the loss" },
    { TS_USED("dpo_label_smoothing", KEY_REAL, "0.0"), .max = 0.5,
      .into = TS_INTO(preference.label_smoothing),
      .help = "of pref_loss sigmoid: the share of pairs that may be the wrong way round "
              "(cDPO)" },
    { TS_USED("simpo_gamma", KEY_REAL, "0.5"), .max = TS_NO_END,
      .into = TS_INTO(preference.simpo_gamma),
      .help =
          "of pref_loss simpo: by how much the answer that was chosen shall be ahead" },
    { TS_USED("ref_model", KEY_PATH, NULL), .into = TS_INTO(preference.reference),
      .help = "folder of the model that answers are held against, frozen and computed "
              "in the format of its files. Not given: with lora the model without its "
              "adapter, else the model as it begins, a second time" },
    { TS_USED("ref_model_adapters", KEY_PATH, NULL), .into = TS_INTO(preference.adapter),
      .help = "folder of a LoRA adapter, merged into ref_model as it is loaded" },
    TS_UNLIKE("ref_model_quantization_bit", KEY_INT, NULL, "bits of the reference",
              "a reference is computed in the format of its files"),
    TS_TOLD("pref_bco_weight", "TS707", KEY_REAL, "0.0", "of dpo"),
    TS_TOLD("ld_alpha", "TS707", KEY_REAL, NULL, "of dpo"),
    TS_IDLE("kto_chosen_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("kto_rejected_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("ppo_buffer_size", KEY_INT, "1", "of ppo"),
    TS_IDLE("ppo_epochs", KEY_INT, "4", "of ppo"),
    TS_IDLE("ppo_score_norm", KEY_BOOL, "false", "of ppo"),
    TS_IDLE("ppo_target", KEY_REAL, "6.0", "of ppo"),
    TS_IDLE("ppo_whiten_rewards", KEY_BOOL, "false", "of ppo"),
    TS_IDLE("reward_model", KEY_PATH, NULL, "of ppo"),
    TS_IDLE("reward_model_adapters", KEY_PATH, NULL, "of ppo"),
    TS_IDLE("reward_model_quantization_bit", KEY_INT, NULL, "of ppo"),
    TS_IDLE_OF("reward_model_type", rewards, "lora", "of ppo"),

    /* LLaMA-Factory's own names before 0.8.0, of 2024, and before 0.3.0 */
    TS_ALIAS("dpo_beta", "pref_beta", NULL),
    TS_ALIAS("dpo_loss", "pref_loss", NULL),
    TS_ALIAS("dpo_ftx", "pref_ftx", NULL),
    TS_ALIAS("orpo_beta", "pref_beta", NULL),
    TS_ALIAS("dpo_ref_model", "ref_model", NULL),
    TS_ALIAS("dpo_ref_model_checkpoint", "ref_model_adapters", NULL),
    TS_ALIAS("ref_model_checkpoint", "ref_model_adapters", NULL),
    TS_IDLE("kto_beta", KEY_REAL, "0.1", "of kto"),
    TS_IDLE("kto_ftx", KEY_REAL, "0.0", "of kto"),
    TS_IDLE("kto_desirable_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("kto_undesirable_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("ppo_logger", KEY_TEXT, NULL, "of ppo"),
    TS_IDLE("reward_model_checkpoint", KEY_PATH, NULL, "of ppo"),
};
const struct keys schema_preference_keys = { "Preference and reward training", rows,
                                             TS_COUNT(rows) };
