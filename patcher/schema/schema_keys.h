/* patcher/schema/schema_keys.h - the sections of the key table, one file each; for
 * schema_*.c and tests. */
#ifndef PATCHER_SCHEMA_SCHEMA_KEYS_H
#define PATCHER_SCHEMA_SCHEMA_KEYS_H

#include "patcher/schema/schema.h"

extern const struct keys schema_model_keys, schema_precision_keys, schema_optimizer_keys,
    schema_data_keys, schema_media_keys, schema_output_keys, schema_hardware_keys,
    schema_distill_keys, schema_preference_keys, schema_reinforcement_keys,
    schema_generate_keys, schema_foreign_keys, schema_block_keys;

/* Keys of maps that are values (struct key: members); schema_nested.c. */
extern const struct vocabulary schema_schedule, schema_accelerator, schema_checkpointing,
    schema_fsdp;

#endif
