/* train/merge_plan.c - a merge as the smallest possible training run. */
#include "config.h"

#include "train/merge_plan.h"

#include "train/model/adapter_check.h"

struct plan merge_plan(const struct plan *plan, const struct model_config *config)
{
    struct plan least = *plan;

    if (least.stage != STAGE_RM) /* whose head is part of the model */
        least.stage = STAGE_SFT;
    least.kd = (struct distillation_settings) { 0 };
    least.generation = (struct generation) { .alone = !plan->adapter_name_or_path };
    if (!plan->adapter_name_or_path)
        least.method = METHOD_LORA; /* without an adapter: no weight is trained */
    else if (config)                /* adapters of the encoder are loaded, too */
        least.freeze_vision_tower =
            !adapter_check_encoder(plan->adapter_name_or_path, config);
    least.quantization_bit = 0; /* the merged weights come from the files */
    least.per_device_train_batch_size = least.per_device_eval_batch_size = 1;
    least.gradient_accumulation_steps = least.cutoff_len = least.ranks = 1;
    return least;
}
