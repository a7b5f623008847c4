/* patcher/schema/schema_other_tools.c - keys of other tools, with the key to use
 * instead. */
#include "config.h"

#include "patcher/schema/schema_rows.h"

/* A key that the rule `id` reports. */
#define TS_FOREIGN_RULE(key, id, whose, to, advice)                             \
    {                                                                           \
        .name = key, .type = KEY_BOOL, .use = KEY_OTHER_TOOL, .rule = id,       \
        .default_value = "false", .tools = whose, .now = to, .instead = advice, \
        .help = "key of another tool"                                           \
    }

/* An argument of TRL's scripts without an equivalent. */
#define TRL(key) TS_FOREIGN(key, "TRL", NULL, "trainspool has no such key")

static const struct key rows[] = {
    TS_FOREIGN("batch_size", "Axolotl and torchtune", NULL,
               "it is the total of a step in Axolotl and that of one device in "
               "torchtune; use per_device_train_batch_size and "
               "gradient_accumulation_steps"),
    TS_FOREIGN("micro_batch_size", "Axolotl", "per_device_train_batch_size", NULL),
    TS_FOREIGN("eval_batch_size", "Axolotl", "per_device_eval_batch_size", NULL),
    TS_FOREIGN("per_device_batch_size", "other tools", "per_device_train_batch_size",
               NULL),
    TS_FOREIGN("train_batch_size", "DeepSpeed", NULL,
               "it is the total of a step in DeepSpeed; use "
               "per_device_train_batch_size and gradient_accumulation_steps"),
    TS_FOREIGN("base_model", "Axolotl", "model_name_or_path", NULL),
    TS_FOREIGN("model", "ms-swift and LLaMA-Factory v1", "model_name_or_path", NULL),
    TS_FOREIGN("model_id", "Hugging Face examples", "model_name_or_path", NULL),
    TS_FOREIGN("model_path", "other tools", "model_name_or_path", NULL),
    TS_FOREIGN("model_name", "other tools", "model_name_or_path", NULL),
    TS_FOREIGN("student", "other tools", "model_name_or_path", NULL),
    TS_FOREIGN("teacher", "other tools", "teacher_model_name_or_path", NULL),
    TS_FOREIGN("teacher_model", "other tools", "teacher_model_name_or_path", NULL),
    TS_FOREIGN("sequence_len", "Axolotl", "cutoff_len", NULL),
    TS_FOREIGN("max_seq_length", "TRL and Unsloth", "cutoff_len", NULL),
    TS_FOREIGN("max_seq_len", "torchtune", "cutoff_len", NULL),
    TS_FOREIGN("num_epochs", "Axolotl", "num_train_epochs", NULL),
    TS_FOREIGN("epochs", "torchtune", "num_train_epochs", NULL),
    TS_FOREIGN("max_steps_per_epoch", "torchtune", "max_steps", NULL),
    TS_FOREIGN("lr_scheduler", "Axolotl and torchtune", "lr_scheduler_type", NULL),
    TS_FOREIGN("optimizer", "Axolotl and torchtune", "optim", NULL),
    TS_FOREIGN("lr", "other tools", "learning_rate", NULL),
    TS_FOREIGN("adapter", "Axolotl", "finetuning_type", NULL),
    TS_FOREIGN("use_peft", "TRL", "finetuning_type",
               "use finetuning_type: lora if it is true, full if it is false"),
    TS_FOREIGN("lora_r", "Axolotl and TRL", "lora_rank", NULL),
    TS_FOREIGN("lora_target_modules", "Axolotl and TRL", "lora_target", NULL),
    TS_FOREIGN("target_modules", "PEFT and ms-swift", "lora_target", NULL),
    TS_FOREIGN("target_parameters", "PEFT", "lora_target_parameters", NULL),
    TS_FOREIGN("lora_target_linear", "Axolotl", "lora_target", "use lora_target: all"),
    TS_FOREIGN("lora_modules_to_save", "Axolotl and TRL", "additional_target", NULL),
    TS_FOREIGN("modules_to_save", "PEFT", "additional_target", NULL),
    TS_FOREIGN("lora_model_dir", "Axolotl", "adapter_name_or_path", NULL),
    TS_FOREIGN("val_set_size", "Axolotl", "val_size", NULL),
    TS_FOREIGN("datasets", "Axolotl and TRL", "dataset", NULL),
    TS_FOREIGN("dataset_name", "TRL", "dataset", NULL),
    TS_FOREIGN("dataset_num_proc", "TRL", "preprocessing_num_workers", NULL),
    TS_FOREIGN("chat_template", "Axolotl and TRL", "template", NULL),
    TS_FOREIGN("sample_packing", "Axolotl", "packing", NULL),
    TS_FOREIGN("train_on_inputs", "Axolotl", "train_on_prompt", NULL),
    TS_FOREIGN("attn_implementation", "transformers, Axolotl and TRL", "flash_attn",
               NULL),
    TS_FOREIGN("flash_attention", "Axolotl", "flash_attn", NULL),
    TS_FOREIGN("clip_grad_norm", "torchtune", "max_grad_norm", NULL),
    TS_FOREIGN("gradient_clipping", "DeepSpeed", "max_grad_norm", NULL),
    TS_FOREIGN("gradient_clip_val", "Lightning", "max_grad_norm", NULL),
    TS_FOREIGN("enable_activation_checkpointing", "torchtune", "gradient_checkpointing",
               NULL),
    TS_FOREIGN("log_every_n_steps", "torchtune and Lightning", "logging_steps", NULL),
    TS_FOREIGN("train_type", "ms-swift", "finetuning_type", NULL),
    TS_FOREIGN("wandb_project", "Axolotl", "run_name",
               "metrics stay on this machine; use run_name to name the run"),
    TS_FOREIGN("wandb_entity", "Axolotl", NULL, "metrics stay on this machine"),
    TS_FOREIGN("wandb_run_id", "Axolotl", NULL, "metrics stay on this machine"),
    TS_FOREIGN("wandb_name", "Axolotl", "run_name", NULL),
    TS_FOREIGN("wandb_watch", "Axolotl", NULL, "metrics stay on this machine"),
    TS_FOREIGN("wandb_log_model", "Axolotl", NULL, "metrics stay on this machine"),
    TRL("dataset_mixture"),
    TRL("dataset_mixer"),
    TRL("dataset_config"),
    TRL("dataset_splits"),
    TRL("hub_model_revision"),
    TRL("dataset_train_split"),
    TRL("dataset_test_split"),
    TRL("dataset_streaming"),
    TRL("test_split_size"),
    TRL("lora_task_type"),
    TRL("bnb_4bit_quant_type"),
    TRL("bnb_4bit_quant_storage"),
    TRL("use_bnb_nested_quant"),
    TRL("model_init_kwargs"),
    TRL("router_aux_loss_coef"),
    TRL("chat_template_path"),
    TRL("dataset_text_field"),
    TRL("dataset_kwargs"),
    TRL("eos_token"),
    TRL("pad_token"),
    TRL("truncation_mode"),
    TRL("shuffle_dataset"),
    TRL("packing_strategy"),
    TRL("padding_free"),
    TRL("pad_to_multiple_of"),
    TRL("eval_packing"),
    TRL("completion_only_loss"),
    TRL("assistant_only_loss"),
    TRL("ignore_bias_buffers"),
    TRL("max_prompt_length"),
    TS_FOREIGN_RULE("load_in_8bit", "TS611", "Axolotl and TRL", "quantization_bit",
                    "it corresponds to quantization_bit: 8"),
    TS_FOREIGN_RULE("load_in_4bit", "TS611", "Axolotl and TRL", "quantization_bit",
                    "it corresponds to quantization_bit: 4"),
    TS_FOREIGN_RULE("float16", "TS119", "Axolotl", NULL,
                    "it trains in float16 without a float32 copy of the weights; use "
                    "fp16: true for float16 compute"),
    TS_FOREIGN_RULE("bfloat16", "TS119", "Axolotl", NULL,
                    "it means bf16: true there: bfloat16 compute under autocast, over "
                    "bfloat16 weights without a float32 copy; use bf16: true, which "
                    "keeps float32 weights, or pure_bf16: true"),
};
const struct keys schema_foreign_keys = { "Keys of other tools", rows, TS_COUNT(rows) };
