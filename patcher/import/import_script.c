/*
 * patcher/import/import_script.c - a Python training script -> a job that trains the same
 * model on the same data here.
 *
 * The rows of the script's document are the keys of the source.  Defaults that differ
 * from those of a job are those of the newest transformers, TRL and PEFT that
 * patcher/profiles and PEFT's tuners/lora/config.py know.
 */
#include "config.h"

#include "patcher/import/import_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "patcher/profiles/profile.h"
#include "patcher/schema/schema.h"
#include "patcher/script/script.h"

#define ONLY_TEXT \
    "; trainspool trains causal language models with sft, pt, distill, dpo, kto, grpo and rm"

#define NEWEST "TRL's default in its newest version"

/* ---- What is not supported ---- */

/* Classes of models and trainers, by a part of their names. */
static const struct unsupported {
    const char *part, *what;
} models[] = {
    { "SequenceClassification", "a classifier" },
    { "TokenClassification", "a tagger" },
    { "QuestionAnswering", "an extractive question answerer" },
    { "MultipleChoice", "a classifier" },
    { "MaskedLM", "a masked language model" },
    { "Seq2Seq", "an encoder-decoder model" },
    { "ConditionalGeneration", "an encoder-decoder or multimodal model" },
    { "Speech", "a speech model" },
    { "Audio", "an audio model" },
    { "Whisper", "a speech model" },
    { "CTC", "a speech model" },
    { "Image", "an image model" },
    { "Vision", "an image model" },
    { "ViT", "an image model" },
    { "UNet", "a diffusion model" },
    { "Diffusion", "a diffusion model" },
    { "SentenceTransformer", "an embedding model" },
}, trainers[] = {
    { "Reward", "a reward model" },          { "PPO", "reinforcement learning" },
    { "GRPO", "reinforcement learning" },    { "RLOO", "reinforcement learning" },
    { "OnlineDPO", "online DPO" },
    { "SentenceTransformer", "embeddings" }, { "PRM", "a reward model" },
    { "GKD", "distillation of its own answers" },
    { "GOLD", "distillation of its own answers" },
    { "Distillation", "distillation of its own answers" },
    { "MiniLLM", "distillation of its own answers" },
    { "SDFT", "distillation of its own answers" },
    { "SDPO", "reinforcement learning" },    { "A2PO", "reinforcement learning" },
    { "GMPO", "reinforcement learning" },    { "NashMD", "online preferences" },
    { "XPO", "online preferences" },         { "BCO", "the loss of BCO" },
    { "TPO", "the loss of TPO" },
};

static const char *find_unsupported(const struct unsupported *list, size_t count,
                                    const char *class)
{
    for (size_t i = 0; class && i < count; i++)
        if (strstr(class, list[i].part))
            return list[i].what;
    return NULL;
}

static bool is_grpo(const struct importing *im)
{
    const char *class = script_facts_of(im->source)->trainer_class;

    return text_equal(class, "GRPOTrainer") || text_equal(class, "UnslothGRPOTrainer");
}

/* Return whether the script trains a reward model with TRL. */
static bool trains_reward(const struct script_facts *facts)
{
    return facts->trainer_class && strcmp(facts->trainer_class, "RewardTrainer") == 0;
}

static bool refuse_kinds(struct importing *im)
{
    const struct script_facts *facts = script_facts_of(im->source);
    const bool reward = trains_reward(facts);
    const char *model = find_unsupported(models, TS_COUNT(models), facts->model_class);
    const char *trainer =
        find_unsupported(trainers, TS_COUNT(trainers), facts->trainer_class);
    const struct node *root = im->source->root;

    if (model && !(reward && strstr(facts->model_class, "SequenceClassification")))
        return import_refuse(im, ERROR_JOB, root, "the script trains %s, %s" ONLY_TEXT,
                             model, facts->model_class);
    if (trainer && !is_grpo(im) && !reward)
        return import_refuse(im, ERROR_JOB, root,
                             "the script trains with %s: %s is not supported" ONLY_TEXT,
                             facts->trainer_class, trainer);
    if (!import_find(im, "model_name_or_path"))
        return import_refuse(
            im, ERROR_JOB, root,
            "the script names no pretrained model in from_pretrained" ONLY_TEXT);
    return true;
}

/* ---- Model and method ---- */

static const char *computed_note(const struct entry *entry)
{
    return entry->value->edit == NODE_COMPUTED ? "computed in the script" : NULL;
}

static void import_model_name(struct importing *im)
{
    const struct entry *entry = import_find(im, "model_name_or_path");
    const char *model = entry->value->text;

    import_set(im, "model_name_or_path", model, computed_note(entry));
    import_mark_carried(im, "model_name_or_path", "model_name_or_path");
    if (model[0] != '/' && model[0] != '.')
        import_remark(im, "model_name_or_path",
                      "trainspool downloads nothing: this must be a folder next to the "
                      "job with the model's config.json, weights and tokenizer");
}

static void import_stage(struct importing *im)
{
    const struct script_facts *facts = script_facts_of(im->source);
    const struct entry *stage = import_find(im, "stage");
    bool dpo = stage && strcmp(stage->value->text, "dpo") == 0;
    bool kto = stage && strcmp(stage->value->text, "kto") == 0;
    const bool reward = trains_reward(facts);

    import_set(im, "stage",
               is_grpo(im) ? "grpo"
               : reward    ? "rm"
               : dpo       ? "dpo"
               : kto       ? "kto"
                           : "sft",
               NULL);
    if (reward)
        import_reward_model(im, facts->keeps_dropout);
    if (stage)
        import_mark_carried(im, "stage", "stage");
    if (!facts->trainer_class || strcmp(facts->trainer_class, "Trainer") == 0)
        import_remark(im, "stage",
                      "the script prepares its texts itself: use stage: pt if it trains "
                      "on plain text, without prompts and answers");
}

/* A job has no limit of its own for the reward length. */
static void remark_on_length(struct importing *im, const char *limit)
{
    const double most = import_number(im, "max_completion_length", 512); /* a job's */

    if (limit && strtod(limit, NULL) != most)
        import_remark(im, "reward_funcs",
                      "length counts up to max_completion_length; the script's "
                      "get_soft_overlong_punishment counts up to %s tokens",
                      limit);
}

/* Names that are imported from TRL; others of the same name may do anything. */
static bool import_rewards(struct importing *im)
{
    const struct script_facts *facts = script_facts_of(im->source);
    const struct node *root = im->source->root;
    const char *rewards = facts->rewards;

    if (!is_grpo(im))
        return true;
    if (!rewards || !*rewards)
        return import_refuse(im, ERROR_JOB, root,
                             "the script trains with %s, but its reward_funcs are not "
                             "known",
                             facts->trainer_class);
    for (const char *each = rewards; each; each = strchr(each, ',')) {
        each += *each == ',';
        if (!text_starts(each, "trl."))
            return import_refuse_reward(im, root, "reward_funcs: ",
                                        arena_copy(im->arena, each, strcspn(each, ",")));
    }
    import_reward_scale(im, "scale_rewards");
    remark_on_length(im, facts->punish_length);
    return import_reward_functions(im, rewards, facts->punish_cache, root,
                                   "reward_funcs: ");
}

static void import_method(struct importing *im)
{
    const struct entry *method = import_find(im, "finetuning_type");
    const struct entry *target = import_find(im, "lora_target");

    import_set(im, "finetuning_type", method ? "lora" : "full", NULL);
    if (!method)
        return;
    import_mark_carried(im, "finetuning_type", "finetuning_type");
    import_set_default(im, "lora_rank", "8", "PEFT's default");
    import_set_default(im, "lora_alpha", "8", "PEFT's default; a job's is 2 x lora_rank");
    if (!target && import_value(im, "lora_target_parameters")) {
        import_remark(im, "finetuning_type",
                      "the script names no target_modules: next to target_parameters, "
                      "PEFT then adapts the layers that it knows of the architecture, "
                      "often none; a job adapts all linear layers unless lora_target "
                      "names some, or none: []");
        return;
    }
    if (!target) {
        import_remark(im, "finetuning_type",
                      "the script names no target_modules: PEFT then adapts the "
                      "attention projections of the architecture, usually q_proj and "
                      "v_proj; a job adapts all linear layers unless lora_target names "
                      "some");
        return;
    }
    import_set(im, "lora_target",
               strcmp(target->value->text, "all-linear") == 0 ? "all"
                                                              : target->value->text,
               NULL);
    import_mark_carried(im, "lora_target", "lora_target");
}

static void import_quantization(struct importing *im)
{
    if (import_find(im, "load_in_4bit") && import_is_true(im, "load_in_4bit")) {
        if (import_find(im, "finetuning_type")) {
            import_set(im, "quantization_bit", "4", NULL);
            import_mark_carried(im, "load_in_4bit", "quantization_bit");
        } else {
            import_mark_dropped(im, "load_in_4bit", IMPORT_DIFFERS,
                                "a job trains a 4-bit model with LoRA only");
        }
    }
    if (import_find(im, "load_in_8bit") && import_is_true(im, "load_in_8bit"))
        import_mark_dropped(im, "load_in_8bit", IMPORT_DIFFERS,
                            "8 bits are not supported; quantization_bit: 4 is");
    import_mark_idle(im, "load_in_4bit", "off");
    import_mark_idle(im, "load_in_8bit", "off");
}

/* ---- Precision ---- */

static bool is_auto(struct importing *im, const char *key)
{
    const struct entry *entry = import_find(im, key);

    return entry && strcmp(entry->value->text, "auto") == 0;
}

/* An expression of the device is what `auto` means. */
static void import_precision(struct importing *im)
{
    const char *key = is_auto(im, "bf16") ? "bf16" : "fp16";

    if (!is_auto(im, key))
        return;
    import_set(im, key, "auto", "the script asks the device");
    import_mark_carried(im, key, key);
    if (strcmp(key, "bf16") == 0 && is_auto(im, "fp16"))
        import_mark_carried(im, "fp16", "bf16");
}

/* ---- Data ---- */

/* `load_dataset("json", data_files=...)` reads a local file of that format. */
static bool is_reader(const char *path)
{
    return strcmp(path, "json") == 0 || strcmp(path, "text") == 0 ||
           strcmp(path, "csv") == 0 || strcmp(path, "parquet") == 0;
}

static void import_dataset(struct importing *im)
{
    const struct script_facts *facts = script_facts_of(im->source);
    struct import_data set = { .path = facts->data_path,
                               .split = facts->data_split,
                               .name = facts->data_name };

    if (!facts->data_path) {
        import_set(im, "dataset", "data.jsonl", "name your file");
        import_remark(im, "dataset",
                      "the script builds its data itself: write the samples to a file");
        return;
    }
    if (is_reader(facts->data_path)) {
        if (!facts->data_files) {
            import_set(im, "dataset", "data.jsonl", "name your file");
            return;
        }
        if (strcmp(facts->data_path, "csv") == 0 ||
            strcmp(facts->data_path, "parquet") == 0)
            import_remark(im, "dataset",
                          "this is a %s file: convert it to .jsonl, one sample per line",
                          facts->data_path);
        import_set(im, "dataset", facts->data_files, NULL);
        return;
    }
    import_data(im, "dataset", &set, 1);
}

static void import_evaluation(struct importing *im)
{
    const struct entry *when = import_find(im, "eval_strategy");

    if (!when)
        when = import_find(im, "evaluation_strategy");
    import_mark_idle(im, "eval_dataset", "named with eval_strategy");
    if (!when || strcmp(when->value->text, "no") == 0)
        return;
    import_set(im, "eval_strategy", when->value->text, NULL);
    import_mark_carried(im, when->key->text, "eval_strategy");
    import_set(im, "val_size", "0.1",
               "a tenth of the data; or name the script's file in eval_dataset");
}

/* ---- Everything else ---- */

static void import_optimizer(struct importing *im)
{
    const struct entry *entry = import_find(im, "optim");

    if (!entry || import_is_valid(im, "optim", entry->value->text))
        return;
    if (!strstr(entry->value->text, "adamw"))
        return;
    import_set(im, "optim", "adamw_torch",
               arena_printf(im->arena,
                            "%s in the script; Adam's moments are float32 here",
                            entry->value->text));
    import_mark_carried(im, "optim", "optim");
}

/* Arguments of the Trainer that change nothing here. */
static const struct import_group groups[] = {
    { IMPORT_IDLE, "the device that trains holds the model", "device_map" },
    { IMPORT_IDLE, "the attention kernel is selected for the device", "flash_attn" },
    { IMPORT_IDLE, "follows from bf16 and fp16", "bnb_4bit_compute_dtype" },
    { IMPORT_IDLE, "metrics are written next to the job",
      "report_to run_name logging_dir" },
    { IMPORT_IDLE, "a setting of the Trainer's data loading",
      "remove_unused_columns label_names dataloader_* group_by_length "
      "preprocessing_num_workers dataset_* data_seed length_column_name" },
    { IMPORT_IDLE, "a setting of PyTorch",
      "gradient_checkpointing_kwargs torch_compile* ddp_* local_rank "
      "torch_empty_cache_steps use_liger_kernel" },
    { IMPORT_IDLE, "the log shows every value",
      "logging_nan_inf_filter logging_first_step disable_tqdm log_level*" },
    { IMPORT_IDLE, "nothing is uploaded", "push_to_hub hub_*" },
    { IMPORT_IDLE, "adapters are trained in float32", "autocast_adapter_dtype" },
};

/* Copy a row to the key of the same meaning; a value that a job cannot have is listed. */
static void import_row(struct importing *im, const struct entry *entry)
{
    const char *key = entry->key->text;
    const struct key *known = schema_find(key);
    const char *name = known && known->use == KEY_RENAMED ? known->now : key;
    const char *text = entry->value->text;

    if (import_has_outcome(im, entry))
        return;
    if (node_is_null(entry->value) && strcmp(name, "cutoff_len") == 0) {
        import_mark_dropped(im, key, IMPORT_DIFFERS,
                            "None in the script: no limit; set cutoff_len to the longest "
                            "sample that is trained");
        return;
    }
    if (node_is_null(entry->value)) {
        import_mark_dropped(im, key, IMPORT_IDLE, "None in the script");
        return;
    }
    if (!known || !import_has_line(name) || entry->value->kind != NODE_SCALAR) {
        import_mark_dropped(im, key, IMPORT_DIFFERS, "a job has no such setting");
        return;
    }
    if (!import_is_valid(im, name, text)) {
        import_mark_dropped(im, key, IMPORT_DIFFERS, "%s is not supported", text);
        return;
    }
    import_set_default(im, name, text, computed_note(entry));
    import_mark_carried(im, key, name);
}

static void import_clipping(struct importing *im)
{
    const struct entry *entry = import_find_written(im, "max_grad_norm");

    if (!entry || !node_is_null(entry->value))
        return;
    import_set(im, "max_grad_norm", "0.0", "None in the script: off");
    import_mark_carried(im, "max_grad_norm", "max_grad_norm");
}

/* TRL's limit of a sample, unless the script has its own or Unsloth, which has another. */
static void set_length(struct importing *im, const struct profile_view *view)
{
    const struct profile_key *found = profile_find(view, "max_length");
    const char *target = import_get(im, "trainspool.target");

    if (!found || !found->default_value || import_find_written(im, "cutoff_len") ||
        !text_equal(target, "trl") ||
        !import_is_valid(im, "cutoff_len", found->default_value))
        return;
    import_set_default(im, "cutoff_len", found->default_value, NEWEST);
    if (text_equal(import_value(im, "stage"), "rm"))
        import_remark(im, "cutoff_len",
                      "TRL leaves out pairs with a longer answer; a job truncates them");
}

/* base_config.py of TRL: bf16 unless fp16 is on. */
static void set_precision(struct importing *im)
{
    const struct entry *fp16 = import_find_written(im, "fp16");

    if (text_equal(import_get(im, "trainspool.target"), "trl") &&
        !import_find_written(im, "bf16") && !(fp16 && !import_is_off(fp16->value)))
        import_set_default(im, "bf16", "true", "TRL's default without fp16");
}

/* sft_trainer.py: of a conversation, all tokens count unless assistant_only_loss is on; of
 * a prompt and its completion, only the completion. */
static void remark_on_prompts(struct importing *im)
{
    if (text_equal(import_value(im, "stage"), "sft") &&
        !import_value(im, "train_on_prompt"))
        import_remark(im, "dataset",
                      "if the samples are conversations (messages) or texts, TRL trains "
                      "on all tokens: set train_on_prompt: true, or stage: pt for texts");
}

/* Write out the script's defaults where a job has others. */
static void import_defaults(struct importing *im)
{
    static const char *const keys[] = { "learning_rate", "num_train_epochs",
                                        "lr_scheduler_type", "logging_steps",
                                        "gradient_checkpointing" };
    const struct script_facts *facts = script_facts_of(im->source);
    static const struct versions none = { 0 };
    const bool trl = facts->arguments_class &&
                     strcmp(facts->arguments_class, "TrainingArguments") != 0 &&
                     text_ends(facts->arguments_class, "Config");
    struct profile_view view;

    profile_view(trl ? TRAINER_TRL : TRAINER_TRANSFORMERS, &none,
                 !trl                       ? NULL
                 : is_grpo(im)              ? "grpo"
                 : import_is_feedback(im)   ? "kto"
                 : trains_reward(facts)     ? "reward"
                 : import_find(im, "stage") ? "dpo"
                                            : "sft",
                 &view);
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        const struct profile_key *found = profile_find(&view, keys[i]);
        const char *value = found ? found->default_value : NULL;

        if (value && strcmp(value, "null") == 0 && found->types & PROFILE_BOOL)
            value = "false";

        if (!facts->arguments_class || !value || strcmp(value, "?") == 0 ||
            import_value(im, keys[i]) || !import_is_valid(im, keys[i], value))
            continue;
        import_set(im, keys[i], value, trl ? NEWEST : "the Trainer's default");
    }
    if (!trl)
        return;
    set_length(im, &view);
    set_precision(im);
    remark_on_prompts(im);
}

bool import_script(struct importing *im)
{
    const struct node *root = im->source->root;

    if (!refuse_kinds(im))
        return false;
    import_model_name(im);
    import_stage(im);
    if (!import_script_loss(im) || !import_rewards(im))
        return false;
    import_quantization(im);
    import_precision(im);
    import_evaluation(im);
    import_dataset(im);
    import_optimizer(im);
    import_clipping(im);
    import_groups(im, groups, TS_COUNT(groups));
    for (size_t i = 0; i < root->count; i++)
        if (strcmp(root->entries[i].key->text, "finetuning_type") != 0 &&
            strcmp(root->entries[i].key->text, "lora_target") != 0 &&
            strcmp(root->entries[i].key->text, "use_peft") != 0 &&
            strcmp(root->entries[i].key->text, "trainspool") != 0)
            import_row(im, &root->entries[i]);
    import_method(im);
    if (!import_script_left(im))
        return false;
    import_defaults(im);
    return !import_failed(im);
}
