/* patcher/schema/schema_keys.c - the sections of the table, in the order of the
 * manual. */
#include "config.h"

#include "patcher/schema/schema_keys.h"

static const struct keys *const job_sections[] = {
    &schema_model_keys,
    &schema_precision_keys,
    &schema_optimizer_keys,
    &schema_data_keys,
    &schema_media_keys,
    &schema_output_keys,
    &schema_hardware_keys,
    &schema_distill_keys,
    &schema_preference_keys,
    &schema_reinforcement_keys,
    &schema_generate_keys,
    &schema_foreign_keys,
    NULL,
};
const struct vocabulary schema_job = { .of = "of a job", .sections = job_sections };

static const struct keys *const block_sections[] = { &schema_block_keys, NULL };
const struct vocabulary schema_block = { .of = "of the block trainspool",
                                         .sections = block_sections };
