/* patcher/schema_preference.c - of stages that are refused. */
#include "config.h"

#include "patcher/schema_rows.h"

static const char *const losses[] = { "sigmoid", "hinge", "ipo", "kto_pair",
                                      "orpo",    "simpo", NULL };
static const char *const rewards[] = { "lora", "full", "api", NULL };

static const struct key rows[] = {
    TS_IDLE("pref_beta", KEY_REAL, "0.1", "of dpo"),
    TS_IDLE("pref_ftx", KEY_REAL, "0.0", "of dpo"),
    TS_IDLE("pref_bco_weight", KEY_REAL, "0.0", "of dpo"),
    TS_IDLE_OF("pref_loss", losses, "sigmoid", "of dpo"),
    TS_IDLE("dpo_label_smoothing", KEY_REAL, "0.0", "of dpo"),
    TS_IDLE("ld_alpha", KEY_REAL, NULL, "of dpo"),
    TS_IDLE("simpo_gamma", KEY_REAL, "0.5", "of dpo"),
    TS_IDLE("kto_chosen_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("kto_rejected_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("ppo_buffer_size", KEY_INT, "1", "of ppo"),
    TS_IDLE("ppo_epochs", KEY_INT, "4", "of ppo"),
    TS_IDLE("ppo_score_norm", KEY_BOOL, "false", "of ppo"),
    TS_IDLE("ppo_target", KEY_REAL, "6.0", "of ppo"),
    TS_IDLE("ppo_whiten_rewards", KEY_BOOL, "false", "of ppo"),
    TS_IDLE("ref_model", KEY_PATH, NULL, "of dpo and ppo"),
    TS_IDLE("ref_model_adapters", KEY_PATH, NULL, "of dpo and ppo"),
    TS_IDLE("ref_model_quantization_bit", KEY_INT, NULL, "of dpo and ppo"),
    TS_IDLE("reward_model", KEY_PATH, NULL, "of ppo"),
    TS_IDLE("reward_model_adapters", KEY_PATH, NULL, "of ppo"),
    TS_IDLE("reward_model_quantization_bit", KEY_INT, NULL, "of ppo"),
    TS_IDLE_OF("reward_model_type", rewards, "lora", "of ppo"),

    TS_IDLE("dpo_beta", KEY_REAL, "0.1", "of dpo"),
    TS_IDLE("dpo_loss", KEY_TEXT, "sigmoid", "of dpo"),
    TS_IDLE("dpo_ftx", KEY_REAL, "0.0", "of dpo"),
    TS_IDLE("dpo_ref_model", KEY_PATH, NULL, "of dpo"),
    TS_IDLE("dpo_ref_model_checkpoint", KEY_PATH, NULL, "of dpo"),
    TS_IDLE("orpo_beta", KEY_REAL, "0.1", "of orpo"),
    TS_IDLE("kto_beta", KEY_REAL, "0.1", "of kto"),
    TS_IDLE("kto_ftx", KEY_REAL, "0.0", "of kto"),
    TS_IDLE("kto_desirable_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("kto_undesirable_weight", KEY_REAL, "1.0", "of kto"),
    TS_IDLE("ppo_logger", KEY_TEXT, NULL, "of ppo"),
    TS_IDLE("ref_model_checkpoint", KEY_PATH, NULL, "of ppo"),
    TS_IDLE("reward_model_checkpoint", KEY_PATH, NULL, "of ppo"),
};
const struct keys schema_preference_keys = { "Preference and reward training", rows,
                                             TS_COUNT(rows) };
