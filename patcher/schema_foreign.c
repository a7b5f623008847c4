/* patcher/schema_foreign.c - words of other tools, with the name here. */
#include "config.h"

#include "patcher/schema_rows.h"

static const struct key rows[] = {
    TS_FOREIGN(
        "batch_size", NULL,
        "Axolotl means the total of a step by it, torchtune that of one device; write "
        "per_device_train_batch_size and gradient_accumulation_steps"),
    TS_FOREIGN("micro_batch_size", "per_device_train_batch_size", NULL),
    TS_FOREIGN("base_model", "model_name_or_path", NULL),
    TS_FOREIGN("sequence_len", "cutoff_len", NULL),
    TS_FOREIGN("max_seq_length", "cutoff_len", NULL),
    TS_FOREIGN("num_epochs", "num_train_epochs", NULL),
    TS_FOREIGN("epochs", "num_train_epochs", NULL),
    TS_FOREIGN("max_steps_per_epoch", "max_steps", NULL),
    TS_FOREIGN("lr_scheduler", "lr_scheduler_type", NULL),
    TS_FOREIGN("optimizer", "optim", NULL),
    TS_FOREIGN("lr", "learning_rate", NULL),
    TS_FOREIGN("adapter", "finetuning_type", NULL),
    TS_FOREIGN("lora_r", "lora_rank", NULL),
    TS_FOREIGN("lora_target_modules", "lora_target", NULL),
    TS_FOREIGN("lora_target_linear", "lora_target", "write lora_target: all"),
    TS_FOREIGN("lora_model_dir", "adapter_name_or_path", NULL),
    TS_FOREIGN("val_set_size", "val_size", NULL),
    TS_FOREIGN("datasets", "dataset", NULL),
    TS_FOREIGN("chat_template", "template", NULL),
    TS_FOREIGN("sample_packing", "packing", NULL),
    TS_FOREIGN("attn_implementation", "flash_attn", NULL),
    TS_FOREIGN("flash_attention", "flash_attn", NULL),
    TS_FOREIGN("clip_grad_norm", "max_grad_norm", NULL),
    TS_FOREIGN("gradient_clipping", "max_grad_norm", NULL),
    TS_FOREIGN("enable_activation_checkpointing", "gradient_checkpointing", NULL),
    TS_FOREIGN("load_in_8bit", "quantization_bit", "it would be quantization_bit: 8"),
    TS_FOREIGN("load_in_4bit", "quantization_bit", "it would be quantization_bit: 4"),
    TS_FOREIGN("float16", NULL,
               "half training without a float32 copy in Axolotl; write fp16: "
               "true for float16 compute"),
    TS_FOREIGN("bfloat16", NULL,
               "half training without a float32 copy in Axolotl; write bf16: "
               "true for bfloat16 compute, or pure_bf16: true"),
};
const struct keys schema_foreign_keys = { "Words of other tools", rows, TS_COUNT(rows) };
