/* tests/unit/test_import_outcomes.c - the outcome for each key of an imported file. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"
#include "patcher/import/import_internal.h"

static void test_import_reports_every_key(void **state)
{
    static const struct {
        const char *key;
        enum import_outcome outcome;
    } expected[] = {
        { "base_model", IMPORT_CARRIED },
        { "datasets[0].type", IMPORT_CARRIED },
        { "datasets[0].shards", IMPORT_DIFFERS },
        { "wandb_project", IMPORT_IDLE },
        { "load_in_4bit", IMPORT_DIFFERS },
        { "load_in_8bit", IMPORT_IDLE },
        { "fp16", IMPORT_IDLE },
        { "unheard_of", IMPORT_DIFFERS },
        { "special_tokens.pad_token", IMPORT_IDLE },
        { "special_tokens.eos_token", IMPORT_DIFFERS },
        { "special_tokens.additional_special_tokens", IMPORT_DIFFERS },
        { "tokens.bos_token", IMPORT_DIFFERS }, /* as files of 2023 have them */
        { "tokens.pad_token", IMPORT_IDLE },
    };
    static const char source[] =
        "base_model: m\ndatasets: [{path: a/b, type: alpaca, shards: 4}]\n"
        "wandb_project: mine\nload_in_4bit: true\nload_in_8bit: false\nfp16:\n"
        "unheard_of: {a: 1}\nspecial_tokens: {pad_token: <p>, eos_token: <e>, "
        "additional_special_tokens: [<a>]}\ntokens: {bos_token: <s>, pad_token: <p>}\n";
    struct trial trial = trial_new("f.yml", source, strlen(source));

    (void)state;
    assert_true(trial.good);
    for (size_t i = 0; i < TS_COUNT(expected); i++) {
        const char *name = expected[i].key;
        const struct import_key *key =
            outcome_of(&trial, strcmp(name, "unheard_of") == 0 ? "unheard_of.a" : name);

        if (!key || key->outcome != expected[i].outcome)
            fail_msg("%s: %s", name,
                     key ? import_outcome_names[key->outcome] : "dropped");
        assert_true(key->outcome == IMPORT_CARRIED ? key->into && !key->why
                                                   : key->why && !key->into);
    }
    trial_end(&trial);
}

/* A job has one template: datasets that require another one are reported. */
static void test_import_reports_data_with_another_template(void **state)
{
#define ALPACA "- {path: a.jsonl, type: alpaca}\n"
#define CHAT   "- {path: b.jsonl, type: chat_template}\n"
    static const struct outcome_case cases[] = {
        { AXOLOTL_DATA(ALPACA CHAT), "datasets[0].type", IMPORT_CARRIED, "template" },
        { AXOLOTL_DATA(ALPACA CHAT), "datasets[1].type", IMPORT_DIFFERS,
          "b.jsonl, of type chat_template, requires the model's own template; a job has "
          "one template for all its data, here alpaca" },
        { AXOLOTL_DATA(CHAT ALPACA), "datasets[1].type", IMPORT_DIFFERS,
          "a.jsonl, of type alpaca, requires the template alpaca; a job has one template "
          "for all its data, here the model's own" },
        { AXOLOTL_DATA(CHAT ALPACA) "chat_template: llama3\n", "datasets[1].type",
          IMPORT_DIFFERS, "here llama3" },
        { AXOLOTL_DATA(ALPACA CHAT) "chat_template: llama3\n", "datasets[1].type",
          IMPORT_DIFFERS, "requires the template llama3" },
        { AXOLOTL_DATA(ALPACA CHAT) "chat_template: llama3\n", "chat_template",
          IMPORT_DIFFERS, "here alpaca" },
        { AXOLOTL_DATA(ALPACA CHAT) "chat_template: jamba\n", "chat_template",
          IMPORT_DIFFERS, "requires Axolotl's template jamba" },
        { AXOLOTL_DATA(ALPACA CHAT) "chat_template: alpaca\n", "datasets[1].type",
          IMPORT_CARRIED, "dataset" },
        { AXOLOTL_DATA(ALPACA CHAT) "chat_template: alpaca\n", "chat_template",
          IMPORT_CARRIED, "template" },
        { AXOLOTL_DATA(ALPACA) "chat_template: llama3\n", "chat_template", IMPORT_IDLE,
          "no conversation dataset" },
        { AXOLOTL_DATA("- {path: b, type: chat_template, chat_template: gemma}\n"
                       "chat_template: llama3\n"),
          "chat_template", IMPORT_IDLE, "has its own" },
        { AXOLOTL_DATA("- {path: b, type: chat_template, chat_template: jamba}\n"),
          "datasets[0].chat_template", IMPORT_DIFFERS, "no such template" },
        { AXOLOTL_DATA("- {path: b, type: chat_template, chat_template: gemma}\n"),
          "datasets[0].chat_template", IMPORT_CARRIED, "template" },
        { AXOLOTL_DATA(CHAT "- {path: c, type: completion}\n"), "datasets[1].type",
          IMPORT_DIFFERS, "plain text" },
        { AXOLOTL_DATA("- {path: c, type: completion}\n"), "datasets[0].type",
          IMPORT_CARRIED, "stage" },
        { AXOLOTL_DATA(ALPACA) "test_datasets:\n" CHAT, "test_datasets[0].type",
          IMPORT_DIFFERS, "the model's own" },
    };
#undef ALPACA
#undef CHAT

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_carries_a_base_in_4_bits(void **state)
{
    static const char source[] =
        "checkpointer: {checkpoint_dir: /m}\n"
        "optimizer: {lr: 1}\n"
        "model: {_component_: torchtune.models.llama2.lora_llama2_7b, lora_rank: 8, "
        "quantize_base: true}\n"
        "dataset: {_component_: torchtune.datasets.alpaca_dataset}\n";
    struct trial trial = trial_new("f.yml", source, strlen(source));
    const struct import_key *key = outcome_of(&trial, "model.quantize_base");

    (void)state;
    assert_true(trial.good && key && key->outcome == IMPORT_CARRIED);
    assert_string_equal(key->into, "quantization_bit");
    trial_end(&trial);
}

#define TUNE_SETS(further)                                                            \
    "checkpointer: {checkpoint_dir: /m}\noptimizer: {lr: 1}\nmodel: {_component_: "   \
    "torchtune.models.llama2.llama2_7b}\ndataset:\n- {_component_: "                  \
    "torchtune.datasets.alpaca_dataset}\n- {_component_: torchtune.datasets." further \
    "}\n"

/* Reported among the keys that may change the result, because the user should know. */
static void test_import_reports_what_may_change_the_result(void **state)
{
    static const struct {
        const char *source, *key;
    } cases[] = {
        { AXOLOTL "qat: {weight_dtype: int4}\n", "qat" },
        { AXOLOTL "unfrozen_parameters: [lm_head]\n", "unfrozen_parameters" },
        { AXOLOTL "optimizer: dion\n", "optimizer" },
        { AXOLOTL "lr_scheduler: rex\n", "lr_scheduler" },
        { AXOLOTL "fp8: true\n", "fp8" },
        { AXOLOTL "save_strategy: best\n", "save_strategy" },
        { AXOLOTL "tokenizer_config: other\n", "tokenizer_config" },
        { AXOLOTL_DATA("- {path: a/b, type: jeopardy}\n"), "datasets[0].type" },
        { AXOLOTL_DATA("- {path: a.jsonl, type: alpaca, split: test}\n"),
          "datasets[0].split" },
        { AXOLOTL_DATA("- {path: json, ds_type: json, data_files: [x.json, y.json], "
                       "type: alpaca, split: 'train[:9]'}\n"),
          "datasets[0].split" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: jamba\n"),
          "chat_template" },
        { TORCHTUNE "optimizer: {_component_: torchao.optim.Adagrad, lr: 1e-4}\n",
          "optimizer._component_" },
        { TORCHTUNE_ADAM "clip_grad_norm: 0\n", "clip_grad_norm" },
        { TUNE_SETS("alpaca_dataset, train_on_input: false"),
          "dataset[1].train_on_input" },
        { TUNE_SETS("instruct_dataset, source: a/b"), "dataset[1]._component_" },
        { TUNE_SETS("text_completion_dataset, source: a/b"), "dataset[1]._component_" },
        { TUNE_SETS("alpaca_dataset, new_system_prompt: Hi"),
          "dataset[1].new_system_prompt" },
        { TORCHTUNE_ADAM "quantizer: {_component_: x.Int8QATQuantizer}\n", "quantizer" },
        { AXOLOTL "adapter: qlora\nload_in_4bit: true\n"
                  "bnb_config_kwargs: {bnb_4bit_quant_type: fp4}\n",
          "bnb_config_kwargs" },
        { AXOLOTL "adapter: lora\nload_in_8bit: true\n", "load_in_8bit" },
        { "checkpointer: {checkpoint_dir: /m, checkpoint_files: [a.bin]}\n"
          "optimizer: {lr: 1}\ndataset: {_component_: my.records}\n"
          "model: {_component_: torchtune.models.llama2.llama2_7b}\n",
          "checkpointer.checkpoint_files" },
        { "checkpointer: {checkpoint_dir: /m}\n"
          "optimizer: {lr: 1}\ndataset: {_component_: my.records}\n"
          "model: {_component_: torchtune.models.llama2.llama2_7b}\n",
          "dataset._component_" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));
        const struct import_key *key =
            trial.good ? outcome_of(&trial, cases[i].key) : NULL;

        if (!key || key->outcome != IMPORT_DIFFERS)
            fail_msg("%s: %s is %s", cases[i].source, cases[i].key,
                     key ? import_outcome_names[key->outcome] : trial.err.text);
        trial_end(&trial);
    }
}

/* A key that another one overrides is reported as such, and not as part of the job. */
static void test_import_reports_which_key_wins(void **state)
{
    static const struct outcome_case cases[] = {
        { AXOLOTL "warmup_steps: 10\nwarmup_ratio: 0.1\n", "warmup_ratio", IMPORT_DIFFERS,
          "Axolotl refuses a file with both warmup_steps and warmup_ratio" },
        { AXOLOTL "warmup_steps: 0\nwarmup_ratio: 0.1\n", "warmup_ratio", IMPORT_IDLE,
          "warmup_steps takes precedence" },
        { AXOLOTL "gradient_accumulation_steps: 2\nbatch_size: 8\n", "batch_size",
          IMPORT_DIFFERS, "gradient_accumulation_steps is kept" },
        { AXOLOTL "eval_steps: 2\nevals_per_epoch: 8\n", "evals_per_epoch",
          IMPORT_DIFFERS, "eval_steps is kept" },
        { AXOLOTL "save_steps: 2\nsave_strategy: epoch\n", "save_strategy",
          IMPORT_DIFFERS, "save_steps is kept" },
        { AXOLOTL "save_steps: 2\nsave_strategy: steps\n", "save_strategy", IMPORT_IDLE,
          "save_steps takes precedence" },
        { AXOLOTL "val_set_size: 0.1\ntest_datasets: [{path: t.jsonl, type: alpaca}]\n",
          "val_set_size", IMPORT_DIFFERS, "test_datasets is kept" },
        { AXOLOTL "cosine_min_lr_ratio: 0.1\nlr_scheduler_kwargs: {min_lr: 1e-6}\n",
          "lr_scheduler_kwargs", IMPORT_IDLE, "cosine_min_lr_ratio takes precedence" },
        { AXOLOTL_LORA "lora_target_modules: all-linear\n", "lora_target_modules",
          IMPORT_CARRIED, "lora_target" },
        { AXOLOTL_LORA "lora_target_linear: true\nlora_target_modules: [q_proj]\n",
          "lora_target_modules", IMPORT_IDLE, "all linear layers" },
        { AXOLOTL_LORA "lora_target_modules:\n", "lora_target_modules", IMPORT_IDLE,
          "empty" },
        { AXOLOTL "model_quantization_config: Mxfp4Config\n", "model_quantization_config",
          IMPORT_IDLE, "always dequantized" },
        { AXOLOTL "model_quantization_config: FineGrainedFP8Config\n",
          "model_quantization_config", IMPORT_DIFFERS,
          "the model's files are quantized" },
        { AXOLOTL "group_by_length: true\n", "group_by_length", IMPORT_IDLE,
          "from all lengths" },
        { AXOLOTL "group_by_length: false\n", "group_by_length", IMPORT_IDLE, "off" },
        { AXOLOTL "use_dft: true\n", "use_dft", IMPORT_CARRIED, "use_dft_loss" },
        { AXOLOTL "use_eaft: true\neaft_alpha: 2\n", "eaft_alpha", IMPORT_CARRIED,
          "eaft_alpha" },
        { AXOLOTL "use_eaft: true\neaft_k: 5\n", "eaft_k", IMPORT_DIFFERS, "20" },
        { AXOLOTL "use_eaft: false\neaft_k: 5\n", "eaft_k", IMPORT_IDLE, "only with" },
        { AXOLOTL_DATA("- {path: a.jsonl, type: alpaca, revision: v1}\n"),
          "datasets[0].revision", IMPORT_IDLE, "applies to hubs" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_reports_which_format_wins(void **state)
{
    static const struct outcome_case cases[] = {
        { AXOLOTL "fp16: true\nbf16: true\n", "fp16", IMPORT_IDLE,
          "bf16 takes precedence" },
        { AXOLOTL "fp16: true\nbf16: auto\n", "bf16", IMPORT_IDLE,
          "fp16 takes precedence" },
        { AXOLOTL "fp16: false\nbf16: true\n", "fp16", IMPORT_IDLE, "off" },
        { AXOLOTL "fp16: false\nbf16: auto\n", "fp16", IMPORT_DIFFERS, "float32" },
        { AXOLOTL "fp16: false\n", "fp16", IMPORT_DIFFERS, "float32" },
        { AXOLOTL "fp16:\nbf16: auto\n", "fp16", IMPORT_IDLE, "empty" },
        { AXOLOTL "fp16: false\nfloat16: true\n", "float16", IMPORT_DIFFERS,
          "uses pure float16" },
        { AXOLOTL "fp16: false\nfloat16: true\n", "fp16", IMPORT_IDLE, "off" },
        { AXOLOTL "float32: true\n", "float32", IMPORT_IDLE, "auto by default" },
        { AXOLOTL "float32: true\nbf16: false\n", "float32", IMPORT_IDLE,
          "float32 is used anyway" },
        { AXOLOTL "float32: true\nbf16: false\n", "bf16", IMPORT_IDLE, "off" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_reports_how_saving_is_decided(void **state)
{
    static const struct outcome_case cases[] = {
        { AXOLOTL "save_steps: 9\nsaves_per_epoch: 3\n", "saves_per_epoch",
          IMPORT_DIFFERS, "save_steps is kept" },
        { AXOLOTL "saves_per_epoch: 3\nsave_strategy: epoch\n", "save_strategy",
          IMPORT_IDLE, "saves_per_epoch takes precedence" },
        { AXOLOTL "save_strategy:\n", "save_strategy", IMPORT_IDLE, "empty" },
        { AXOLOTL "resume_from_checkpoint: ./c\nauto_resume_from_checkpoints: true\n",
          "auto_resume_from_checkpoints", IMPORT_IDLE,
          "resume_from_checkpoint takes precedence" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_reports_how_evaluation_is_decided(void **state)
{
    static const struct outcome_case cases[] = {
        { AXOLOTL "val_set_size: 0.1\neval_steps: 9\nevals_per_epoch: 3\n",
          "evals_per_epoch", IMPORT_DIFFERS, "eval_steps is kept" },
        { AXOLOTL "val_set_size: 0.1\neval_steps: 9\neval_strategy: steps\n",
          "eval_strategy", IMPORT_IDLE, "eval_steps takes precedence" },
        { AXOLOTL "val_set_size: 0.1\neval_batch_size: 3\n", "eval_batch_size",
          IMPORT_IDLE, "no evaluation interval" },
        { AXOLOTL "val_set_size: 0.1\neval_steps: 9\ngreater_is_better: true\n"
                  "metric_for_best_model: eval_f1\n",
          "greater_is_better", IMPORT_IDLE, "a lower loss is better" },
        { AXOLOTL "val_set_size: 0.1\neval_steps: 9\ngreater_is_better: true\n",
          "greater_is_better", IMPORT_CARRIED, "greater_is_better" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_reports_how_texts_are_packed(void **state)
{
    static const struct outcome_case cases[] = {
        { AXOLOTL_TEXT "sample_packing: false\n", "sample_packing", IMPORT_DIFFERS,
          "would be truncated" },
        { AXOLOTL_TEXT "sample_packing:\n", "sample_packing", IMPORT_IDLE, "off" },
        { AXOLOTL_TEXT "excess_length_strategy: drop\n", "excess_length_strategy",
          IMPORT_IDLE, "no piece of a text is longer" },
        { AXOLOTL_TEXT "sample_packing: true\n", "sample_packing", IMPORT_CARRIED,
          "packing" },
        { AXOLOTL_STREAM "pretraining_sample_concatenation: true\n",
          "pretraining_sample_concatenation", IMPORT_CARRIED, "packing" },
        { AXOLOTL_STREAM "sample_packing: true\npretrain_multipack_attn: true\n",
          "pretrain_multipack_attn", IMPORT_DIFFERS, "attend to each other" },
        { AXOLOTL_STREAM "sample_packing: true\npretrain_multipack_attn: false\n",
          "pretrain_multipack_attn", IMPORT_CARRIED, "packing" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_reports_keys_of_torchtune(void **state)
{
    static const struct outcome_case cases[] = {
        { TORCHTUNE_ADAM "run_val_every_n_steps: 9\n", "run_val_every_n_steps",
          IMPORT_IDLE, "no dataset_val" },
        { TORCHTUNE_ADAM "save_every_n_steps: 0\n", "save_every_n_steps", IMPORT_IDLE,
          "off" },
        { TORCHTUNE_ADAM "lr_scheduler: {_component_: "
                         "x.get_cosine_schedule_with_warmup, num_cycles: 2}\n",
          "lr_scheduler", IMPORT_DIFFERS, "num_cycles other" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

/* torchtune passes every key next to a _component_ to it. */
static void test_import_reports_arguments_of_components(void **state)
{
    static const struct outcome_case cases[] = {
        { TORCHTUNE "optimizer: {_component_: torch.optim.SGD, lr: 1, momentum: 0.9}\n",
          "optimizer.momentum", IMPORT_DIFFERS, "torchtune passes it to SGD;" },
        { TORCHTUNE_ADAM "lr_scheduler: {_component_: "
                         "x.get_cosine_schedule_with_warmup, min_lr: 1e-6}\n",
          "lr_scheduler.min_lr", IMPORT_DIFFERS, "get_cosine_schedule_with_warmup;" },
        { TORCHTUNE_ADAM "loss: {_component_: torch.nn.CrossEntropyLoss, "
                         "label_smoothing: 0.1}\n",
          "loss.label_smoothing", IMPORT_DIFFERS, "CrossEntropyLoss;" },
        { TORCHTUNE_ADAM "loss: {_component_: x.LinearCrossEntropyLoss, "
                         "num_output_chunks: 4}\n",
          "loss.num_output_chunks", IMPORT_IDLE, "memory" },
        { TORCHTUNE_ADAM "loss: {_component_: x.CrossEntropyLoss, weight: null}\n",
          "loss.weight", IMPORT_IDLE, "empty" },
        { TORCHTUNE_ADAM "unheard_of: 1\n", "unheard_of", IMPORT_DIFFERS,
          "that its recipe does not read" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_reports_every_key),
        cmocka_unit_test(test_import_reports_data_with_another_template),
        cmocka_unit_test(test_import_carries_a_base_in_4_bits),
        cmocka_unit_test(test_import_reports_what_may_change_the_result),
        cmocka_unit_test(test_import_reports_which_key_wins),
        cmocka_unit_test(test_import_reports_which_format_wins),
        cmocka_unit_test(test_import_reports_how_saving_is_decided),
        cmocka_unit_test(test_import_reports_how_evaluation_is_decided),
        cmocka_unit_test(test_import_reports_how_texts_are_packed),
        cmocka_unit_test(test_import_reports_keys_of_torchtune),
        cmocka_unit_test(test_import_reports_arguments_of_components),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
