/*
 * patcher/import/import_script_left.c - arguments of a script that a job has no key for, so
 * that none is lost: those of the trainer, of TRL's and PEFT's classes, of the model and of
 * its quantization.
 *
 * TRL 1.16, trl/trainer/sft_config.py and its neighbors; PEFT 0.21, tuners/lora/config.py;
 * transformers 5.24, utils/quantization_config.py.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <string.h>

#include "base/size.h"
#include "patcher/schema/schema.h"
#include "patcher/script/script.h"

enum { SHOWN = 60 }; /* bytes of an expression in a comment */

/* ---- Arguments that a job says otherwise ---- */

static const char *text_of(const struct script_left *left)
{
    const struct node *value = left->entry.value;

    return !left->unread && value->kind == NODE_SCALAR ? value->text : NULL;
}

static bool is_true(const struct script_left *left)
{
    const char *text = text_of(left);

    return text && strcmp(text, "true") == 0;
}

static void carry(struct importing *im, const struct script_left *left, const char *into)
{
    import_add_outcome(im, &left->entry,
                       &(struct import_key) { .name = left->entry.key->text,
                                              .outcome = IMPORT_CARRIED,
                                              .into = into });
}

static void drop(struct importing *im, const struct script_left *left,
                 enum import_outcome outcome, const char *why)
{
    import_add_outcome(im, &left->entry,
                       &(struct import_key) { .name = left->entry.key->text,
                                              .outcome = outcome,
                                              .why = why });
}

static bool take_start(struct importing *im, const struct script_left *left)
{
    const char *text = text_of(left);

    if (text && strcmp(text, "pissa") == 0) {
        import_set(im, "pissa_init", "true", NULL);
        carry(im, left, "pissa_init");
    } else if (is_true(left)) {
        drop(im, left, IMPORT_IDLE, "the default of a job");
    } else {
        drop(im, left, IMPORT_DIFFERS,
             "adapters start as PEFT's default does, or with pissa_init");
    }
    return true;
}

static bool take_bias(struct importing *im, const struct script_left *left)
{
    const char *text = text_of(left);

    if (text && strcmp(text, "none") == 0)
        drop(im, left, IMPORT_IDLE, "off");
    else
        drop(im, left, IMPORT_DIFFERS, "a job trains no biases with its adapters");
    return true;
}

/* Old versions of TRL passed them to the trainer. */
static bool take_trainer_key(struct importing *im, const struct script_left *left)
{
    const char *name = left->entry.key->text, *text = text_of(left);
    const char *key = strcmp(name, "max_seq_length") == 0 ? "cutoff_len" : name;

    if (!text || !import_is_valid(im, key, text))
        return false;
    import_set_default(im, key, text, NULL);
    carry(im, left, key);
    return true;
}

static bool take_double_quantization(struct importing *im, const struct script_left *left)
{
    const char *text = text_of(left);

    if (!text || !import_is_valid(im, "double_quantization", text) ||
        !import_value(im, "quantization_bit"))
        return false;
    import_set(im, "double_quantization", text, NULL);
    carry(im, left, "double_quantization");
    return true;
}

static bool take_quantization_type(struct importing *im, const struct script_left *left)
{
    const char *text = text_of(left);

    if (!text || strcmp(text, "nf4") != 0)
        return false;
    drop(im, left, IMPORT_IDLE, "the format of a job's 4 bits");
    return true;
}

static bool take_answers_only(struct importing *im, const struct script_left *left)
{
    if (!is_true(left))
        return false;
    import_set_default(im, "train_on_prompt", "false", NULL);
    carry(im, left, "train_on_prompt");
    return true;
}

static bool take_completion_only(struct importing *im, const struct script_left *left)
{
    const char *text = text_of(left);

    if (!text || node_is_null(left->entry.value))
        return false;
    import_set_default(im, "train_on_prompt", is_true(left) ? "false" : "true", NULL);
    carry(im, left, "train_on_prompt");
    return true;
}

/* Set a key of stage dpo, if the job has that stage and the loss. */
static bool take_preference(struct importing *im, const struct script_left *left,
                            const char *loss, const char *key)
{
    const char *has = import_value(im, "pref_loss"), *text = text_of(left);

    if (!text || !has || strcmp(has, loss) != 0 || !import_is_valid(im, key, text))
        return false;
    import_set(im, key, text, NULL);
    carry(im, left, key);
    return true;
}

static bool take_smoothing(struct importing *im, const struct script_left *left)
{
    return take_preference(im, left, "sigmoid", "dpo_label_smoothing");
}

static bool take_cpo_alpha(struct importing *im, const struct script_left *left)
{
    return take_preference(im, left, "simpo", "pref_ftx");
}

/* reward_trainer.py checks that the model has one output. */
static bool take_labels(struct importing *im, const struct script_left *left)
{
    const char *stage = import_value(im, "stage"), *text = text_of(left);

    if (stage && strcmp(stage, "rm") == 0 && text && strcmp(text, "1") != 0)
        return import_refuse(im, ERROR_JOB, left->entry.value,
                             "num_labels must be 1 with RewardTrainer, not %s", text);
    drop(im, left, IMPORT_IDLE, "the head of a reward model has one output");
    return true;
}

/* Each returns whether the argument has an outcome now, or an error is set. */
static const struct taking {
    const char *name;
    bool (*take)(struct importing *im, const struct script_left *left);
} takings[] = {
    { "init_lora_weights", take_start },
    { "bias", take_bias },
    { "max_seq_length", take_trainer_key },
    { "packing", take_trainer_key },
    { "neftune_noise_alpha", take_trainer_key },
    { "bnb_4bit_use_double_quant", take_double_quantization },
    { "bnb_4bit_quant_type", take_quantization_type },
    { "assistant_only_loss", take_answers_only },
    { "completion_only_loss", take_completion_only },
    { "label_smoothing", take_smoothing },
    { "cpo_alpha", take_cpo_alpha },
    { "num_labels", take_labels },
};

/* ---- The others ---- */

/* The trainer's arguments that are read elsewhere, and names of objects. */
static const char *const objects[] = { "model",
                                       "args",
                                       "train_dataset",
                                       "eval_dataset",
                                       "peft_config",
                                       "reward_funcs",
                                       "tokenizer",
                                       "model_name",
                                       "model_id",
                                       "quantization_config",
                                       "pretrained_model_name_or_path" };

static const struct import_group groups[] = {
    { IMPORT_IDLE, "read from the model's folder",
      "processing_class tokenizer pad_token pad_token_id trust_remote_code use_fast "
      "padding_side" },
    { IMPORT_IDLE, "nothing is downloaded",
      "token hf_token use_auth_token cache_dir local_files_only force_download" },
    { IMPORT_IDLE, "a setting of PEFT, without effect on the training",
      "task_type inference_mode fan_in_fan_out megatron_* base_model_name_or_path "
      "adapter_name mixed peft_type ephemeral_gpu_offload runtime_config "
      "low_cpu_mem_usage" },
    { IMPORT_IDLE, "a setting of how the model is loaded",
      "use_cache use_safetensors offload_* max_memory max_position_embeddings "
      "fast_inference gpu_memory_utilization float8_kv_cache max_lora_rank "
      "disable_log_stats num_labels return_dict output_hidden_states" },
    { IMPORT_IDLE, "follows from bf16 and fp16", "bnb_4bit_quant_storage llm_int8_*" },
    { IMPORT_IDLE, "a setting of TRL, without effect on the result",
      "dataset_num_proc pad_to_multiple_of padding_free activation_offloading "
      "precompute_ref_* model_init_kwargs label_pad_token_id padding_value "
      "is_encoder_decoder generate_during_eval log_* num_completions_to_print use_vllm "
      "vllm_* ds3_gather_for_generation use_transformers_* cache_implementation "
      "use_liger_* use_logits_to_keep model_adapter_name ref_adapter_name "
      "force_use_ref_model reference_free" },
    { IMPORT_IDLE, "dropout is off while a model is compared with a reference",
      "disable_dropout" },
    { IMPORT_IDLE, "metrics are those of a job", "compute_metrics preprocess_logits_*" },
    { IMPORT_DIFFERS, "a function in Python",
      "callbacks data_collator formatting_func optimizers compute_loss_func "
      "optimizer_cls_and_kwargs model_init" },
    { IMPORT_DIFFERS, "the columns of the data: name them in dataset_info.json",
      "dataset_text_field dataset_kwargs" },
    { IMPORT_DIFFERS, "cutoff_len limits prompt and answer together",
      "max_prompt_length max_target_length max_completion_length truncation_mode" },
    { IMPORT_DIFFERS, "download that revision", "revision" },
    { IMPORT_DIFFERS, "a job's 4 bits are nf4", "bnb_4bit_quant_type" },
};

static bool is_object(const char *name)
{
    for (size_t i = 0; i < TS_COUNT(objects); i++)
        if (strcmp(objects[i], name) == 0)
            return true;
    return false;
}

/* Return the start of an expression, on one line. */
static const char *shown(struct importing *im, const struct node *value)
{
    const char *text = value->text ? value->text : "";
    size_t len = strcspn(text, "\n"), most = size_min(len, SHOWN);

    return text[most] ? arena_printf(im->arena, "%.*s...", (int)most, text)
                      : arena_strdup(im->arena, text);
}

/* Report a setting that the script computes. */
static void report_unread(struct importing *im, const struct script_left *left)
{
    const char *name = left->entry.key->text, *text = shown(im, left->entry.value);
    const struct key *known = schema_find(name);

    if (known && known->use == KEY_RENAMED)
        name = known->now;
    if (strncmp(name, "**", 2) == 0) {
        drop(im, left, IMPORT_DIFFERS,
             "the script computes these arguments; set in the job what they set");
        return;
    }
    if (import_has_line(name))
        import_remark(im, name, "the script computes %s (%s): set it here", name, text);
    drop(im, left, IMPORT_DIFFERS,
         arena_printf(im->arena, "the script computes it: %s; set %s in the job", text,
                      known ? name : "what it does"));
}

static bool import_one(struct importing *im, const struct script_left *left)
{
    const char *name = left->entry.key->text;

    if (is_object(name) || import_find_written(im, name))
        return true;
    if (left->unread && import_has_line(name)) {
        report_unread(im, left);
        return true;
    }
    for (size_t i = 0; i < TS_COUNT(takings); i++)
        if (strcmp(takings[i].name, name) == 0 && takings[i].take(im, left))
            return !import_failed(im);
    if (import_failed(im))
        return false;
    import_group_of_entry(im, &left->entry, groups, TS_COUNT(groups));
    if (import_has_outcome(im, &left->entry))
        return true;
    if (left->unread)
        report_unread(im, left);
    else
        drop(im, left, import_is_off(left->entry.value) ? IMPORT_IDLE : IMPORT_DIFFERS,
             import_idle_reason(left->entry.value, "a job has no such setting"));
    return true;
}

/* Write out defaults of what is listed above, where a job has others. */
static void set_defaults(struct importing *im)
{
    const char *loss = import_value(im, "pref_loss");

    if (loss && strcmp(loss, "simpo") == 0)
        import_set_default(im, "pref_ftx", "1.0",
                           "cpo_alpha, which is 1 in TRL; the SimPO paper has none");
    if (import_value(im, "quantization_bit") && script_facts_of(im->source)->quantizes)
        import_set_default(im, "double_quantization", "false",
                           "BitsAndBytesConfig's default");
}

bool import_script_left(struct importing *im)
{
    const struct script_facts *facts = script_facts_of(im->source);

    for (size_t i = 0; i < facts->left_count; i++)
        if (!import_one(im, &facts->left[i]))
            return false;
    set_defaults(im);
    return true;
}
