/*
 * patcher/rules/refusals_trl.c - what TRL's configurations and trainers refuse without
 * looking at the model or the data.
 *
 * Compared with ModelConfig, SFTConfig, DPOConfig, GRPOConfig and GKDConfig
 * (__post_init__), and with sft_trainer.py, dpo_trainer.py and
 * kto_trainer.py (__init__), of the releases
 * 0.9.2 to 1.16.
 */
#include "config.h"

#include "patcher/rules/refusals.h"

#include "base/size.h"
#include "patcher/rules/rules_context.h"

static const struct refusal rows[] = {
    { .when = { TS_TRUE("load_in_8bit"), TS_TRUE("load_in_4bit") },
      .says = "You can't use 8 bit and 4 bit precision at the same time",
      .advice = "remove one of them" },

    /* SFTTrainer */
    { .when = { TS_NOT_IN("loss_type", "nll dft"), TS_SCRIPT("sft") },
      .since = "0.23.0.dev0",
      .before = "0.26.0.dev0",
      .says = "Supported values are 'nll' and 'dft'.",
      .advice = "use nll or dft" },
    { .when = { TS_NOT_IN("loss_type", "nll dft"), TS_FALSE("use_liger_kernel"),
                TS_SCRIPT("sft") },
      .since = "0.26.0.dev0",
      .before = "1.4.0.dev0",
      .says = "Supported values are 'nll' and 'dft'.",
      .advice = "use nll or dft" },
    { .when = { TS_NOT_IN("loss_type", "nll dft chunked_nll"),
                TS_FALSE("use_liger_kernel"), TS_SCRIPT("sft") },
      .since = "1.4.0.dev0",
      .before = "1.15.0.dev0",
      .says = "Supported values are 'nll', 'dft', and 'chunked_nll'.",
      .advice = "use nll, dft or chunked_nll" },
    { .when = { TS_IN("loss_type", "chunked_nll"), TS_TRUE("use_liger_kernel"),
                TS_SCRIPT("sft") },
      .since = "1.4.0.dev0",
      .before = "1.15.0.dev0",
      .says = "`loss_type='chunked_nll'` is not compatible with `use_liger_kernel=True`.",
      .advice = "remove use_liger_kernel" },
    { .when = { TS_NOT_IN("loss_type", "nll dft chunked_nll"), TS_SCRIPT("sft") },
      .since = "1.15.0.dev0",
      .says = "Supported values are 'nll' and 'dft'.",
      .advice = "use nll or dft" },
    { .when = { TS_TRUE("padding_free"), TS_FALSE("packing"), TS_GIVEN("max_length"),
                TS_SCRIPT("sft") },
      .since = "1.0.0.dev0",
      .says = "When `padding_free=True` without packing, `max_length` is not enforced.",
      .advice = "set packing: true, or max_length: null" },
    { .when = { TS_TRUE("gradient_checkpointing_kwargs.selective"),
                TS_FALSE("gradient_checkpointing") },
      .since = "1.15.0.dev0",
      .says = "`gradient_checkpointing_kwargs={'selective': True}` requires "
              "`gradient_checkpointing=True`.",
      .advice = "set gradient_checkpointing: true" },
    { .when = { TS_TRUE("gradient_checkpointing_kwargs.selective"),
                TS_TRUE("gradient_checkpointing_kwargs.use_reentrant") },
      .since = "1.15.0.dev0",
      .says = "`gradient_checkpointing_kwargs={'selective': True}` requires "
              "non-reentrant gradient checkpointing.",
      .advice = "set use_reentrant: false in gradient_checkpointing_kwargs" },

    /* DPOTrainer */
    { .when = { TS_IN("loss_type", "kto_pair"), TS_SCRIPT("dpo") },
      .before = "0.29.0.dev0",
      .says = "Support for kto_pair has been removed in DPOTrainer. Please use "
              "KTOTrainer.",
      .advice = "use KTOTrainer" },
    { .when = { TS_OTHER_COUNT("loss_weights", "loss_type"), TS_SCRIPT("dpo") },
      .since = "0.20.0.dev0",
      .says = "`loss_weights` must have the same length as `loss_type` when combining "
              "multiple losses.",
      .said = "must match number of loss types",
      .reworded = "0.29.0.dev0",
      .advice = "write one weight for each loss" },
    { .when = { TS_TRUE("sync_ref_model"), TS_TRUE("precompute_ref_log_probs") },
      .says = "You cannot use `sync_ref_model=True` together with "
              "`precompute_ref_log_probs=True`.",
      .said = "You cannot use `precompute_ref_log_probs=True` with TR-DPO method.",
      .reworded = "0.29.0.dev0",
      .advice = "remove one of them" },
    { .when = { TS_TRUE("sync_ref_model"), TS_TRUE("use_peft"), TS_SCRIPT("dpo") },
      .says = "You passed `sync_ref_model=True` while using a PEFT model, which is "
              "currently not supported.",
      .said = "You currently cannot use `ref_model=None` with TR-DPO method.",
      .reworded = "0.29.0.dev0",
      .advice = "remove sync_ref_model" },
    { .when = { TS_TRUE("precompute_ref_log_probs"), TS_ZERO3 },
      .before = "0.29.0.dev0",
      .says = "You cannot use `precompute_ref_log_probs=True` with Deepspeed ZeRO-3.",
      .advice = "use ZeRO 2, or remove precompute_ref_log_probs" },
    { .when = { TS_TRUE("use_weighting"), TS_IN("loss_type", "aot aot_unpaired"),
                TS_SCRIPT("dpo") },
      .since = "0.29.0.dev0",
      .says = "WPO-style weighting is not implemented for 'aot' or 'aot_unpaired'",
      .advice = "remove use_weighting" },
    { .when = { TS_IN("loss_type", "exo_pair"), TS_FALSE("label_smoothing"),
                TS_SCRIPT("dpo") },
      .since = "0.29.0.dev0",
      .says = "Label smoothing must be greater than 0.0 when using 'exo_pair' loss.",
      .advice = "set label_smoothing: 1.0e-3" },
    { .when = { TS_TRUE("precompute_ref_log_probs"), TS_TRUE("use_liger_kernel") },
      .since = "0.29.0.dev0",
      .before = "1.14.0.dev0",
      .says = "Liger DPO loss does not support precomputing reference log probabilities.",
      .advice = "remove one of them" },
    { .when = { TS_SEVERAL("loss_type"), TS_TRUE("use_liger_kernel"), TS_SCRIPT("dpo") },
      .since = "0.29.0.dev0",
      .before = "1.14.0.dev0",
      .says = "Multiple loss types are not yet supported when using Liger kernel.",
      .advice = "remove use_liger_kernel" },
    { .when = { TS_TRUE("use_liger_kernel"), TS_TRUE("use_peft"), TS_SCRIPT("dpo") },
      .since = "1.4.0.dev0",
      .before = "1.8.0.dev0",
      .says = "Liger DPO loss is not implemented for PEFT models.",
      .advice = "remove use_liger_kernel" },

    /* GRPOConfig, KTOTrainer and GKDConfig */
    { .when = { TS_BELOW("num_generations", "2"), TS_SCRIPT("grpo") },
      .since = "0.18.0.dev0",
      .says = "GRPO requires at least 2 generations per prompt to calculate the "
              "advantages.",
      .advice = "set num_generations to 2 or more" },
    { .when = { TS_GIVEN("steps_per_generation"), TS_GIVEN("generation_batch_size"),
                TS_SCRIPT("grpo") },
      .since = "0.18.0.dev0",
      .says = "'generation_batch_size' and 'steps_per_generation' can not be both "
              "configured at the same time",
      .advice = "remove one of them" },
    { .when = { TS_GIVEN("delta"), TS_TRUE("use_liger_loss"), TS_SCRIPT("grpo") },
      .since = "0.18.0.dev0",
      .before = "0.25.0.dev0",
      .says = "Liger loss does not support two-sided GRPO loss yet.",
      .advice = "remove one of them" },
    { .when = { TS_GIVEN("delta"), TS_TRUE("use_liger_kernel"), TS_SCRIPT("grpo") },
      .since = "0.25.0.dev0",
      .before = "1.4.0.dev0",
      .says = "Liger kernel does not support two-sided GRPO loss yet.",
      .advice = "remove one of them" },
    { .when = { TS_GIVEN("log_completions_hub_repo"), TS_FALSE("log_completions") },
      .since = "0.28.0.dev0",
      .says = "log_completions_hub_repo is set, but log_completions is False.",
      .advice = "set log_completions: true" },
    { .when = { TS_TRUE("auto_find_batch_size"), TS_SCRIPT("grpo") },
      .since = "1.9.0.dev0",
      .says = "auto_find_batch_size is not supported by GRPO",
      .advice = "remove it and lower per_device_train_batch_size" },
    { .when = { TS_BELOW("per_device_train_batch_size", "2"), TS_MISSING("loss_type"),
                TS_SCRIPT("kto") },
      .since = "0.12.0.dev0",
      .says = "Actual (not effective) batch size must be > 1.",
      .advice = "set per_device_train_batch_size to 2 or more" },
    { .when = { TS_BELOW("lmbda", "0"), TS_SCRIPT("gkd") },
      .since = "0.11.0.dev0",
      .says = "lmbda must be in the range [0.0, 1.0]." },
    { .when = { TS_ABOVE("lmbda", "1"), TS_SCRIPT("gkd") },
      .since = "0.11.0.dev0",
      .says = "lmbda must be in the range [0.0, 1.0]." },
    { .when = { TS_BELOW("beta", "0"), TS_SCRIPT("gkd") },
      .since = "0.11.0.dev0",
      .says = "beta must be in the range [0.0, 1.0]." },
    { .when = { TS_ABOVE("beta", "1"), TS_SCRIPT("gkd") },
      .since = "0.11.0.dev0",
      .says = "beta must be in the range [0.0, 1.0]." },
};

static const struct refusal_default defaults[] = {
    { "gradient_checkpointing", "true" }, /* since 0.19 */
    { "max_length", "1024" },
    { "per_device_train_batch_size", "8" },
};

/* Of a script only the keys of a job are read, not loss_type and others that rows ask. */
static bool applies(const struct rule_context *context)
{
    return rule_is_trl(context) && !context->document->script;
}

const struct refusals refusals_trl = {
    .program = "TRL",
    .package = PACKAGE_TRL,
    .oldest = "0.9.2.dev0",
    .applies = applies,
    .rows = rows,
    .count = TS_COUNT(rows),
    .defaults = defaults,
    .default_count = TS_COUNT(defaults),
};
