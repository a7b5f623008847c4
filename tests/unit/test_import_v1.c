/* tests/unit/test_import_v1.c - a job imported from a file of LLaMA-Factory v1 does what
 * that program would do, key by key. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/file.h"
#include "base/path.h"
#include "base/size.h"

static void test_import_writes_the_defaults_of_v1(void **state)
{
    static const struct meaning meanings[] = {
        { V1, "model_name_or_path", "org/model" },
        { "train_dataset: a/b\nmodel_class: llm\n", "model_name_or_path",
          "Qwen/Qwen3-4B-Instruct-2507" },
        { V1, "stage", "sft" },
        { V1, "finetuning_type", "full" },
        { V1, "template", NULL },
        /* defaults that differ from those of a job */
        { V1, "per_device_train_batch_size", "1" },
        { V1, "gradient_accumulation_steps", "1" },
        { V1, "learning_rate", "1.0e-4" },
        { V1, "weight_decay", "0.01" },
        { V1, "lr_scheduler_type", "constant" },
        { V1, "bf16", "true" },
        { V1, "logging_steps", "1" },
        { V1, "save_strategy", "no" },
        { V1, "dataloader_drop_last", "true" },
        { V1_LORA, "lora_rank", "8" },
        { V1_LORA, "lora_alpha", "16" },
        { V1_LORA, "lora_dropout", "0.05" },
        /* given values win */
        { V1 "bf16: false\n", "bf16", "false" },
        { V1 "learning_rate: 2e-5\nmax_steps: 10\n", "learning_rate", "2e-5" },
        { V1 "learning_rate: 2e-5\nmax_steps: 10\n", "max_steps", "10" },
        { V1 "enable_activation_checkpointing: no\n", "gradient_checkpointing", "false" },
        { V1 "seed:\n", "seed", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_keeps_the_method_of_v1(void **state)
{
    static const struct meaning meanings[] = {
        { V1_LORA, "finetuning_type", "lora" },
        { V1 "peft_config: {name: lora, r: 4, target_modules: [q_proj, v_proj]}\n",
          "lora_target", "q_proj,v_proj" },
        { V1 "peft_config: {name: lora, r: 4, modules_to_save: [lm_head]}\n",
          "additional_target", "lm_head" },
        { V1 "peft_config: {name: lora, use_rslora: true}\n", "use_rslora", "true" },
        { V1 "peft_config: {name: lora, use_dora: true}\n", "use_dora", "true" },
        { V1 "peft_config: {name: lora, adapter_name_or_path: [a]}\n",
          "adapter_name_or_path", "a" },
        { V1 "peft_config: {name: freeze, freeze_trainable_layers: -2}\n",
          "finetuning_type", "freeze" },
        { V1 "peft_config: {name: freeze, freeze_trainable_layers: -2}\n",
          "freeze_trainable_layers", "-2" },
        { V1_LORA "quant_config: {name: bnb, quantization_bit: 4}\n", "quantization_bit",
          "4" },
        { V1_LORA "quant_config: {name: auto, quantization_bit: 4, double_quantization: "
                  "false}\n",
          "double_quantization", "false" },
        { V1_LORA "quant_config: {name: bnb, quantization_bit: 8}\n", "quantization_bit",
          NULL },
        { V1 "quant_config: {name: bnb, quantization_bit: 4}\n", "quantization_bit",
          NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_keeps_the_steps_of_v1(void **state)
{
    static const struct meaning meanings[] = {
        { V1 "micro_batch_size: 2\nglobal_batch_size: 16\n",
          "gradient_accumulation_steps", "8" },
        { V1 "micro_batch_size: 4\nglobal_batch_size: 2\n", "gradient_accumulation_steps",
          "1" },
        { V1 "lr_scheduler_config: {name: cosine}\n", "lr_scheduler_type", "cosine" },
        { V1 "lr_scheduler_config: {name: mine}\n", "lr_scheduler_type", "constant" },
        { V1 "optim_config: {name: sgd, wd: 0.1}\n", "optim", "sgd" },
        { V1 "optim_config: {name: sgd, wd: 0.1}\n", "weight_decay", "0.1" },
        { V1 "optim_config: {name: sgd, adamw_betas: [0.8, 0.9]}\n", "adam_beta2",
          "0.9" },
        { V1 "optim_config: {name: mine, wd: 0.1}\n", "optim", "adamw_torch" },
        { V1 "save_steps: 50\n", "save_strategy", "steps" },
        { V1 "save_steps: 50\n", "save_steps", "50" },
        { V1 "save_steps: 50\nsave_epochs: 1\n", "save_strategy", "epoch" },
        { V1 "save_steps: 50\nsave_epochs: 1\n", "save_steps", NULL },
        { V1 "save_epochs: 0.5\nnum_train_epochs: 2\n", "save_steps", "0.25" },
        { V1 "save_epochs: 0.5\nmax_steps: 2\n", "save_strategy", "epoch" },
        { V1 "resume_from_checkpoint: auto\n", "resume_from_checkpoint", "true" },
        { V1 "resume_from_checkpoint: outputs/1\n", "resume_from_checkpoint", NULL },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_keeps_the_preferences_of_v1(void **state)
{
    static const struct meaning meanings[] = {
        { V1_DPO, "stage", "dpo" },
        { V1_DPO, "pref_loss", "sigmoid" },
        { V1_DPO "pref_beta: 0.2\npref_ftx: 1.0\n", "pref_beta", "0.2" },
        { V1_DPO "pref_beta: 0.2\npref_ftx: 1.0\n", "pref_ftx", "1.0" },
        { V1_DPO "dpo_label_smoothing: 0.1\n", "dpo_label_smoothing", "0.1" },
        { V1_DPO "simpo_gamma: 0.7\n", "simpo_gamma", NULL },
        { V1 "pref_loss: simpo\nsimpo_gamma: 0.7\n", "simpo_gamma", "0.7" },
        { V1 "pref_loss: simpo\ndpo_label_smoothing: 0.1\n", "dpo_label_smoothing",
          NULL },
        /* stage dpo trains without dropout */
        { V1_DPO "peft_config: {name: lora, lora_dropout: 0.1}\n", "lora_dropout", NULL },
        /* a name says what the command would */
        { "model_class: llm\ntrain_dataset: data/v1_dpo_demo.yaml\n", "stage", "dpo" },
        { "model_class: llm\ntrain_dataset: data/adpo.yaml\n", "stage", "sft" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

static void test_import_reports_the_keys_of_v1(void **state)
{
    static const struct outcome_case cases[] = {
        { V1, "train_dataset", IMPORT_DIFFERS, "cannot be read here" },
        { V1, "model_class", IMPORT_IDLE, "language model" },
        { V1 "kernel_config: {name: auto}\n", "kernel_config", IMPORT_IDLE, "kernels" },
        { V1 "dist_config: {name: fsdp2}\n", "dist_config", IMPORT_IDLE, "ranks" },
        { V1 "quant_config: null\n", "quant_config", IMPORT_IDLE, "empty" },
        { V1 "cp_size: 2\n", "cp_size", IMPORT_IDLE, "ranks" },
        { V1 "batching_strategy: padding_free\n", "batching_strategy", IMPORT_IDLE,
          "padding" },
        { V1 "batching_strategy: dynamic_batching\n", "batching_strategy", IMPORT_DIFFERS,
          "tokens" },
        { V1 "optim_config: {name: mine, lr: 1}\n", "optim_config", IMPORT_DIFFERS,
          "mine" },
        { V1_LORA "quant_config: {name: bnb, quantization_bit: 8}\n", "quant_config",
          IMPORT_DIFFERS, "8 bits" },
        { V1_DPO "ld_alpha: 0.5\n", "ld_alpha", IMPORT_DIFFERS, "longer answer" },
        { V1 "peft_config: {name: lora, magic: 1}\n", "peft_config.magic", IMPORT_DIFFERS,
          "stops at unknown keys" },
        { V1 "peft_config: {name: freeze, freeze_extra_modules: embed_tokens}\n",
          "peft_config.freeze_extra_modules", IMPORT_DIFFERS, "frozen" },
        { V1 "peft_config: {name: freeze, freeze_extra_modules: []}\n",
          "peft_config.freeze_extra_modules", IMPORT_IDLE, "off" },
        { V1 "custom_chat_template: '{{ a }}'\n", "custom_chat_template", IMPORT_DIFFERS,
          "chat_template.jinja" },
        { V1 "eval_dataset: data/e.yaml\n", "eval_dataset", IMPORT_IDLE, "evaluate" },
        { V1 "pref_ftx: 0.5\nunheard_of: 1\n", "pref_ftx", IMPORT_CARRIED, "pref_ftx" },
        { V1 "unheard_of: 1\n", "unheard_of", IMPORT_DIFFERS, "stops at unknown keys" },
    };

    (void)state;
    check_outcomes(cases, TS_COUNT(cases));
}

static void test_import_refuses_v1_files_without_training(void **state)
{
    static const struct {
        const char *source;
        enum error_code code;
        uint32_t line;
        const char *word;
    } cases[] = {
        { "model: m\npeft_config: {name: lora, export_dir: out}\n", ERROR_DATA, 2,
          "trains nothing" },
        { "model: m\nmodel_class: llm\nsample_backend: hf\n", ERROR_DATA, 1,
          "trains nothing" },
        { "train_dataset: a/b\nmodel_class: cls\n", ERROR_JOB, 2, "must be llm" },
        { V1 "peft_config: lora\n", ERROR_DATA, 4, "must be a map" },
        { V1 "peft_config: {name: oft}\n", ERROR_JOB, 4, "lora or freeze, not oft" },
        { V1 "peft_config: {r: 8}\n", ERROR_JOB, 4, "lora or freeze" },
        { V1 "peft_config: {name: lora, adapter_name_or_path: [a, b]}\n", ERROR_DATA, 4,
          "only one adapter" },
        { V1 "learning_rate: quick\n", ERROR_DATA, 4, "learning_rate" },
        { "train_dataset: ''\nmodel_class: llm\n", ERROR_DATA, 1, "empty" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        if (trial.good || trial.err.code != cases[i].code ||
            !strstr(trial.err.text, cases[i].word) || trial.err.at.line != cases[i].line)
            fail_msg("%s: code %d, line %u: %s", cases[i].source, trial.err.code,
                     trial.err.at.line, trial.err.text);
        trial_end(&trial);
    }
}

/* ---- The list of datasets ---- */

/* Import a file next to data/list.yaml with this text. */
static struct trial trial_with_list(const char *source, const char *list)
{
    char *dir = unit_dir_new();
    char *data = path_join(dir, "data"), *name = path_join(data, "list.yaml");
    char *file = path_join(dir, "f.yml");
    struct error err = { 0 };
    struct trial trial;

    if (!file_make_dir(data, 0700, &err) ||
        !file_create(name, list, strlen(list), 0600, &err))
        fail_msg("%s", err.text);
    trial = trial_new(file, source, strlen(source));
    free(file);
    free(name);
    free(data);
    unit_dir_free(dir);
    return trial;
}

static void test_import_reads_the_list_of_datasets(void **state)
{
    static const struct {
        const char *list, *dataset, *stage;
        const char *comment; /* a part of the job */
    } cases[] = {
        { "a:\n  path: data/a.json\n  source: local\n  converter: alpaca\n",
          "data/a.json", "sft", "joins" },
        { "a: {path: data/a.json, source: local, converter: alpaca, size: 500}\n", "a",
          "sft", "\"num_samples\": 500" },
        { "a: {path: data/a.jsonl, source: local, converter: sharegpt}\n"
          "b: {path: org/b, split: train}\n",
          "data/a.jsonl,b.jsonl", "sft", "LLaMA-Factory v1 makes" },
        { "a: {path: data/a.jsonl, source: local, converter: sharegpt, size: 5}\n", "a",
          "sft", "\"formatting\": \"sharegpt\", \"num_samples\": 5" },
        { "a: {path: data/a.jsonl, source: local, size: 5}\n", "a", "sft",
          "\"role_tag\": \"role\"" },
        { "a: {path: data/a.jsonl, source: local, converter: pair, size: 5}\n",
          "data/a.jsonl", "dpo", "of pairs is not supported" },
        { "a: {path: org/pairs, split: train_prefs, converter: pair}\n", "pairs.jsonl",
          "dpo", "split=\"train_prefs\"" },
        { "a: {path: data/a.json, source: local, weight: 0.5}\n", "data/a.json", "sft",
          "a: weight: 0.5" },
        { "a: {path: data/a.json, source: local, converter: mine}\n", "data/a.json",
          "sft", "converter mine" },
        { "a: {path: data/folder, source: local}\n", "data/folder/", "sft", "" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_with_list(V1, cases[i].list);

        if (!trial.good)
            fail_msg("%s: %s", cases[i].list, trial.err.text);
        assert_string_equal(job_value(&trial, "dataset"), cases[i].dataset);
        assert_string_equal(job_value(&trial, "stage"), cases[i].stage);
        if (!strstr(trial.import.text.data, cases[i].comment))
            fail_msg("no %s in\n%s", cases[i].comment, trial.import.text.data);
        trial_end(&trial);
    }
}

/* Text that is no list: the name remains, and the key is reported. */
static void test_import_survives_a_broken_list(void **state)
{
    static const char *const lists[] = { "",       "- a\n",
                                         "a: 1\n", "a: {path: ''}\n",
                                         "a: [\n", "a: {split: x}\n" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(lists); i++) {
        struct trial trial = trial_with_list(V1, lists[i]);

        assert_true(trial.good);
        assert_string_equal(job_value(&trial, "dataset"), "list");
        assert_int_equal(outcome_of(&trial, "train_dataset")->outcome, IMPORT_DIFFERS);
        trial_end(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_writes_the_defaults_of_v1),
        cmocka_unit_test(test_import_keeps_the_method_of_v1),
        cmocka_unit_test(test_import_keeps_the_steps_of_v1),
        cmocka_unit_test(test_import_keeps_the_preferences_of_v1),
        cmocka_unit_test(test_import_reports_the_keys_of_v1),
        cmocka_unit_test(test_import_refuses_v1_files_without_training),
        cmocka_unit_test(test_import_reads_the_list_of_datasets),
        cmocka_unit_test(test_import_survives_a_broken_list),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
