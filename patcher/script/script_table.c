/* patcher/script/script_table.c - which calls of a script set which keys of a job. */
#include "config.h"

#include "patcher/script/script_internal.h"

#include <string.h>

#include "base/size.h"
#include "base/text.h"

/* Classes and functions, by the last word of their names.
 *
 * transformers training_args.py and training_args_seq2seq.py; TRL 0.8 to 0.24, trainer/
 * *_config.py; Unsloth unsloth/trainer.py; Sentence Transformers training_args.py; PEFT
 * mapping.py and utils/other.py; Accelerate accelerator.py; PyTorch torch/amp. */
static const struct script_class classes[] = {
    { "TrainingArguments", ROLE_ARGUMENTS, true, NULL, "transformers", NULL },
    { "Seq2SeqTrainingArguments", ROLE_ARGUMENTS, true, NULL, "transformers", NULL },
    { "UnslothTrainingArguments", ROLE_ARGUMENTS, false, NULL, NULL, NULL },
    { "SentenceTransformerTrainingArguments", ROLE_ARGUMENTS, false, NULL, NULL, NULL },
    { "GaudiTrainingArguments", ROLE_ARGUMENTS, false, NULL, NULL, NULL },
    { "SFTConfig", ROLE_ARGUMENTS, false, NULL, "trl", "sft" },
    { "DPOConfig", ROLE_ARGUMENTS, false, "dpo", "trl", "dpo" },
    { "ORPOConfig", ROLE_ARGUMENTS, false, "dpo", "trl", "orpo" },
    { "CPOConfig", ROLE_ARGUMENTS, false, "dpo", "trl", "cpo" },
    { "KTOConfig", ROLE_ARGUMENTS, false, "kto", "trl", "kto" },
    { "RewardConfig", ROLE_ARGUMENTS, false, "rm", "trl", "reward" },
    { "GKDConfig", ROLE_ARGUMENTS, false, NULL, "trl", "gkd" },
    { "GRPOConfig", ROLE_ARGUMENTS, false, NULL, "trl", "grpo" },
    { "OnlineDPOConfig", ROLE_ARGUMENTS, false, NULL, "trl", "online_dpo" },
    { "PRMConfig", ROLE_ARGUMENTS, false, NULL, "trl", "prm" },
    { "BCOConfig", ROLE_ARGUMENTS, false, NULL, "trl", "bco" },
    { "RLOOConfig", ROLE_ARGUMENTS, false, NULL, "trl", "rloo" },
    { "PPOConfig", ROLE_ARGUMENTS, false, NULL, "trl", "ppo" },
    { "NashMDConfig", ROLE_ARGUMENTS, false, NULL, "trl", "nash_md" },
    { "XPOConfig", ROLE_ARGUMENTS, false, NULL, "trl", "xpo" },
    { "LoraConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "LoKrConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "LoHaConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "AdaLoraConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "IA3Config", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "VeraConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "PromptTuningConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "PrefixTuningConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "PromptEncoderConfig", ROLE_ADAPTER, false, NULL, NULL, NULL },
    { "BitsAndBytesConfig", ROLE_QUANTIZATION, false, NULL, NULL, NULL },
    { "get_peft_model", ROLE_ADAPTED, false, NULL, NULL, NULL },
    { "inject_adapter_in_model", ROLE_ADAPTED, false, NULL, NULL, NULL },
    { "prepare_model_for_kbit_training", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "prepare_model_for_int8_training", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "prepare", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "DataParallel", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "DistributedDataParallel", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "DDP", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "compile", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "for_training", ROLE_WRAPPER, false, NULL, NULL, NULL },
    { "GradScaler", ROLE_SCALER, false, NULL, NULL, NULL },
    { "autocast", ROLE_AUTOCAST, false, NULL, NULL, NULL },
    { "Accelerator", ROLE_ACCELERATOR, false, NULL, NULL, NULL },
    { "AdamW", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "Adam", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "NAdam", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "RAdam", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "SGD", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "RMSprop", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "Adagrad", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "Adafactor", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "AdamW8bit", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "PagedAdamW8bit", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "Adam8bit", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "Lion", ROLE_OPTIMIZER, false, NULL, NULL, NULL },
    { "clip_grad_norm_", ROLE_CLIP, false, NULL, NULL, NULL },
    { "clip_grad_norm", ROLE_CLIP, false, NULL, NULL, NULL },
    { "clip_grad_value_", ROLE_CLIP, false, NULL, NULL, NULL },
};

/* Arguments that a job calls by another name, or that have a position. */
static const struct script_key keys[] = {
    { ROLE_ARGUMENTS, "output_dir", 0, "output_dir" },
    { ROLE_ARGUMENTS, "dataset_num_proc", -1, "preprocessing_num_workers" },
    { ROLE_ARGUMENTS, "max_seq_length", -1, "cutoff_len" },
    { ROLE_ARGUMENTS, "max_length", -1, "cutoff_len" },
    { ROLE_ADAPTER, "r", 0, "lora_rank" },
    { ROLE_ADAPTER, "lora_alpha", -1, "lora_alpha" },
    { ROLE_ADAPTER, "lora_dropout", -1, "lora_dropout" },
    { ROLE_ADAPTER, "target_modules", -1, "lora_target" },
    { ROLE_ADAPTER, "target_parameters", -1, "lora_target_parameters" },
    { ROLE_ADAPTER, "modules_to_save", -1, "additional_target" },
    { ROLE_ADAPTER, "use_gradient_checkpointing", -1, "gradient_checkpointing" },
    { ROLE_ADAPTER, "use_rslora", -1, "use_rslora" },
    { ROLE_ADAPTER, "use_dora", -1, "use_dora" },
    { ROLE_ADAPTED, "autocast_adapter_dtype", -1, "autocast_adapter_dtype" },
    { ROLE_QUANTIZATION, "load_in_4bit", -1, "load_in_4bit" },
    { ROLE_QUANTIZATION, "load_in_8bit", -1, "load_in_8bit" },
    { ROLE_QUANTIZATION, "bnb_4bit_compute_dtype", -1, "bnb_4bit_compute_dtype" },
    { ROLE_MODEL, "model_name", 0, "model_name_or_path" },
    { ROLE_MODEL, "pretrained_model_name_or_path", 0, "model_name_or_path" },
    { ROLE_MODEL, "torch_dtype", -1, "torch_dtype" },
    { ROLE_MODEL, "dtype", -1, "dtype" },
    { ROLE_MODEL, "device_map", -1, "device_map" },
    { ROLE_MODEL, "attn_implementation", -1, "flash_attn" },
    { ROLE_MODEL, "max_seq_length", -1, "cutoff_len" }, /* Unsloth's */
    { ROLE_MODEL, "load_in_4bit", -1, "load_in_4bit" },
    { ROLE_MODEL, "load_in_8bit", -1, "load_in_8bit" },
    { ROLE_MODEL, "autocast_adapter_dtype", -1, "autocast_adapter_dtype" },
    { ROLE_CLIP, "max_norm", 1, "max_grad_norm" },
    { ROLE_OPTIMIZER, "lr", -1, "learning_rate" },
    { ROLE_LIGHTNING, "gradient_clip_val", -1, "max_grad_norm" },
    { ROLE_LIGHTNING, "accumulate_grad_batches", -1, "gradient_accumulation_steps" },
    { ROLE_LIGHTNING, "max_steps", -1, "max_steps" },
    { ROLE_LIGHTNING, "max_epochs", -1, "num_train_epochs" },
    { ROLE_ACCELERATOR, "gradient_accumulation_steps", -1,
      "gradient_accumulation_steps" },
};

/* Keys that an edit may add to a call of TrainingArguments. */
static const char *const additions[] = {
    "bf16",
    "fp16",
    "tf32",
    "bf16_full_eval",
    "fp16_full_eval",
    "max_grad_norm",
    "gradient_checkpointing",
    "gradient_accumulation_steps",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "logging_nan_inf_filter",
    "optim",
    "learning_rate",
};

static const struct script_class any_trainer = { "Trainer", ROLE_TRAINER, false,
                                                 NULL,      NULL,         NULL };
static const struct script_class lightning = { "Trainer", ROLE_LIGHTNING, false,
                                               NULL,      NULL,           NULL };
static const struct script_class model = {
    "from_pretrained", ROLE_MODEL, false, NULL, NULL, NULL
};
static const struct script_class adapter = {
    "get_peft_model", ROLE_ADAPTED, false, NULL, NULL, NULL
};

/* Classes whose from_pretrained loads no weights to train. */
static bool loads_other(const char *path)
{
    static const char *const parts[] = { "Tokenizer", "Processor", "FeatureExtractor",
                                         "Config",    "Scheduler", "Dataset",
                                         "Template",  "Reward" };

    for (size_t i = 0; i < TS_COUNT(parts); i++)
        if (strstr(path, parts[i]))
            return true;
    return false;
}

static bool has_argument(struct script *script, const struct syntax *call,
                         const char *name)
{
    struct script_argument argument;

    return script_argument_find(script, call, name, -1, &argument);
}

static const struct script_class *trainer_of(const struct script *script,
                                             const struct syntax *call, const char *path)
{
    struct script *reader = (struct script *)script; /* evaluates, changes no result */

    if (text_starts(path, "lightning") || text_starts(path, "pytorch_lightning") ||
        text_starts(path, "pl.") || text_starts(path, "L."))
        return &lightning;
    if (strcmp(script_last(path), "Trainer") == 0 &&
        (has_argument(reader, call, "max_epochs") ||
         has_argument(reader, call, "precision")))
        return &lightning;
    return &any_trainer;
}

static const struct script_class *classify(const struct script *script,
                                           const struct syntax *call)
{
    const char *path = script_callee(script, call), *last;

    if (!path)
        return NULL;
    last = script_last(path);
    if (strcmp(last, "from_pretrained") == 0)
        return loads_other(path) ? NULL : &model;
    if (strcmp(last, "get_peft_model") == 0)
        return &adapter;
    if (text_ends(last, "Trainer") && last[0] >= 'A' && last[0] <= 'Z')
        return trainer_of(script, call, path);
    if (strcmp(path, "torch.compile") != 0 && strcmp(last, "compile") == 0)
        return NULL;
    for (size_t i = 0; i < TS_COUNT(classes); i++)
        if (strcmp(classes[i].name, last) == 0)
            return &classes[i];
    return NULL;
}

const struct script_class *script_class_of(const struct script *script,
                                           const struct syntax *call)
{
    if (call->number == 0)
        return NULL;
    if (!script->classified[call->number - 1]) {
        script->classified[call->number - 1] = true;
        script->classes[call->number - 1] = classify(script, call);
    }
    return script->classes[call->number - 1];
}

const struct script_class *script_class_of_trainer(const struct script *script,
                                                   const struct syntax *trainer)
{
    const char *last = script_last(script_callee(script, trainer));
    const size_t stem = strlen(last) - strlen("Trainer");

    for (size_t i = 0; text_ends(last, "Trainer") && i < TS_COUNT(classes); i++)
        if (classes[i].program && strncmp(classes[i].name, last, stem) == 0 &&
            strcmp(classes[i].name + stem, "Config") == 0)
            return &classes[i];
    return NULL;
}

const char *script_key_of(const struct script_class *row,
                          const struct script_argument *argument)
{
    for (size_t i = 0; i < TS_COUNT(keys); i++)
        if (keys[i].role == row->role &&
            (argument->name ? strcmp(keys[i].argument, argument->name) == 0
                            : keys[i].position == (int)argument->position))
            return row->exact && strcmp(keys[i].key, "cutoff_len") == 0 ? argument->name
                                                                        : keys[i].key;
    return row->role == ROLE_ARGUMENTS ? argument->name : NULL;
}

bool script_may_add(const char *key)
{
    for (size_t i = 0; i < TS_COUNT(additions); i++)
        if (strcmp(additions[i], key) == 0)
            return true;
    return false;
}
