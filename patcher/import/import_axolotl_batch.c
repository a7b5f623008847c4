/*
 * patcher/import/import_axolotl_batch.c - the batch of an Axolotl step, and what several
 * GPUs make of it.
 *
 * axolotl-ai-cloud/axolotl at 067b021c: utils/config, deepspeed_configs.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

/* Return ", zero_stage: 3" for full_shard of FSDP, the default, and for Axolotl's own files
 * of DeepSpeed, which have the stage in their names; "" if the stage is not known. */
static const char *stage_of(struct importing *im)
{
    const struct entry *entry = import_find(im, "deepspeed");
    const struct node *value = entry ? node_value(entry->value) : NULL;
    const char *stage = value ? strstr(value->text, "zero") : NULL;

    if (!entry)
        return ", zero_stage: 3";
    return stage && stage[4] >= '1' && stage[4] <= '3'
               ? arena_printf(im->arena, ", zero_stage: %c", stage[4])
               : "";
}

void import_axolotl_batch(struct importing *im)
{
    double micro = import_number(im, "micro_batch_size", 1);
    double total = import_number(im, "batch_size", 0);

    if (import_find(im, "gradient_accumulation_steps")) {
        import_copy(im, "gradient_accumulation_steps", "gradient_accumulation_steps",
                    NULL);
        import_mark_dropped(im, "batch_size", IMPORT_IDLE,
                            "the batch of a step follows from micro_batch_size and "
                            "gradient_accumulation_steps");
    } else if (total >= 1 && micro >= 1 && total <= 1e6 && micro <= 1e6) {
        long steps = (long)total / (long)micro;

        import_set(im, "gradient_accumulation_steps",
                   arena_printf(im->arena, "%ld", steps > 0 ? steps : 1),
                   arena_printf(im->arena,
                                "batch_size %.0f is the total per step: %.0f / %.0f",
                                total, total, micro));
        import_mark_carried(im, "batch_size", "gradient_accumulation_steps");
    } else {
        import_mark_idle(im, "batch_size", "not a number of samples from 1 to 1000000");
        import_set_default(im, "gradient_accumulation_steps", "1", NULL);
    }
    if (import_find(im, "deepspeed") || import_find(im, "fsdp") ||
        import_find(im, "fsdp_config"))
        import_remark(
            im, "per_device_train_batch_size",
            "per GPU: for N GPUs, add trainspool: {ranks: N%s}; a step then has "
            "N times as many samples",
            stage_of(im));
}
