/* tests/unit/test_import_meaning.c - an imported job does what the other tool would do,
 * key by key. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"

static void test_import_writes_the_defaults_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL, "model_name_or_path", "org/model" },
        { AXOLOTL, "stage", "sft" },
        { AXOLOTL, "finetuning_type", "full" },
        { AXOLOTL, "dataset", "data.jsonl" },
        { AXOLOTL, "template", "alpaca" },
        /* defaults of Axolotl that differ from those of a job */
        { AXOLOTL, "cutoff_len", "512" },
        { AXOLOTL, "num_train_epochs", "1" },
        { AXOLOTL, "gradient_checkpointing", "false" },
        { AXOLOTL, "lr_scheduler_type", "cosine" },
        { AXOLOTL, "warmup_ratio", "0.03" },
        { AXOLOTL, "save_strategy", "epoch" },
        { AXOLOTL, "save_total_limit", "4" },
        { AXOLOTL, "bf16", "auto" },
        /* in Axolotl, null means the default */
        { AXOLOTL "max_grad_norm:\n", "max_grad_norm", "1.0" },
        { AXOLOTL "max_grad_norm: 0.3\n", "max_grad_norm", "0.3" },
        { AXOLOTL, "max_grad_norm", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_keeps_the_steps_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        /* batch */
        { AXOLOTL "micro_batch_size: 2\nbatch_size: 16\n", "gradient_accumulation_steps",
          "8" },
        { AXOLOTL "micro_batch_size: 2\nbatch_size: 16\n", "per_device_train_batch_size",
          "2" },
        { AXOLOTL "micro_batch_size: 3\nbatch_size: 16\n", "gradient_accumulation_steps",
          "5" },
        { AXOLOTL "micro_batch_size: 2\ngradient_accumulation_steps: 4\nbatch_size: 3\n",
          "gradient_accumulation_steps", "4" },
        /* packing without attention between samples */
        { AXOLOTL "sample_packing: true\n", "neat_packing", "true" },
        { AXOLOTL "sample_packing: true\n", "dataloader_drop_last", NULL },
        { AXOLOTL "sample_packing: true\neval_sample_packing: false\n",
          "dataloader_drop_last", "true" },
        /* learning rates */
        { AXOLOTL "learning_rate: 2e-5\n", "learning_rate", "2e-5" },
        { AXOLOTL "warmup_steps: 10\nwarmup_ratio:\n", "warmup_steps", "10" },
        { AXOLOTL "warmup_steps: 10\n", "warmup_ratio", NULL },
        { AXOLOTL "warmup_steps: 0.1\n", "warmup_ratio", "0.1" },
        { AXOLOTL "warmup_steps: 10\nwarmup_ratio: 0.1\n", "warmup_steps", "10" },
        { AXOLOTL "warmup_steps: 10\nwarmup_ratio: 0.1\n", "warmup_ratio", NULL },
        { AXOLOTL "warmup_steps: 0\nwarmup_ratio: 0.1\n", "warmup_ratio", NULL },
        { AXOLOTL "warmup_steps: 0.2\nwarmup_ratio: 0.1\n", "warmup_ratio", "0.2" },
        { AXOLOTL "warmup_ratio: 0.1\n", "warmup_ratio", "0.1" },
        { AXOLOTL "lr_scheduler: constant\n", "lr_scheduler_type", "constant" },
        { AXOLOTL "lr_scheduler: rex\n", "lr_scheduler_type", "cosine" },
        { AXOLOTL "lr_scheduler: reduce_lr_on_plateau\n"
                  "lr_scheduler_kwargs: {patience: 3}\n",
          "lr_scheduler_type", "reduce_lr_on_plateau" },
        { AXOLOTL "cosine_min_lr_ratio: 0.1\n", "lr_scheduler_type",
          "cosine_with_min_lr" },
        { AXOLOTL "cosine_min_lr_ratio: 0.1\n", "lr_scheduler_kwargs",
          "{min_lr_rate: 0.1}" },
        { AXOLOTL "lr_scheduler_kwargs: {min_lr: 1e-6, 'a}': 'b, c: d'}\n",
          "lr_scheduler_kwargs", "{min_lr: 1e-6, 'a}': 'b, c: d'}" },
        { AXOLOTL "optimizer: adamw_bnb_8bit\n", "optim", "adamw_bnb_8bit" },
        { AXOLOTL "optimizer: lion_pytorch\n", "optim", "lion" },
        { AXOLOTL "optimizer: muon\n", "use_muon", "true" },
        { AXOLOTL "optimizer: ao_adamw_8bit\n", "optim", "adamw_torch_8bit" },
        { AXOLOTL "optimizer: dion\n", "optim", "adamw_torch" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

/* How several GPUs divide the model is a comment, because their number is not known. */
static void test_import_names_the_zero_stage_of_axolotl(void **state)
{
    static const struct {
        const char *source, *block;
    } cases[] = {
        { AXOLOTL "deepspeed: deepspeed_configs/zero2.json\n",
          "trainspool: {ranks: N, zero_stage: 2}" },
        { AXOLOTL "deepspeed: mine.json\n", "trainspool: {ranks: N};" },
        { AXOLOTL "fsdp: [full_shard]\n", "trainspool: {ranks: N, zero_stage: 3}" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        assert_true(trial.good);
        if (!strstr(trial.import.text.data, cases[i].block))
            fail_msg("no %s in\n%s", cases[i].block, trial.import.text.data);
        trial_end(&trial);
    }
}

static void test_import_keeps_the_precision_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL "bf16: true\nfp16: true\n", "bf16", "true" },
        { AXOLOTL "bf16: true\nfp16: true\n", "fp16", NULL },
        { AXOLOTL "bf16: auto\nfp16: true\n", "fp16", "true" },
        { AXOLOTL "bf16: auto\nfp16: true\n", "bf16", NULL },
        { AXOLOTL "fp16: true\n", "fp16", "true" },
        { AXOLOTL "bf16: auto\nfp16: false\n", "bf16", "auto" },
        { AXOLOTL "bf16: auto\nfp16: false\n", "fp16", NULL },
        { AXOLOTL "bf16: auto\nfloat16: true\n", "bf16", "auto" },
        { AXOLOTL "float16: true\n", "bf16", "auto" },
        { AXOLOTL "float16: true\n", "fp16", NULL },
        { AXOLOTL "bf16: false\n", "bf16", NULL },
        { AXOLOTL "bf16:\n", "bf16", NULL },
        { AXOLOTL "bf16: full\n", "bf16", "true" },
        { AXOLOTL "bf16: false\nbfloat16: true\n", "bf16", "true" },
        { AXOLOTL "bf16: false\nfloat16: true\n", "fp16", "true" },
        { AXOLOTL "tf32: yes\n", "tf32", "true" },
        { AXOLOTL "tf32: auto\n", "tf32", "auto" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

/* alpha defaults to 2 x rank in a job, but not in the other tools. */
static void test_import_keeps_the_adapters_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL "adapter: qlora\nlora_r: 32\nlora_alpha: 16\n", "finetuning_type",
          "lora" },
        { AXOLOTL "adapter: qlora\nlora_r: 32\nlora_alpha: 16\n", "lora_alpha", "16" },
        { AXOLOTL "adapter: qlora\nload_in_4bit: true\n", "quantization_bit", "4" },
        { AXOLOTL "adapter: lora\nload_in_8bit: true\n", "quantization_bit", NULL },
        { AXOLOTL_LORA "lora_target_linear: true\n", "lora_target", "all" },
        { AXOLOTL_LORA "peft_use_dora: true\n", "use_dora", "true" },
        { AXOLOTL_LORA "peft_init_lora_weights: pissa\n", "pissa_init", "true" },
        { AXOLOTL "neftune_noise_alpha: 5\n", "neftune_noise_alpha", "5" },
        { AXOLOTL "tokens: ['<|im_start|>', '<|im_end|>']\n", "add_tokens",
          "<|im_start|>,<|im_end|>" },
        { AXOLOTL_LORA "lora_target_modules: [q_proj, v_proj]\n", "lora_target",
          "q_proj,v_proj" },
        { AXOLOTL_LORA "lora_target_modules: 'x.*(q|v)_proj'\n", "lora_target",
          "x.*(q|v)_proj" },
        { AXOLOTL_LORA
          "lora_target_parameters: [experts.gate_up_proj, experts.down_proj]\n",
          "lora_target_parameters", "experts.gate_up_proj,experts.down_proj" },
        { AXOLOTL_LORA "lora_target_parameters: [experts.down_proj]\n", "lora_target",
          "[]" },
        { AXOLOTL_LORA "lora_modules_to_save: [lm_head]\n", "additional_target",
          "lm_head" },
        { AXOLOTL_LORA "lora_model_dir: ./a\n", "adapter_name_or_path", "./a" },
        { AXOLOTL_LORA "peft_use_rslora: true\n", "use_rslora", "true" },
        { AXOLOTL "lora_r: 8\n", "lora_rank", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_keeps_saving_and_evaluation_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        /* saving and evaluation */
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 4\nnum_epochs: 3\n", "eval_steps",
          "0.083333" },
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 4\n", "eval_steps", "0.25" },
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 1\n", "eval_strategy", "epoch" },
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 1\nmicro_batch_size: 3\n",
          "per_device_eval_batch_size", "3" },
        { AXOLOTL "val_set_size: 0\nevals_per_epoch: 4\n", "eval_strategy", NULL },
        { AXOLOTL "val_set_size: 0\n", "val_size", NULL },
        { AXOLOTL "val_set_size: 0.1\nevaluation_strategy: epoch\n", "eval_strategy",
          "epoch" },
        { AXOLOTL "saves_per_epoch: 2\nnum_epochs: 2\n", "save_steps", "0.25" },
        { AXOLOTL "save_steps: 50\nsaves_per_epoch:\n", "save_steps", "50" },
        { AXOLOTL "save_strategy: best\n", "save_strategy", "epoch" },
        { AXOLOTL "save_strategy: best\nval_set_size: 0.1\nevals_per_epoch: 4\n",
          "save_strategy", "best" },
        { AXOLOTL "auto_resume_from_checkpoints: true\n", "resume_from_checkpoint",
          "true" },
        { AXOLOTL "gradient_checkpointing: offload\n", "gradient_checkpointing", "true" },
        { AXOLOTL "gradient_checkpointing: unsloth\n", "gradient_checkpointing", "true" },
        { AXOLOTL "train_on_inputs: true\n", "train_on_prompt", "true" },
        { AXOLOTL "curriculum_sampling: true\n", "disable_shuffling", "true" },
        { AXOLOTL "default_system_message: \"a\\nb: c\"\n", "default_system",
          "\"a\\u000ab: c\"" },
        { AXOLOTL "seed: 1_000\n", "seed", "1000" },
        { AXOLOTL "seed: 0x10\n", "seed", "0x10" },
        /* the best model */
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 2\nearly_stopping_patience: 3\n",
          "early_stopping_steps", "3" },
        { AXOLOTL "early_stopping_patience: 3\n", "early_stopping_steps", NULL },
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 2\nload_best_model_at_end: true\n"
                  "metric_for_best_model: eval_loss\n",
          "metric_for_best_model", "eval_loss" },
        { AXOLOTL "val_set_size: 0.1\nevals_per_epoch: 2\nload_best_model_at_end: true\n"
                  "metric_for_best_model: eval_f1\n",
          "metric_for_best_model", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_names_the_data_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: llama3\n"),
          "template", "llama3" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: jamba\n"),
          "template", NULL },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\n- {path: c/d, type: alpaca}\n"
                       "chat_template: llama3\n"),
          "template", "llama3" },
        { AXOLOTL_DATA("- {path: a/b, type: completion}\n"), "stage", "pt" },
        { AXOLOTL_DATA("- {path: a/b, type: alpaca}\n- {path: c/b, type: alpaca}\n"),
          "dataset", "b.jsonl,b-1.jsonl" },
        { AXOLOTL_DATA("- {path: a/b, type: alpaca}\n- {path: a/b, type: alpaca}\n"),
          "dataset", "b.jsonl,b.jsonl" },
        { AXOLOTL_DATA("- {path: a/b, type: alpaca}\n- {path: a/b, type: alpaca}\n"
                       "dataset_exact_deduplication: true\n"),
          "dataset", "b.jsonl" },
        { AXOLOTL_DATA("- {path: ./my.jsonl, type: alpaca}\n"), "dataset", "./my.jsonl" },
        { AXOLOTL_DATA("- {path: json, ds_type: json, data_files: [x.json], type: "
                       "alpaca}\n"),
          "dataset", "x.json" },
        /* part of a file: with dataset_info.json, under a name without extension */
        { AXOLOTL_DATA("- {path: my.jsonl, type: alpaca, split: 'train[:10%]'}\n"),
          "dataset", "my" },
        { AXOLOTL_DATA("- {path: my.jsonl, type: alpaca, split: train}\n"), "dataset",
          "my.jsonl" },
        { AXOLOTL_DATA("- {path: my.json.gz, type: alpaca, split: 'train[:10%]'}\n"
                       "- {path: my.json.gz, type: alpaca, split: 'train[90%:]'}\n"
                       "- {path: my.json.gz, type: alpaca, split: 'train[:10%]'}\n"),
          "dataset", "my,my-1,my" },
        { AXOLOTL_DATA("- {path: my.jsonl, type: alpaca, split: test}\n"), "dataset",
          "my.jsonl" },
        { AXOLOTL_DATA("- {path: my.jsonl, type: chat_template, field_messages: talk}\n"),
          "dataset", "my" },
        { AXOLOTL_DATA("- {path: json, ds_type: json, data_files: [x.json, y.json], "
                       "type: alpaca}\n"),
          "dataset", "x.json,y.json" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template, field_messages: talk}\n"),
          "dataset", "b" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template, field_messages: "
                       "conversations, message_property_mappings: {role: from, "
                       "content: value}}\n"),
          "dataset", "b.jsonl" },
        { AXOLOTL_DATA("- {path: a/b, type: alpaca}\n"
                       "test_datasets:\n"
                       "- {path: a/b, split: test, type: alpaca}\n"
                       "eval_steps: 9\n"),
          "eval_dataset", "b-eval1.jsonl" },
        { AXOLOTL_STREAM, "stage", "pt" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

#define AXOLOTL_PAIRS(rl, set)                                            \
    "base_model: m\nadapter: lora\nlora_r: 8\nlora_dropout: 0.1\nrl: " rl \
    "\ndatasets: [" set "]\n"
#define AXOLOTL_REWARD                                                                    \
    AXOLOTL_PAIRS("", "{path: a/b, type: bradley_terry.chat_template}")                   \
    "model_type: AutoModelForSequenceClassification\nnum_labels: 1\nreward_model: true\n" \
    "center_rewards_coefficient: 0.01\nchat_template: llama3\n"
#define INTEL "{path: a/b, type: chatml.intel}"

static void test_import_keeps_the_preferences_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL_PAIRS("dpo", INTEL), "stage", "dpo" },
        { AXOLOTL_PAIRS("dpo", INTEL), "pref_loss", "sigmoid" },
        { AXOLOTL_PAIRS("dpo", INTEL), "pref_beta", NULL },
        { AXOLOTL_PAIRS("dpo", INTEL), "pref_ftx", NULL },
        { AXOLOTL_PAIRS("dpo", INTEL), "lora_dropout", NULL },
        { AXOLOTL_PAIRS("dpo", INTEL), "template", "chatml" },
        { AXOLOTL_PAIRS("dpo", INTEL), "dataset", "b.jsonl" },
        { AXOLOTL_PAIRS("dpo", INTEL) "train_on_inputs: true\n", "train_on_prompt",
          NULL },
        { AXOLOTL_PAIRS("dpo", INTEL) "sample_packing: true\n", "packing", NULL },
        { AXOLOTL_PAIRS("dpo", INTEL) "rl_beta: 0.3\n", "pref_beta", "0.3" },
        { AXOLOTL_PAIRS("dpo", INTEL) "rl_beta: 0.3\ntrl: {beta: 0.4}\n", "pref_beta",
          "0.4" },
        { AXOLOTL_PAIRS("dpo", INTEL) "dpo_beta: 0.2\n", "pref_beta", "0.2" },
        { AXOLOTL_PAIRS("dpo", INTEL) "dpo_label_smoothing: 0.1\n", "dpo_label_smoothing",
          "0.1" },
        { AXOLOTL_PAIRS("dpo", INTEL) "dpo_loss_type: [hinge]\n", "pref_loss", "hinge" },
        { AXOLOTL_PAIRS("ipo", INTEL), "pref_loss", "ipo" },
        { AXOLOTL_PAIRS("ipo", INTEL) "dpo_label_smoothing: 0.1\n", "dpo_label_smoothing",
          NULL },
        { AXOLOTL_PAIRS("orpo", INTEL) "orpo_alpha: 0.2\n", "pref_loss", "orpo" },
        { AXOLOTL_PAIRS("orpo", INTEL) "orpo_alpha: 0.2\n", "pref_beta", "0.2" },
        { AXOLOTL_PAIRS("simpo", INTEL) "simpo_gamma: 1.4\n", "simpo_gamma", "1.4" },
        { AXOLOTL_PAIRS("simpo", INTEL), "pref_ftx", "1.0" },
        { AXOLOTL_PAIRS("simpo", INTEL) "cpo_alpha: 0.0\n", "pref_ftx", "0.0" },
        { AXOLOTL_PAIRS("kto", INTEL), "stage", "kto" },
        { AXOLOTL_PAIRS("kto", INTEL), "pref_loss", NULL },
        { AXOLOTL_PAIRS("kto", INTEL) "rl_beta: 0.3\n", "pref_beta", "0.3" },
        { AXOLOTL_PAIRS("kto", INTEL) "kto_undesirable_weight: 0.2\n",
          "kto_rejected_weight", "0.2" },
        { AXOLOTL_PAIRS("kto", INTEL), "dataset", "b" },
        { AXOLOTL_PAIRS("kto", "{path: a/b, type: {field_label: good}}"), "dataset",
          "b" },
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: llama3.ultra}"), "template", "llama3" },
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: llama3.ultra}"), "dataset", "b.jsonl" },
        /* with dataset_info.json: the question is in `input` */
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: chatml.icr}"), "dataset", "b" },
        { AXOLOTL_PAIRS(
              "dpo",
              "{path: a/b, type: chat_template.default}") "chat_template: llama3\n",
          "dataset", "b.jsonl" },
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: chat_template.default, "
                               "field_messages: talk}") "chat_template: llama3\n",
          "dataset", "b" },
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: chat_template.default, field_chosen: "
                               "good}") "chat_template: llama3\n",
          "template", "llama3" },
        { AXOLOTL_PAIRS(
              "orpo",
              "{path: a/b, type: chat_template.argilla}") "chat_template: chatml\n",
          "template", "chatml" },
        { AXOLOTL_PAIRS("dpo",
                        "{path: a/b, type: {field_prompt: q, field_chosen: good}}"),
          "dataset", "b" },
        { AXOLOTL_PAIRS("", "{path: a/b, type: alpaca}") "rl_beta: 0.1\n", "pref_beta",
          NULL },
        { AXOLOTL_PAIRS("", "{path: a/b, type: alpaca}"), "lora_dropout", "0.1" },
        { AXOLOTL_REWARD, "stage", "rm" },
        { AXOLOTL_REWARD, "trainspool", "{reward_head: score, disable_dropout: true}" },
        { AXOLOTL_REWARD, "center_rewards_coefficient", "0.01" },
        { AXOLOTL_REWARD, "template", "llama3" },
        { AXOLOTL_REWARD, "dataset", "b" },
        { AXOLOTL_REWARD, "lora_dropout", NULL },
        { AXOLOTL_REWARD, "pref_loss", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

#define AXOLOTL_REWARDED(rl, trl)                                               \
    "base_model: m\nadapter: lora\nlora_r: 8\nlora_dropout: 0.1\nrl: " rl       \
    "\ntrl: {reward_funcs: [trl.rewards.accuracy_reward]" trl "}\ndatasets: [{" \
    "path: a/b, type: chat_template}]\nchat_template: chatml\n"

static void test_import_keeps_the_rewards_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL_REWARDED("grpo", ""), "stage", "grpo" },
        { AXOLOTL_REWARDED("grpo", ""), "reward_funcs", "answer" },
        { AXOLOTL_REWARDED("grpo", ""), "lora_dropout", NULL },
        { AXOLOTL_REWARDED("grpo", ", beta: 0.04"), "beta", "0.04" },
        { AXOLOTL_REWARDED("grpo", ", beta: 0.04"), "pref_beta", NULL },
        { AXOLOTL_REWARDED("grpo", ", num_generations: 4"), "num_generations", "4" },
        { AXOLOTL_REWARDED("grpo", ", loss_type: bnpo"), "loss_type", "bnpo" },
        { AXOLOTL_REWARDED("grpo", ", scale_rewards: false"), "scale_rewards", "none" },
        { AXOLOTL_REWARDED("grpo", ", temperature: 0.7"), "temperature", "0.7" },
        { AXOLOTL_REWARDED("grpo", ", use_vllm: true, vllm_mode: colocate"), "stage",
          "grpo" },
        { AXOLOTL_REWARDED("gdpo", ""), "multi_objective_aggregation",
          "normalize_then_sum" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

/* Check the entry of dataset_info.json for two answers under other names. */
static void test_import_names_the_columns_of_pairs(void **state)
{
    static const struct {
        const char *source, *expected;
    } cases[] = {
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: chatml.icr}"),
          "\"formatting\": \"alpaca\", \"ranking\": true, \"columns\": {\"prompt\": "
          "\"input\", \"chosen\": \"chosen\", \"rejected\": \"rejected\", \"system\": "
          "\"system\"}" },
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: {field_prompt: q, field_rejected: "
                               "bad, field_system: s}}"),
          "{\"prompt\": \"q\", \"chosen\": \"chosen\", \"rejected\": \"bad\", "
          "\"system\": \"s\"}" },
        { AXOLOTL_PAIRS("dpo", "{path: a/b, type: chat_template.default, "
                               "field_messages: talk, field_chosen: good, roles: "
                               "{user: [human], assistant: [bot]}}"),
          "\"formatting\": \"sharegpt\", \"ranking\": true, \"columns\": {\"messages\": "
          "\"talk\", \"chosen\": \"good\", \"rejected\": \"rejected\"}, \"tags\": "
          "{\"role_tag\": \"role\", \"content_tag\": \"content\", \"user_tag\": "
          "\"human\", \"assistant_tag\": \"bot\", \"system_tag\": \"system\"}" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        if (!trial.good || !strstr(trial.import.text.data, cases[i].expected))
            fail_msg("of\n%s%s", cases[i].source,
                     trial.good ? trial.import.text.data : trial.err.text);
        trial_end(&trial);
    }
}

/* In stage pt, texts are joined and cut into blocks, or each is truncated to
 * cutoff_len. */
static void test_import_loses_no_text_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL_TEXT, "packing", "true" },
        { AXOLOTL_TEXT "sample_packing: false\n", "packing", "true" },
        { AXOLOTL_TEXT "sample_packing: true\n", "packing", "true" },
        { AXOLOTL_TEXT "sample_packing: true\n", "neat_packing", NULL },
        { AXOLOTL_TEXT "sample_packing: true\neval_sample_packing: false\n",
          "dataloader_drop_last", "true" },
        { AXOLOTL_STREAM, "packing", "false" },
        { AXOLOTL_STREAM "pretraining_sample_concatenation: true\n", "packing", "true" },
        { AXOLOTL_STREAM "sample_packing: true\n", "packing", "true" },
        { AXOLOTL_STREAM "sample_packing: true\n", "neat_packing", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_writes_the_defaults_of_torchtune(void **state)
{
    static const struct meaning meanings[] = {
        { TORCHTUNE_ADAM, "model_name_or_path", "/tmp/model" },
        { TORCHTUNE_ADAM, "finetuning_type", "full" },
        { TORCHTUNE_ADAM, "dataset", "alpaca.jsonl" },
        { TORCHTUNE_ADAM, "template", "llama3" },
        /* defaults */
        { TORCHTUNE_ADAM, "weight_decay", "0.01" },
        { TORCHTUNE_ADAM, "lr_scheduler_type", "constant" },
        { TORCHTUNE_ADAM, "max_grad_norm", "0.0" },
        { TORCHTUNE_ADAM, "gradient_checkpointing", "false" },
        { TORCHTUNE_ADAM, "dataloader_drop_last", "true" },
        { TORCHTUNE_ADAM, "train_on_prompt", "true" },
        { TORCHTUNE_ADAM, "save_strategy", "epoch" },
        { TORCHTUNE_ADAM, "cutoff_len", "4096" },
        { TORCHTUNE "optimizer: {_component_: torch.optim.AdamW}\n", "learning_rate",
          "1e-3" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

#define TUNE_LORA(more)                                                         \
    "checkpointer: {checkpoint_dir: /m}\n"                                      \
    "dataset: {_component_: torchtune.datasets.alpaca_dataset, packed: true}\n" \
    "optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit, lr: 1e-4, "    \
    "weight_decay: 0.0}\n"                                                      \
    "model:\n  _component_: torchtune.models.llama3.lora_llama3_8b\n"           \
    "  lora_attn_modules: [q_proj, output_proj]\n" more

static void test_import_keeps_the_settings_of_torchtune(void **state)
{
    static const struct meaning meanings[] = {
        /* given values */
        { TORCHTUNE_ADAM "batch_size: 4\n", "per_device_train_batch_size", "4" },
        { TORCHTUNE_ADAM "clip_grad_norm: 1.0\n", "max_grad_norm", "1.0" },
        { TORCHTUNE_ADAM "clip_grad_norm: .inf\n", "max_grad_norm", "0.0" },
        { TORCHTUNE_ADAM "clip_grad_norm: inf\n", "max_grad_norm", "0.0" },
        { TORCHTUNE_ADAM "clip_grad_norm: 'Infinity'\n", "max_grad_norm", "0.0" },
        { TORCHTUNE_ADAM "clip_grad_norm: 0\n", "max_grad_norm", "0.0" },
        { TORCHTUNE_ADAM "dtype: bf16\n", "pure_bf16", "true" },
        { TORCHTUNE_ADAM "dtype: fp32\n", "pure_bf16", NULL },
        { TORCHTUNE_ADAM "max_steps_per_epoch: 50\nepochs: 3\n", "max_steps", "150" },
        { TORCHTUNE_ADAM "max_steps_per_epoch:\nepochs: 3\n", "max_steps", NULL },
        { TORCHTUNE_ADAM "shuffle: false\n", "disable_shuffling", "true" },
        { TORCHTUNE_ADAM "seed: null\n", "seed", NULL },
        { TORCHTUNE_ADAM "seed: 7\n", "seed", "7" },
        { TORCHTUNE_ADAM "device: cpu\n", "use_cpu", "true" },
        { TORCHTUNE_ADAM "save_every_n_steps: 100\n", "save_steps", "100" },
        { TORCHTUNE_ADAM
          "lr_scheduler: {_component_: "
          "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup, "
          "num_warmup_steps: 100}\n",
          "lr_scheduler_type", "cosine" },
        { TORCHTUNE_ADAM
          "lr_scheduler: {_component_: "
          "torchtune.training.lr_schedulers.get_cosine_schedule_with_warmup, "
          "num_warmup_steps: 100}\n",
          "warmup_steps", "100" },
        /* adapters: torchtune's alpha is 16 for any rank */
        { TUNE_LORA("  lora_rank: 64\n"), "lora_alpha", "16" },
        { TUNE_LORA("  apply_lora_to_mlp: True\n"), "lora_target",
          "q_proj,o_proj,gate_proj,up_proj,down_proj" },
        /* in the files of Phi-3 and Phi-4, several layers are one */
        { TORCHTUNE_ADAPTERS("phi3.qlora_phi3_mini", "q_proj, v_proj, output_proj",
                             "true"),
          "lora_target", "qkv_proj,o_proj,gate_up_proj,down_proj" },
        { TORCHTUNE_ADAPTERS("phi4.lora_phi4_14b", "k_proj", "false"), "lora_target",
          "qkv_proj" },
        { TORCHTUNE_ADAPTERS("qwen3.lora_qwen3_8b", "q_proj, v_proj, output_proj",
                             "true"),
          "lora_target", "q_proj,v_proj,o_proj,gate_proj,up_proj,down_proj" },
        { TUNE_LORA(""), "optim", "paged_adamw_8bit" },
        { TUNE_LORA(""), "weight_decay", "0.0" },
        { TORCHTUNE "optimizer: {_component_: bitsandbytes.optim.Lion8bit, lr: 1}\n",
          "optim", "lion_8bit" },
        { TORCHTUNE "optimizer: {_component_: bitsandbytes.optim.Lion8bit, lr: 1}\n",
          "adam_beta2", "0.99" },
        { TUNE_LORA(""), "neat_packing", "true" },
        /* plain text */
        { TORCHTUNE_TEXT("true"), "packing", "true" },
        { TORCHTUNE_TEXT("true"), "neat_packing", NULL },
        { TORCHTUNE_TEXT("false"), "packing", "false" },
        /* references ${...} */
        { "a: /x\nb: ${a}/y\nmodel: {_component_: m.lora_x}\noptimizer: {lr: 1}\n"
          "checkpointer: {checkpoint_dir: '${b}/z'}\ndataset: {source: q/r}\n",
          "model_name_or_path", "/x/y/z" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_keeps_the_distillation_of_torchtune(void **state)
{
    static const struct meaning meanings[] = {
        { TORCHTUNE_ADAM "teacher_checkpointer: {checkpoint_dir: /t}\n"
                         "kd_loss: {_component_: torchtune.modules.loss.ForwardKLLoss}\n",
          "stage", "distill" },
        { TORCHTUNE_ADAM "teacher_checkpointer: {checkpoint_dir: /t}\n"
                         "kd_loss: {_component_: torchtune.modules.loss.ReverseKLLoss}\n",
          "kd_beta", "1.0" },
        { TORCHTUNE_ADAM "teacher_checkpointer: {checkpoint_dir: /t}\nkd_ratio: 0.3\n",
          "kd_ratio", "0.3" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

#define TORCHTUNE_PAIRS(loss, set)                                                     \
    "checkpointer: {checkpoint_dir: /m/}\noptimizer: {lr: 1e-6}\n"                     \
    "model: {_component_: torchtune.models.llama2.lora_llama2_7b, lora_attn_modules: " \
    "[q_proj], lora_dropout: 0.1}\n"                                                   \
    "loss: {_component_: torchtune.rlhf.loss." loss "}\n"                              \
    "dataset: {_component_: torchtune.datasets." set "}\n"

static void test_import_keeps_the_preferences_of_torchtune(void **state)
{
    static const struct meaning meanings[] = {
        { TORCHTUNE_PAIRS("DPOLoss", "hh_rlhf_helpful_dataset"), "stage", "dpo" },
        { TORCHTUNE_PAIRS("DPOLoss", "hh_rlhf_helpful_dataset"), "pref_loss", "sigmoid" },
        { TORCHTUNE_PAIRS("DPOLoss", "hh_rlhf_helpful_dataset"), "pref_beta", NULL },
        { TORCHTUNE_PAIRS("DPOLoss", "hh_rlhf_helpful_dataset"), "lora_dropout", NULL },
        { TORCHTUNE_PAIRS("DPOLoss", "hh_rlhf_helpful_dataset"), "dataset",
          "HH-RLHF-Helpful-standard.jsonl" },
        { TORCHTUNE_PAIRS("DPOLoss, beta: 0.05, label_smoothing: 0.1",
                          "hh_rlhf_helpful_dataset"),
          "pref_beta", "0.05" },
        { TORCHTUNE_PAIRS("DPOLoss, beta: 0.05, label_smoothing: 0.1",
                          "hh_rlhf_helpful_dataset"),
          "dpo_label_smoothing", "0.1" },
        { TORCHTUNE_PAIRS("RSOLoss, gamma: 0.2", "hh_rlhf_helpful_dataset"), "pref_loss",
          "hinge" },
        { TORCHTUNE_PAIRS("RSOLoss, gamma: 0.2", "hh_rlhf_helpful_dataset"), "pref_beta",
          "0.2" },
        { TORCHTUNE_PAIRS("DPOLoss", "stack_exchange_paired_dataset"), "dataset",
          "stack-exchange-paired" },
        { TORCHTUNE_PAIRS("DPOLoss",
                          "preference_dataset, source: a/b, train_on_input: true"),
          "train_on_prompt", NULL },
        { TORCHTUNE_PAIRS("DPOLoss", "preference_dataset, source: json, data_files: "
                                     "x.json, column_map: {chosen: good}"),
          "dataset", "x" },
        { TORCHTUNE_PAIRS("DPOLoss",
                          "preference_dataset, source: a/b") "ref_checkpointer: "
                                                             "{checkpoint_dir: /m}\n",
          "ref_model", NULL },
        { TORCHTUNE_PAIRS("DPOLoss",
                          "preference_dataset, source: a/b") "ref_checkpointer: "
                                                             "{checkpoint_dir: /r/}\n",
          "ref_model", "/r" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

/* torchtune evaluates only if the file requests it. */
static void test_import_evaluates_as_torchtune(void **state)
{
    static const struct meaning meanings[] = {
        { TORCHTUNE_ADAM "dataset_val: {source: a/b, split: 'train[95%:]'}\n"
                         "run_val_every_n_steps: 10\nbatch_size_val: 3\n",
          "eval_steps", "10" },
        { TORCHTUNE_ADAM "dataset_val: {source: a/b, split: 'train[95%:]'}\n"
                         "run_val_every_n_steps: null\n",
          "eval_dataset", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_writes_the_defaults_of_axolotl),
        cmocka_unit_test(test_import_keeps_the_steps_of_axolotl),
        cmocka_unit_test(test_import_names_the_zero_stage_of_axolotl),
        cmocka_unit_test(test_import_keeps_the_precision_of_axolotl),
        cmocka_unit_test(test_import_keeps_the_adapters_of_axolotl),
        cmocka_unit_test(test_import_keeps_saving_and_evaluation_of_axolotl),
        cmocka_unit_test(test_import_names_the_data_of_axolotl),
        cmocka_unit_test(test_import_keeps_the_preferences_of_axolotl),
        cmocka_unit_test(test_import_keeps_the_rewards_of_axolotl),
        cmocka_unit_test(test_import_names_the_columns_of_pairs),
        cmocka_unit_test(test_import_loses_no_text_of_axolotl),
        cmocka_unit_test(test_import_writes_the_defaults_of_torchtune),
        cmocka_unit_test(test_import_keeps_the_settings_of_torchtune),
        cmocka_unit_test(test_import_keeps_the_distillation_of_torchtune),
        cmocka_unit_test(test_import_keeps_the_preferences_of_torchtune),
        cmocka_unit_test(test_import_evaluates_as_torchtune),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
