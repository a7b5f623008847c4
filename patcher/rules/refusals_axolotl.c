/*
 * patcher/rules/refusals_axolotl.c - what Axolotl's configuration refuses without looking
 * at the model, the data or the machine.
 *
 * Compared with AxolotlInputConfig of the releases 0.5.2 to 0.21.0: its validators are in
 * utils/config/models/input/v0_4_1/__init__.py, since 0.8 in utils/schemas/.
 */
#include "config.h"

#include "patcher/rules/refusals.h"

#include "base/size.h"
#include "patcher/rules/rules_context.h"

static bool applies(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_AXOLOTL;
}

#define PACKED_EVAL                                                            \
    "eval_table_size and eval_sample_packing are not supported together with " \
    "sample_packing."
#define TWO_SIZES                                                                        \
    "At least two of micro_batch_size, gradient_accumulation_steps, batch_size must be " \
    "set"
#define EIGHT_BITS "FSDP2 not compatible with"
#define FSDP1_ONLY                                                                      \
    "fsdp_config.sharding_strategy is an FSDP1-only option and FSDP1 has been removed " \
    "from Axolotl."
#define REMOVE_ONE "remove one of them"

static const struct refusal rows[] = {
    /* Data */
    { .when = { TS_MISSING("datasets"), TS_MISSING("pretraining_dataset") },
      .says = "either datasets or pretraining_dataset is required",
      .advice = "name the data with datasets" },
    { .when = { TS_TRUE("test_datasets"), TS_TRUE("val_set_size") },
      .says = "non-zero val_set_size should not be used with test_datasets configuration",
      .advice = "set val_set_size: 0, or remove test_datasets" },
    { .when = { TS_TRUE("sample_packing"), TS_TRUE("eval_table_size"),
                TS_MISSING("eval_sample_packing") },
      .says = PACKED_EVAL,
      .advice = "set eval_sample_packing: false" },
    { .when = { TS_TRUE("sample_packing"), TS_TRUE("eval_table_size"),
                TS_TRUE("eval_sample_packing") },
      .says = PACKED_EVAL,
      .advice = "set eval_sample_packing: false" },
    { .when = { TS_TRUE("do_causal_lm_eval"), TS_TRUE("eval_sample_packing") },
      .says = "do_causal_lm_eval is enabled, eval_sample_packing must be set to False",
      .advice = "set eval_sample_packing: false" },
    { .when = { TS_TRUE("do_causal_lm_eval"), TS_TRUE("sample_packing"),
                TS_MISSING("eval_sample_packing"), TS_FALSE("eval_table_size") },
      .says = "do_causal_lm_eval is enabled, eval_sample_packing must be set to False",
      .advice = "set eval_sample_packing: false" },
    { .when = { TS_TRUE("pretraining_dataset"), TS_FALSE("max_steps") },
      .says = "max_steps must be set when using iterable pretraining_dataset",
      .advice = "set max_steps" },
    { .when = { TS_TRUE("max_packed_sequence_len") },
      .says = "`max_packed_sequence_len` is no longer supported",
      .advice = "use sample_packing" },
    { .when = { TS_TRUE("rope_scaling") },
      .says = "`rope_scaling` is no longer supported, it should now be be a key under "
              "`model_config`",
      .advice = "move it into overrides_of_model_config" },

    /* Batch and schedule */
    { .when = { TS_TRUE("gradient_accumulation_steps"), TS_TRUE("batch_size") },
      .says = "please set only one of gradient_accumulation_steps or batch_size",
      .advice = "remove batch_size" },
    { .when = { TS_FALSE("micro_batch_size"), TS_FALSE("gradient_accumulation_steps") },
      .before = "0.19.0.dev0",
      .says = TWO_SIZES,
      .advice = "set micro_batch_size and gradient_accumulation_steps" },
    { .when = { TS_FALSE("gradient_accumulation_steps"), TS_FALSE("batch_size") },
      .before = "0.19.0.dev0",
      .says = TWO_SIZES,
      .advice = "set gradient_accumulation_steps" },
    { .when = { TS_FALSE("micro_batch_size"), TS_FALSE("batch_size") },
      .before = "0.19.0.dev0",
      .says = TWO_SIZES,
      .advice = "set micro_batch_size" },
    { .when = { TS_TRUE("batch_size"), TS_FALSE("micro_batch_size"),
                TS_FALSE("gradient_accumulation_steps") },
      .since = "0.19.0.dev0",
      .says = TWO_SIZES,
      .advice = "set micro_batch_size" },
    { .when = { TS_TRUE("warmup_steps"), TS_TRUE("warmup_ratio") },
      .says = "warmup_steps and warmup_ratio are mutually exclusive",
      .advice = REMOVE_ONE },
    { .when = { TS_TRUE("lr_groups"), TS_TRUE("loraplus_lr_ratio") },
      .since = "0.8.0.dev0",
      .says = "lr_groups and loraplus_lr_ratio cannot be used together.",
      .advice = REMOVE_ONE },
    { .when = { TS_TRUE("noisy_embedding_alpha"), TS_TRUE("neftune_noise_alpha") },
      .says =
          "noisy_embedding_alpha is deprecated, use neftune_noise_alpha; both are set",
      .advice = "remove noisy_embedding_alpha" },

    /* Saving and evaluation */
    { .when = { TS_TRUE("save_steps"), TS_TRUE("save_strategy"),
                TS_NOT_IN("save_strategy", "steps") },
      .says =
          "save_strategy and save_steps mismatch. Please set save_strategy to 'steps' "
          "or remove save_steps.",
      .advice = "remove save_steps" },
    { .when = { TS_TRUE("saves_per_epoch"), TS_TRUE("save_steps") },
      .says = "save_steps and saves_per_epoch are mutually exclusive and cannot be used "
              "together.",
      .advice = REMOVE_ONE },
    { .when = { TS_TRUE("eval_steps"), TS_TRUE("eval_strategy"),
                TS_NOT_IN("eval_strategy", "steps") },
      .says =
          "eval_strategy and eval_steps mismatch. Please set eval_strategy to 'steps' "
          "or remove eval_steps.",
      .advice = "remove eval_steps" },
    { .when = { TS_FALSE("val_set_size"), TS_GIVEN("val_set_size"), TS_TRUE("eval_steps"),
                TS_FALSE("test_datasets") },
      .says = "eval_steps and eval_strategy are not supported with val_set_size == 0",
      .advice = "remove eval_steps" },
    { .when = { TS_FALSE("val_set_size"), TS_GIVEN("val_set_size"),
                TS_TRUE("eval_strategy"), TS_NOT_IN("eval_strategy", "no"),
                TS_FALSE("test_datasets") },
      .says = "eval_steps and eval_strategy are not supported with val_set_size == 0",
      .advice = "remove eval_strategy" },
    { .when = { TS_TRUE("evals_per_epoch"), TS_TRUE("eval_steps") },
      .says = "eval_steps and evals_per_epoch are mutually exclusive and cannot be used "
              "together.",
      .advice = REMOVE_ONE },
    { .when = { TS_TRUE("evals_per_epoch"), TS_TRUE("eval_strategy"),
                TS_NOT_IN("eval_strategy", "steps") },
      .says = "eval_strategy must be empty or set to `steps` when used with "
              "evals_per_epoch.",
      .advice = "remove eval_strategy" },
    { .when = { TS_TRUE("early_stopping_patience"), TS_FALSE("save_steps") },
      .says = "`early_stopping_patience` requires save_steps and eval_steps to be set.",
      .advice = "set save_steps" },
    { .when = { TS_TRUE("early_stopping_patience"), TS_FALSE("eval_steps") },
      .says = "`early_stopping_patience` requires save_steps and eval_steps to be set.",
      .advice = "set eval_steps" },
    { .when = { TS_TRUE("do_bench_eval"), TS_FALSE("evals_per_epoch"),
                TS_FALSE("eval_steps") },
      .says = "do_bench_eval requires evals_per_epoch or eval_steps to be set.",
      .advice = "set evals_per_epoch" },
    { .when = { TS_TRUE("push_dataset_to_hub"), TS_FALSE("hf_use_auth_token") },
      .says = "Require cfg.hf_use_auth_token to be True for push_dataset_to_hub",
      .advice = "set hf_use_auth_token: true" },

    /* Adapters and quantization */
    { .when = { TS_TRUE("load_in_8bit"), TS_FALSE("adapter"), TS_FALSE("inference") },
      .says =
          "load_in_8bit and load_in_4bit are not supported without setting an adapter",
      .advice = "set adapter: lora, or remove load_in_8bit" },
    { .when = { TS_TRUE("load_in_4bit"), TS_FALSE("adapter"), TS_FALSE("inference") },
      .says =
          "load_in_8bit and load_in_4bit are not supported without setting an adapter",
      .advice = "set adapter: qlora, or remove load_in_4bit" },
    { .when = { TS_IN("adapter", "qlora"), TS_TRUE("load_in_8bit"),
                TS_FALSE("merge_lora") },
      .says = "Can't load qlora in 8bit",
      .advice = "set load_in_4bit: true and remove load_in_8bit" },
    { .when = { TS_IN("adapter", "qlora"), TS_TRUE("gptq"), TS_FALSE("merge_lora") },
      .says = "Can't load qlora if gptq",
      .advice = "set adapter: lora" },
    { .when = { TS_IN("adapter", "qlora"), TS_FALSE("load_in_4bit"),
                TS_FALSE("merge_lora") },
      .says = "Require cfg.load_in_4bit to be True for qlora",
      .advice = "set load_in_4bit: true" },
    { .when = { TS_IN("adapter", "lora qlora"), TS_TRUE("flash_attn_fuse_mlp") },
      .says = "Fused modules are not supported with LoRA/QLoRA",
      .advice = "remove flash_attn_fuse_mlp" },
    { .when = { TS_TRUE("peft_layers_pattern"), TS_FALSE("peft_layers_to_transform") },
      .says = "peft_layers_pattern requires peft_layers_to_transform to be set",
      .advice = "set peft_layers_to_transform" },
    { .when = { TS_TRUE("unfrozen_parameters"), TS_TRUE("adapter"),
                TS_TRUE("peft_layers_to_transform") },
      .says = "`unfrozen_parameters` used with `peft_layers_to_transform` can have "
              "unexpected behavior.",
      .advice = "remove unfrozen_parameters" },
    { .when = { TS_TRUE("unfrozen_parameters"),
                TS_TRUE("gradient_checkpointing_kwargs.use_reentrant") },
      .says = "`use_reentrant` must be false when used with partially frozen model.",
      .advice = "set use_reentrant: false in gradient_checkpointing_kwargs" },

    /* Preference training */
    { .when = { TS_TRUE("sample_packing"), TS_TRUE("rl") },
      .says = "`sample_packing: true` does not work with RLHF training",
      .advice = "set sample_packing: false" },
    { .when = { TS_IN("rl", "kto"), TS_TRUE("eval_sample_packing") },
      .since = "0.6.0.dev0",
      .says = "sample_packing is not supported with kto",
      .advice = "remove eval_sample_packing" },
    { .when = { TS_IN("rl", "kto"), TS_MISSING("remove_unused_columns") },
      .since = "0.6.0.dev0",
      .says = "Set `remove_unused_columns: False` when using kto",
      .advice = "set remove_unused_columns: false" },
    { .when = { TS_IN("rl", "kto"), TS_TRUE("remove_unused_columns") },
      .since = "0.6.0.dev0",
      .says = "Set `remove_unused_columns: False` when using kto",
      .advice = "set remove_unused_columns: false" },

    /* Optimizer and kernels */
    { .when = { TS_IN("optimizer", "adamw_8bit adamw_bnb_8bit"), TS_TRUE("fsdp_config"),
                TS_IN("fsdp_version", "2") },
      .since = "0.8.1.dev0",
      .before = "0.20.0.dev0",
      .says = EIGHT_BITS,
      .advice = "use adamw_torch_8bit" },
    { .when = { TS_IN("optimizer", "adamw_8bit adamw_bnb_8bit"), TS_TRUE("fsdp_config") },
      .since = "0.20.0.dev0",
      .says = EIGHT_BITS,
      .advice = "use adamw_torch_8bit" },
    { .when = { TS_TRUE("fsdp") },
      .since = "0.20.0.dev0",
      .says = "The top-level `fsdp` list is no longer supported, it configured FSDP1 "
              "sharding strategies.",
      .advice = "use fsdp_config" },
    { .when = { TS_GIVEN("fsdp_config.sharding_strategy") },
      .since = "0.20.0.dev0",
      .says = FSDP1_ONLY,
      .advice = "use reshard_after_forward" },
    { .when = { TS_GIVEN("fsdp_config.fsdp_sharding_strategy") },
      .since = "0.20.0.dev0",
      .says = FSDP1_ONLY,
      .advice = "use reshard_after_forward" },
    { .when = { TS_IN("optimizer", "muon"), TS_TRUE("deepspeed") },
      .since = "0.8.0.dev0",
      .says = "Muon optimizer is currently incompatible with DeepSpeed",
      .advice = "use FSDP 2, or another optimizer" },
    { .when = { TS_TRUE("pretraining_dataset"), TS_TRUE("include_tokens_per_second") },
      .since = "0.11.0.dev0",
      .says =
          "pretraining_dataset and include_tokens_per_second cannot be used together.",
      .advice = "remove include_tokens_per_second" },
};

const struct refusals refusals_axolotl = {
    .program = "Axolotl",
    .package = PACKAGE_AXOLOTL,
    .oldest = "0.5.2.dev0",
    .applies = applies,
    .rows = rows,
    .count = TS_COUNT(rows),
};
