/*
 * patcher/rules/refusals_accelerate.c - what the Accelerator of the Trainer refuses.
 *
 * Compared with accelerator.py (__init__) and utils/modeling.py (get_grad_scaler) of the
 * releases 0.20.3, 0.27 to 0.30, 0.33, 0.34 and 1.3 to 1.15.
 */
#include "config.h"

#include "patcher/rules/refusals.h"

#include "base/size.h"
#include "patcher/rules/trainer_file.h"

/* DeepSpeed has a scaler of its own, which the Accelerator does not create. */
#define FP16_ON_APPLE TS_TRUE("fp16"), TS_BACKEND("mps"), TS_MISSING("deepspeed")

static const struct refusal rows[] = {
    { .when = { FP16_ON_APPLE },
      .since = "0.30.0.dev0",
      .before = "1.11.0.dev0",
      .says = "fp16 mixed precision requires a GPU (not 'mps').",
      .advice = "use Accelerate 1.11 or later with PyTorch 2.8 or later, or remove fp16",
      .reported = "TS101" },
    { .when = { FP16_ON_APPLE, TS_BEFORE("torch", "2.5.0") },
      .since = "1.11.0.dev0",
      .says = "fp16 mixed precision with MPS device requires a Pytorch >= 2.5.0",
      .advice = "use PyTorch 2.8 or later, or remove fp16",
      .reported = "TS101" },
    { .when = { FP16_ON_APPLE, TS_VERSION("torch", "2.5.0"),
                TS_BEFORE("torch", "2.8.0") },
      .since = "1.11.0.dev0",
      .says = "Grad Scaler with MPS device requires a Pytorch >= 2.8.0",
      .advice = "use PyTorch 2.8 or later, or remove fp16",
      .reported = "TS101" },
};

static bool applies(const struct rule_context *context)
{
    return context->plan->external && !trainer_file_is_foreign(context);
}

const struct refusals refusals_accelerate = {
    .program = "Accelerate",
    .package = PACKAGE_ACCELERATE,
    .oldest = "0.20.0.dev0",
    .applies = applies,
    .rows = rows,
    .count = TS_COUNT(rows),
};
