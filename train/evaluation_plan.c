/* train/evaluation_plan.c - an evaluation without training: no weight is trained, and
 * nothing is kept for a backward pass. */
#include "config.h"

#include "train/evaluation_plan.h"

struct plan evaluation_plan(const struct plan *plan)
{
    struct plan only = *plan;

    /* the loss of distillation has the teacher's part only in training */
    if (only.stage == STAGE_DISTILL)
        only.stage = STAGE_SFT;
    only.kd = (struct distillation_settings) { 0 };
    only.anchor = 0;
    only.method = METHOD_LORA; /* merges the adapter, if there is one */
    only.create_new_adapter = false;
    only.generation.alone = true;
    only.per_device_train_batch_size = only.per_device_eval_batch_size;
    only.gradient_accumulation_steps = only.ranks = 1;
    only.precision.has_frozen = true;
    /* matrices are kept in the compute format anyway */
    if (!plan_is_quantized(plan))
        only.precision.frozen = FORMAT_FP32;
    only.precision.trainable = FORMAT_FP32;
    return only;
}
