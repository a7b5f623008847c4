/*
 * patcher/rules/refusals_transformers.c - what TrainingArguments and the Trainer of
 * transformers refuse.
 *
 * Compared with training_args.py (__post_init__, _validate_args, _process_fsdp_args),
 * trainer.py (__init__) and trainer_callback.py of the releases 4.37 to 5.24.  TS101,
 * TS205, TS506, TS511 and TS705 report the other checks there.
 */
#include "config.h"

#include "patcher/rules/refusals.h"

#include "base/size.h"
#include "patcher/rules/trainer_file.h"

static const struct refusal rows[] = {
    { .when = { TS_TRUE("fp16"), TS_TRUE("bf16") },
      .says = "At most one of fp16 and bf16 can be True, but not both",
      .reported = "TS101 TS014" },
    { .when = { TS_TRUE("fp16"), TS_BACKEND("mps"),
                TS_BEFORE("transformers", "4.41.0.dev0") },
      .says = "FP16 Mixed precision training with AMP or APEX (`--fp16`) and FP16 half "
              "precision evaluation (`--fp16_full_eval`) can only be used on CUDA",
      .advice =
          "remove fp16, or use transformers 4.41 or later: Accelerate decides there",
      .reported = "TS101" },
    { .when = { TS_TRUE("fp16_full_eval"), TS_TRUE("bf16_full_eval") },
      .says = "At most one of fp16 and bf16 can be True for full eval, but not both",
      .advice = "remove one of them" },
    { .when = { TS_IN("half_precision_backend", "apex"), TS_TRUE("bf16") },
      .before = "5.0.0.dev0",
      .says = " `--half_precision_backend apex`: GPU bf16 is not supported by apex.",
      .advice = "remove half_precision_backend" },
    { .when = { TS_IN("eval_strategy", "steps"), TS_FALSE("eval_steps"),
                TS_BELOW("logging_steps", "1e-300") },
      .says = "evaluation strategy IntervalStrategy.STEPS requires either non-zero "
              "--eval_steps or --logging_steps",
      .advice = "set eval_steps",
      .reported = "TS705" },
    { .when = { TS_IN("lr_scheduler_type", "reduce_lr_on_plateau"),
                TS_IN("eval_strategy", "no") },
      .says = "lr_scheduler_type reduce_lr_on_plateau requires an eval strategy",
      .advice = "set eval_strategy: steps" },
    { .when = { TS_IN("lr_scheduler_type", "greedy"), TS_IN("eval_strategy", "no") },
      .since = "5.4.0.dev0",
      .says = "lr_scheduler_type greedy requires an eval strategy",
      .advice = "set eval_strategy: steps" },
    { .when = { TS_TRUE("load_best_model_at_end"), TS_IN("save_strategy", "best"),
                TS_NOT_IN("eval_strategy", "best") },
      .before = "4.48.0.dev0",
      .says = "--load_best_model_at_end requires the save and eval strategy to match",
      .advice = "set save_strategy to the value of eval_strategy" },
    { .when = { TS_IN("save_strategy", "best"), TS_MISSING("metric_for_best_model"),
                TS_FALSE("load_best_model_at_end"),
                TS_NOT_IN("lr_scheduler_type", "reduce_lr_on_plateau greedy") },
      .since = "4.47.0.dev0",
      .says = "`args.metric_for_best_model` must be provided when using 'best' "
              "save_strategy",
      .advice = "set metric_for_best_model: loss" },
    { .when = { TS_BELOW("warmup_ratio", "0") },
      .before = "5.0.0.dev0",
      .says = "warmup_ratio must lie in range [0,1]",
      .advice = "use a value from 0 to 1",
      .reported = "TS705" },
    { .when = { TS_ABOVE("warmup_ratio", "1") },
      .before = "5.0.0.dev0",
      .says = "warmup_ratio must lie in range [0,1]",
      .advice = "use a value from 0 to 1",
      .reported = "TS705" },
    { .when = { TS_BELOW("warmup_steps", "0") },
      .since = "4.42.0.dev0",
      .says = "Got warmup_steps = .., Expected value warmup_steps >= 0",
      .said = "warmup_steps must be an integer or a float",
      .reworded = "5.23.0.dev0",
      .advice = "use 0 or a positive number",
      .reported = "TS705" },
    { .when = { TS_GIVEN("dataloader_prefetch_factor"),
                TS_FALSE("dataloader_num_workers") },
      .since = "4.38.0.dev0",
      .says = "--dataloader_prefetch_factor can only be set when data is loaded in a "
              "different process",
      .advice = "set dataloader_num_workers, or remove dataloader_prefetch_factor" },
    { .when = { TS_GIVEN("torch_empty_cache_steps"),
                TS_NO_INT("torch_empty_cache_steps") },
      .since = "4.50.0.dev0",
      .says = "`torch_empty_cache_steps` must be an integer bigger than 0",
      .advice = "use a whole number of steps",
      .reported = "TS704 TS705" },
    { .when = { TS_BELOW("torch_empty_cache_steps", "1") },
      .since = "4.50.0.dev0",
      .says = "`torch_empty_cache_steps` must be an integer bigger than 0",
      .advice = "use a whole number of steps",
      .reported = "TS704 TS705" },
    { .when = { TS_ONLY("fsdp", "offload") },
      .before = "5.10.0.dev0",
      .says = "`--fsdp offload` can't work on its own. It needs to be added to `--fsdp "
              "full_shard` or `--fsdp shard_grad_op`.",
      .advice = "write fsdp: full_shard offload" },
    { .when = { TS_IN("fsdp", "full_shard"), TS_IN("fsdp", "shard_grad_op") },
      .before = "5.10.0.dev0",
      .says = "`--fsdp full_shard` is not compatible with `--fsdp shard_grad_op`.",
      .advice = "remove one of them" },
    { .when = { TS_IN("fsdp", "hybrid_shard hybrid_shard_zero2 no_shard"),
                TS_NOT_IN("fsdp_config.version", "1") },
      .since = "5.10.0.dev0",
      .says = "is only available with FSDP1. Set `fsdp_config['version'] = 1` to use it",
      .advice = "use full_shard or shard_grad_op, or set version: 1 in fsdp_config" },
    { .when = { TS_OTHER("fsdp", "full_shard shard_grad_op offload auto_wrap "
                                 "hybrid_shard hybrid_shard_zero2 no_shard true True "
                                 "false False") },
      .says = "is not a valid FSDPOption, please select one of ['full_shard', "
              "'shard_grad_op', 'no_shard', 'hybrid_shard', 'hybrid_shard_zero2', "
              "'offload', 'auto_wrap']",
      .reported = "TS705" },
    { .when = { TS_GIVEN("fsdp_config.transformer_layer_cls_to_wrap"),
                TS_ABOVE("fsdp_config.min_num_params", "0"), TS_TRUE("fsdp") },
      .before = "5.10.0.dev0",
      .says = "`min_num_params` and `transformer_layer_cls_to_wrap` are mutually "
              "exclusive.",
      .advice = "remove one of them from fsdp_config" },
    { .when = { TS_TRUE("fsdp_config.cpu_ram_efficient_loading"),
                TS_FALSE("fsdp_config.sync_module_states"),
                TS_GIVEN("fsdp_config.sync_module_states"), TS_TRUE("fsdp") },
      .since = "4.41.0.dev0",
      .before = "5.10.0.dev0",
      .says = "`sync_module_states` must be `\"True\"` if `cpu_ram_efficient_loading` is "
              "`\"True\"`",
      .advice = "set sync_module_states: true in fsdp_config" },
    { .when = { TS_TRUE("fsdp"), TS_GIVEN("deepspeed") },
      .says = "Using --fsdp xxx together with --deepspeed is not possible, deactivate "
              "one of those flags.",
      .advice = "remove one of them" },
    { .when = { TS_TRUE("group_by_length"), TS_TRUE("streaming") },
      .before = "5.2.0.dev0",
      .says = "the `--group_by_length` option is only available for `Dataset`, not "
              "`IterableDataset",
      .advice = "remove one of them" },
};

/* Defaults of TrainingArguments, 4.37 to 5.24. */
static const struct refusal_default defaults[] = {
    { "dataloader_num_workers", "0" }, { "eval_strategy", "no" },
    { "fsdp_config.version", "2" },    { "logging_steps", "500" },
    { "lr_scheduler_type", "linear" }, { "save_strategy", "steps" },
};

static bool applies(const struct rule_context *context)
{
    return context->plan->external && !trainer_file_is_foreign(context);
}

const struct refusals refusals_transformers = {
    .program = "transformers",
    .package = PACKAGE_TRANSFORMERS,
    .oldest = "4.37.0.dev0",
    .applies = applies,
    .rows = rows,
    .count = TS_COUNT(rows),
    .defaults = defaults,
    .default_count = TS_COUNT(defaults),
};
