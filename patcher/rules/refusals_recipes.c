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
 * fp16. */
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
    { .when = { TS_TRUE("optimizer_in_bwd"), TS_GIVEN("clip_grad_norm") },
      .since = "0.4.0.dev0",
      .says = "Gradient clipping is not supported with optimizer in bwd.",
      .advice = "set clip_grad_norm: null, or optimizer_in_bwd: false" },
    { .when = { TS_TRUE("optimizer_in_bwd"),
                TS_ABOVE("gradient_accumulation_steps", "1") },
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

static const struct refusal lightning[] = {
    { .when = { TS_OTHER("trainer.precision",
                         "16 32 64 bf16 16-true 16-mixed bf16-true bf16-mixed 32-true "
                         "64-true transformer-engine transformer-engine-float16") },
      .says = "is invalid. Allowed precision values: ('transformer-engine', "
              "'transformer-engine-float16', '16-true', '16-mixed', 'bf16-true', "
              "'bf16-mixed', '32-true', '64-true', 64, 32, 16, '64', '32', '16', 'bf16')",
      .advice = "use bf16-mixed or 16-mixed" },
    { .when = { TS_OTHER("trainer.gradient_clip_algorithm", "norm value") },
      .says = "is invalid. Allowed algorithms: ['value', 'norm'].",
      .advice = "use norm or value" },
};

const struct refusals refusals_lightning = {
    .program = "Lightning",
    .package = PACKAGE_LIGHTNING,
    .oldest = "2.0.0.dev0",
    .applies = is_lightning,
    .rows = lightning,
    .count = TS_COUNT(lightning),
};
