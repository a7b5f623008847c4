/*
 * patcher/rules/refusals_recipes.c - what the recipes of torchtune and the Trainer of
 * Lightning refuse at the start.
 *
 * Compared with recipes/ and training/precision.py of torchtune 0.1.0 to 0.6.1, and with
 * pytorch/trainer/ and fabric/connector.py of Lightning 2.0.0 to 2.6.6.
 */
#include "config.h"

#include "patcher/rules/refusals.h"

#include "base/size.h"
#include "patcher/rules/rules_context.h"

static bool is_torchtune(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_TORCHTUNE;
}

static bool is_lightning(const struct rule_context *context)
{
    return context->view->trainer == TRAINER_LIGHTNING;
}

/* Recipes that train have an optimizer; generation, evaluation and quantization accept
 * fp16.  Recipes with LoRA ignore optimizer_in_bwd. */
static const struct refusal torchtune[] = {
    { .when = { TS_IN("dtype", "fp16"), TS_GIVEN("optimizer"),
                TS_MISSING("model.lora_rank") },
      .says = "full fp16 training is not supported with this recipe. Please use bf16 or "
              "fp32 instead.",
      .advice = "use bf16, or fp32 on a card without bf16" },
    { .when = { TS_IN("dtype", "fp16"), TS_GIVEN("optimizer"),
                TS_GIVEN("model.lora_rank") },
      .says = "fp16 precision is not supported in this recipe. Please use fp32 or bf16.",
      .advice = "use bf16, or fp32 on a card without bf16" },
    { .when = { TS_OTHER("dtype", "fp16 bf16 fp32 fp64") },
      .says = "must be one of fp16, bf16, fp32, fp64 for finetuning.",
      .advice = "use bf16 or fp32" },
    { .when = { TS_TRUE("optimizer_in_bwd"), TS_GIVEN("clip_grad_norm"),
                TS_MISSING("model.lora_rank") },
      .since = "0.4.0.dev0",
      .says = "Gradient clipping is not supported with optimizer in bwd.",
      .advice = "set clip_grad_norm: null, or optimizer_in_bwd: false" },
    { .when = { TS_TRUE("optimizer_in_bwd"), TS_ABOVE("gradient_accumulation_steps", "1"),
                TS_MISSING("model.lora_rank") },
      .says = "Gradient accumulation is not supported with optimizer in bwd.",
      .advice = "set gradient_accumulation_steps: 1, or optimizer_in_bwd: false" },
    { .when = { TS_TRUE("enable_activation_offloading"), TS_IN("device", "cpu") },
      .since = "0.4.0.dev0",
      .says = "enable_activation_offloading should only be True when training on CUDA",
      .advice = "set enable_activation_offloading: false" },
    { .when = { TS_TRUE("enable_activation_offloading"),
                TS_FALSE("enable_activation_checkpointing") },
      .since = "0.4.0.dev0",
      .says = "enable_activation_offloading should only be True when "
              "enable_activation_checkpointing is True",
      .advice = "set enable_activation_checkpointing: true" },
};

const struct refusals refusals_torchtune = {
    .program = "torchtune",
    .package = PACKAGE_TORCHTUNE,
    .oldest = "0.1.0.dev0",
    .applies = is_torchtune,
    .rows = torchtune,
    .count = TS_COUNT(torchtune),
};

/* pytorch/trainer/setup.py, _determine_batch_limits: from 0 to 1, or a whole number.
 * fast_dev_run replaces the limits. */
#define OUT_OF_RANGE(name) \
    "You have passed invalid value for " name ", it has to be in [0.0, 1.0] or an int."
#define LIMIT(name, ...)                                                          \
    { .when = { TS_BELOW("trainer." name, "0"), TS_FALSE("trainer.fast_dev_run"), \
                __VA_ARGS__ },                                                    \
      .says = OUT_OF_RANGE(name) },                                               \
    {                                                                             \
        .when = { TS_ABOVE("trainer." name, "1"), TS_FRACTION("trainer." name),   \
                  TS_FALSE("trainer.fast_dev_run"), __VA_ARGS__ },                \
        .says = OUT_OF_RANGE(name)                                                \
    }

/* pytorch/trainer/trainer.py, Trainer.__init__ */
#define BAREBONES(term, name)                                          \
    {                                                                  \
        .when = { TS_TRUE("trainer.barebones"), term },                \
        .says = "`Trainer(barebones=True, " name "=...)` was passed.", \
        .advice = "set barebones: false, or remove " name              \
    }

static const struct refusal_default lightning_defaults[] = {
    { "trainer.check_val_every_n_epoch", "1" },
    { "trainer.max_steps", "-1" },
    { "trainer.overfit_batches", "0.0" },
    { "trainer.reload_dataloaders_every_n_epochs", "0" },
};

static const struct refusal lightning[] = {
    { .when = { TS_OTHER("trainer.precision",
                         "16 32 64 bf16 16-true 16-mixed bf16-true bf16-mixed 32-true "
                         "64-true transformer-engine transformer-engine-float16") },
      .says = "is invalid. Allowed precision values: ('transformer-engine', "
              "'transformer-engine-float16', '16-true', '16-mixed', 'bf16-true', "
              "'bf16-mixed', '32-true', '64-true', 64, 32, 16, '64', '32', '16', 'bf16')",
      .advice = "use bf16-mixed or 16-mixed" },
    { .when = { TS_LIST("trainer.precision") },
      .says = "Does not validate against any of the Union subtypes",
      .advice = "use bf16-mixed or 16-mixed" },
    { .when = { TS_OTHER("trainer.gradient_clip_algorithm",
                         "norm value Norm Value NORM VALUE") },
      .says = "is invalid. Allowed algorithms: ['value', 'norm'].",
      .advice = "use norm or value" },
    { .when = { TS_OTHER("trainer.profiler",
                         "simple advanced pytorch xla Simple Advanced PyTorch XLA") },
      .says =
          "When passing string value for the `profiler` parameter of `Trainer`, it can "
          "only be one of ['simple', 'advanced', 'pytorch', 'xla']" },
    { .when = { TS_BELOW("trainer.fast_dev_run", "0") },
      .says = "is not a valid configuration. It should be >= 0." },
    { .when = { TS_MISSING("trainer.reload_dataloaders_every_n_epochs") },
      .says = "`reload_dataloaders_every_n_epochs` should be an int >= 0" },
    { .when = { TS_BELOW("trainer.reload_dataloaders_every_n_epochs", "0") },
      .says = "`reload_dataloaders_every_n_epochs` should be an int >= 0" },
    { .when = { TS_BELOW("trainer.max_epochs", "-1") },
      .says = "`max_epochs` must be a non-negative integer or -1." },
    { .when = { TS_MISSING("trainer.max_steps") },
      .says = "'<' not supported between instances of 'NoneType' and 'int'",
      .advice = "-1 means no limit" },
    { .when = { TS_BELOW("trainer.max_steps", "-1") },
      .says = "`max_steps` must be a non-negative integer or -1 (infinite steps)." },
    LIMIT("limit_train_batches", TS_FALSE("trainer.overfit_batches")),
    LIMIT("limit_val_batches", TS_FALSE("trainer.overfit_batches")),
    LIMIT("limit_test_batches", { 0 }),
    LIMIT("limit_predict_batches", { 0 }),
    LIMIT("val_check_interval", { 0 }),
    { .when = { TS_MISSING("trainer.overfit_batches") },
      .says = "'>' not supported between instances of 'NoneType' and 'int'" },
    { .when = { TS_BELOW("trainer.overfit_batches", "0") },
      .says = OUT_OF_RANGE("overfit_batches") },
    { .when = { TS_ABOVE("trainer.overfit_batches", "1"),
                TS_FRACTION("trainer.overfit_batches") },
      .says = OUT_OF_RANGE("overfit_batches") },
    { .when = { TS_MISSING("trainer.check_val_every_n_epoch"),
                TS_ABOVE("trainer.val_check_interval", "-1"),
                TS_NO_INT("trainer.val_check_interval") },
      .says =
          "`val_check_interval` should be an integer when `check_val_every_n_epoch=None`." },
    BAREBONES(TS_TRUE("trainer.enable_checkpointing"), "enable_checkpointing"),
    BAREBONES(TS_TRUE("trainer.logger"), "logger"),
    BAREBONES(TS_TRUE("trainer.enable_progress_bar"), "enable_progress_bar"),
    BAREBONES(TS_TRUE("trainer.log_every_n_steps"), "log_every_n_steps"),
    BAREBONES(TS_TRUE("trainer.enable_model_summary"), "enable_model_summary"),
    BAREBONES(TS_TRUE("trainer.num_sanity_val_steps"), "num_sanity_val_steps"),
    BAREBONES(TS_TRUE("trainer.fast_dev_run"), "fast_dev_run"),
    BAREBONES(TS_TRUE("trainer.detect_anomaly"), "detect_anomaly"),
    BAREBONES(TS_GIVEN("trainer.profiler"), "profiler"),
};

const struct refusals refusals_lightning = {
    .program = "Lightning",
    .package = PACKAGE_LIGHTNING,
    .oldest = "2.0.0.dev0",
    .applies = is_lightning,
    .rows = lightning,
    .count = TS_COUNT(lightning),
    .defaults = lightning_defaults,
    .default_count = TS_COUNT(lightning_defaults),
};
