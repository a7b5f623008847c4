/*
 * patcher/profiles/profile_unsloth.c - the keys of Unsloth 2026.3.1 to 2026.10.9.
 * Written by make_profile.py from the releases; not edited by hand.
 */
#include "config.h"

#include "patcher/profiles/profile.h"

#include "base/size.h"

/* clang-format off */
static const char *const versions[] = {
    "2026.3.1", "2026.3.18", "2026.4.8", "2026.5.10", "2026.6.9", "2026.7.6",
    "2026.8.22", "2026.9.14", "2026.10.9"
};

static const char *const programs[] = {
    "Config"
};

/* name, types, default, values, deprecated, programs, first and last version */
static const struct profile_key keys[] = {
    { "data.dataset", 0x48, "null", NULL, NULL, 0x1, 1, 8 },
    { "data.format_type", 0x08, "auto", "auto alpaca chatml sharegpt", NULL, 0x1, 1, 6 },
    { "data.format_type", 0x08, "auto", "auto alpaca chatml sharegpt conversational raw", NULL, 0x1, 7, 8 },
    { "data.local_dataset", 0x50, "null", NULL, NULL, 0x1, 1, 8 },
    { "logging.enable_tensorboard", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "logging.enable_wandb", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "logging.hf_token", 0x48, "null", NULL, NULL, 0x1, 1, 8 },
    { "logging.tensorboard_dir", 0x08, "runs", NULL, NULL, 0x1, 1, 8 },
    { "logging.wandb_project", 0x08, "unsloth-training", NULL, NULL, 0x1, 1, 8 },
    { "logging.wandb_token", 0x48, "null", NULL, NULL, 0x1, 1, 8 },
    { "lora.finetune_attention_modules", 0x01, "true", NULL, NULL, 0x1, 1, 8 },
    { "lora.finetune_language_layers", 0x01, "true", NULL, NULL, 0x1, 1, 8 },
    { "lora.finetune_mlp_modules", 0x01, "true", NULL, NULL, 0x1, 1, 8 },
    { "lora.finetune_vision_layers", 0x01, "true", NULL, NULL, 0x1, 1, 8 },
    { "lora.lora_alpha", 0x02, "16", NULL, NULL, 0x1, 1, 8 },
    { "lora.lora_dropout", 0x04, "0.0", NULL, NULL, 0x1, 1, 8 },
    { "lora.lora_r", 0x02, "64", NULL, NULL, 0x1, 1, 8 },
    { "lora.target_modules", 0x08, "q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj", NULL, NULL, 0x1, 1, 8 },
    { "lora.use_dora", 0x01, "false", NULL, NULL, 0x1, 5, 8 },
    { "lora.use_loftq", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "lora.use_rslora", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "lora.vision_all_linear", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "model", 0x48, "null", NULL, NULL, 0x1, 1, 8 },
    { "training.batch_size", 0x02, "2", NULL, NULL, 0x1, 1, 8 },
    { "training.gradient_accumulation_steps", 0x02, "4", NULL, NULL, 0x1, 1, 8 },
    { "training.gradient_checkpointing", 0x08, "unsloth", "unsloth true none", NULL, 0x1, 1, 8 },
    { "training.learning_rate", 0x04, "0.0002", NULL, NULL, 0x1, 1, 8 },
    { "training.load_in_4bit", 0x01, "true", NULL, NULL, 0x1, 1, 8 },
    { "training.max_seq_length", 0x02, "2048", NULL, NULL, 0x1, 1, 8 },
    { "training.max_steps", 0x02, "0", NULL, NULL, 0x1, 1, 8 },
    { "training.num_epochs", 0x02, "3", NULL, NULL, 0x1, 1, 8 },
    { "training.output_dir", 0x100, "?", NULL, NULL, 0x1, 1, 8 },
    { "training.packing", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "training.random_seed", 0x02, "3407", NULL, NULL, 0x1, 1, 8 },
    { "training.save_steps", 0x02, "0", NULL, NULL, 0x1, 1, 8 },
    { "training.train_on_completions", 0x01, "false", NULL, NULL, 0x1, 1, 8 },
    { "training.training_type", 0x08, "lora", "lora full", NULL, 0x1, 1, 8 },
    { "training.warmup_steps", 0x02, "5", NULL, NULL, 0x1, 1, 8 },
    { "training.weight_decay", 0x04, "0.01", NULL, NULL, 0x1, 1, 8 },
};
/* clang-format on */

const struct profile_table profile_unsloth_table = {
    .versions = versions,
    .version_count = TS_COUNT(versions),
    .programs = programs,
    .program_count = TS_COUNT(programs),
    .keys = keys,
    .key_count = TS_COUNT(keys),
};
