/* tests/unit/test_import.c - what an imported job says is what the other tool would do.
 */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"
#include "patcher/import_parts.h"

#define AXOLOTL      "base_model: org/model\ndatasets: [{path: org/data, type: alpaca}]\n"
#define AXOLOTL_LORA AXOLOTL "adapter: lora\nlora_r: 8\nlora_alpha: 16\n"
#define TORCHTUNE                                                                  \
    "output_dir: /tmp/out\n"                                                       \
    "model: {_component_: torchtune.models.llama3_2.llama3_2_1b}\n"                \
    "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer}\n"         \
    "checkpointer: {checkpoint_dir: '/tmp/model/', output_dir: '${output_dir}'}\n" \
    "dataset: {_component_: torchtune.datasets.alpaca_dataset}\n"
#define TORCHTUNE_ADAM TORCHTUNE "optimizer: {_component_: torch.optim.AdamW, lr: 2e-5}\n"

/* A value of the job as YAML; NULL: it says nothing of it. */
static const char *said(const struct trial *trial, const char *key)
{
    const struct entry *entry = document_find(&trial->job, key);

    return entry ? arena_copy(trial->arena, trial->job.data + entry->value->at.byte,
                              entry->value->bytes)
                 : NULL;
}

static const struct import_key *fate_of(const struct trial *trial, const char *name)
{
    for (size_t i = 0; i < trial->import.key_count; i++)
        if (strcmp(trial->import.keys[i].name, name) == 0)
            return &trial->import.keys[i];
    return NULL;
}

struct meaning {
    const char *source, *key;
    const char *value; /* NULL: not in the job */
};

static void check_meanings(const struct meaning *meanings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct meaning *wanted = &meanings[i];
        struct trial trial = trial_new("f.yml", wanted->source, strlen(wanted->source));
        const char *got;

        if (!trial.good)
            fail_msg("%s\n%s", wanted->source, trial.err.text);
        got = said(&trial, wanted->key);
        if (got ? !wanted->value || strcmp(got, wanted->value) != 0
                : wanted->value != NULL)
            fail_msg("of\n%swanted %s: %s, got %s", wanted->source, wanted->key,
                     wanted->value ? wanted->value : "(nothing)",
                     got ? got : "(nothing)");
        trial_end(&trial);
    }
}

static void test_import_keeps_what_axolotl_means(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL, "model_name_or_path", "org/model" },
        { AXOLOTL, "stage", "sft" },
        { AXOLOTL, "finetuning_type", "full" },
        { AXOLOTL, "dataset", "data.jsonl" },
        { AXOLOTL, "template", "alpaca" },
        /* presets of Axolotl's that are others here */
        { AXOLOTL, "cutoff_len", "512" },
        { AXOLOTL, "num_train_epochs", "1" },
        { AXOLOTL, "gradient_checkpointing", "false" },
        { AXOLOTL, "lr_scheduler_type", "cosine" },
        { AXOLOTL, "warmup_ratio", "0.03" },
        { AXOLOTL, "save_strategy", "epoch" },
        { AXOLOTL, "save_total_limit", "4" },
        { AXOLOTL, "bf16", "auto" },
        /* a batch */
        { AXOLOTL "micro_batch_size: 2\nbatch_size: 16\n", "gradient_accumulation_steps",
          "8" },
        { AXOLOTL "micro_batch_size: 2\nbatch_size: 16\n", "per_device_train_batch_size",
          "2" },
        { AXOLOTL "micro_batch_size: 3\nbatch_size: 16\n", "gradient_accumulation_steps",
          "5" },
        { AXOLOTL "micro_batch_size: 2\ngradient_accumulation_steps: 4\nbatch_size: 3\n",
          "gradient_accumulation_steps", "4" },
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
        /* null is no null there */
        { AXOLOTL "max_grad_norm:\n", "max_grad_norm", "1.0" },
        { AXOLOTL "max_grad_norm: 0.3\n", "max_grad_norm", "0.3" },
        { AXOLOTL, "max_grad_norm", NULL },
        /* precision */
        { AXOLOTL "bf16: true\nfp16: true\n", "bf16", "true" },
        { AXOLOTL "bf16: true\nfp16: true\n", "fp16", NULL },
        { AXOLOTL "bf16: auto\nfp16: true\n", "fp16", "true" },
        { AXOLOTL "bf16: auto\nfp16: true\n", "bf16", NULL },
        { AXOLOTL "bf16: false\n", "bf16", NULL },
        { AXOLOTL "bf16:\n", "bf16", NULL },
        { AXOLOTL "bf16: full\n", "bf16", "true" },
        { AXOLOTL "bf16: false\nbfloat16: true\n", "bf16", "true" },
        { AXOLOTL "bf16: false\nfloat16: true\n", "fp16", "true" },
        { AXOLOTL "tf32: yes\n", "tf32", "true" },
        { AXOLOTL "tf32: auto\n", "tf32", "auto" },
        /* adapters: 2 x rank is ours, not theirs */
        { AXOLOTL "adapter: qlora\nlora_r: 32\nlora_alpha: 16\n", "finetuning_type",
          "lora" },
        { AXOLOTL "adapter: qlora\nlora_r: 32\nlora_alpha: 16\n", "lora_alpha", "16" },
        { AXOLOTL_LORA "lora_target_linear: true\n", "lora_target", "all" },
        { AXOLOTL_LORA "lora_target_modules: [q_proj, v_proj]\n", "lora_target",
          "q_proj,v_proj" },
        { AXOLOTL_LORA "lora_target_modules: 'x.*(q|v)_proj'\n", "lora_target", "all" },
        { AXOLOTL_LORA "lora_modules_to_save: [lm_head]\n", "additional_target",
          "lm_head" },
        { AXOLOTL_LORA "lora_model_dir: ./a\n", "adapter_name_or_path", "./a" },
        { AXOLOTL_LORA "peft_use_rslora: true\n", "use_rslora", "true" },
        { AXOLOTL "lora_r: 8\n", "lora_rank", NULL },
        /* packing without seeing each other */
        { AXOLOTL "sample_packing: true\n", "neat_packing", "true" },
        { AXOLOTL "sample_packing: true\n", "dataloader_drop_last", NULL },
        { AXOLOTL "sample_packing: true\neval_sample_packing: false\n",
          "dataloader_drop_last", "true" },
        /* rates */
        { AXOLOTL "learning_rate: 2e-5\n", "learning_rate", "2e-5" },
        { AXOLOTL "warmup_steps: 10\nwarmup_ratio:\n", "warmup_steps", "10" },
        { AXOLOTL "warmup_steps: 10\n", "warmup_ratio", NULL },
        { AXOLOTL "warmup_steps: 0.1\n", "warmup_ratio", "0.1" },
        { AXOLOTL "lr_scheduler: constant\n", "lr_scheduler_type", "constant" },
        { AXOLOTL "lr_scheduler: rex\n", "lr_scheduler_type", "cosine" },
        { AXOLOTL "cosine_min_lr_ratio: 0.1\n", "lr_scheduler_type",
          "cosine_with_min_lr" },
        { AXOLOTL "cosine_min_lr_ratio: 0.1\n", "lr_scheduler_kwargs",
          "{min_lr_rate: 0.1}" },
        { AXOLOTL "lr_scheduler_kwargs: {min_lr: 1e-6, 'a}': 'b, c: d'}\n",
          "lr_scheduler_kwargs", "{min_lr: 1e-6, 'a}': 'b, c: d'}" },
        { AXOLOTL "optimizer: adamw_bnb_8bit\n", "optim", "adamw_bnb_8bit" },
        { AXOLOTL "optimizer: muon\n", "optim", "adamw_torch" },
        /* saving and evaluating */
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
        { AXOLOTL "auto_resume_from_checkpoints: true\n", "resume_from_checkpoint",
          "true" },
        { AXOLOTL "gradient_checkpointing: offload\n", "gradient_checkpointing", "true" },
        { AXOLOTL "train_on_inputs: true\n", "train_on_prompt", "true" },
        { AXOLOTL "default_system_message: \"a\\nb: c\"\n", "default_system",
          "\"a\\u000ab: c\"" },
        { AXOLOTL "seed: 0x10\n", "seed", "16" },
    };

    (void)state;
    check_meanings(meanings, TS_COUNT(meanings));
}

#define AXOLOTL_DATA(list) "base_model: m\ndatasets:\n" list

static void test_import_names_the_data_of_axolotl(void **state)
{
    static const struct meaning meanings[] = {
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: llama3\n"),
          "template", "llama3" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: jamba\n"),
          "template", NULL },
        { AXOLOTL_DATA("- {path: a/b, type: completion}\n"), "stage", "pt" },
        { AXOLOTL_DATA("- {path: a/b, type: completion}\n"), "packing", "false" },
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
        { AXOLOTL_DATA("- {path: json, ds_type: json, data_files: [x.json, y.json], "
                       "type: alpaca}\n"),
          "dataset", "x.json,y.json" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template, field_messages: talk}\n"),
          "dataset", "b" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template, field_messages: "
                       "conversations, message_property_mappings: {role: from, content: "
                       "value}}\n"),
          "dataset", "b.jsonl" },
        { AXOLOTL_DATA(
              "- {path: a/b, type: alpaca}\ntest_datasets:\n- {path: a/b, split: "
              "test, type: alpaca}\neval_steps: 9\n"),
          "eval_dataset", "b-eval1.jsonl" },
        { "base_model: m\npretraining_dataset: {path: a/c4, type: pretrain}\n", "stage",
          "pt" },
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

static void test_import_keeps_what_torchtune_means(void **state)
{
    static const struct meaning meanings[] = {
        { TORCHTUNE_ADAM, "model_name_or_path", "/tmp/model" },
        { TORCHTUNE_ADAM, "finetuning_type", "full" },
        { TORCHTUNE_ADAM, "dataset", "alpaca.jsonl" },
        { TORCHTUNE_ADAM, "template", "llama3" },
        /* presets */
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
        /* what is said */
        { TORCHTUNE_ADAM "batch_size: 4\n", "per_device_train_batch_size", "4" },
        { TORCHTUNE_ADAM "clip_grad_norm: 1.0\n", "max_grad_norm", "1.0" },
        { TORCHTUNE_ADAM "clip_grad_norm: .inf\n", "max_grad_norm", "0.0" },
        { TORCHTUNE_ADAM "dtype: bf16\n", "pure_bf16", "true" },
        { TORCHTUNE_ADAM "dtype: fp32\n", "pure_bf16", NULL },
        { TORCHTUNE_ADAM "max_steps_per_epoch: 50\nepochs: 3\n", "max_steps", "150" },
        { TORCHTUNE_ADAM "max_steps_per_epoch:\nepochs: 3\n", "max_steps", NULL },
        { TORCHTUNE_ADAM "shuffle: false\n", "disable_shuffling", "true" },
        { TORCHTUNE_ADAM "seed: null\n", "seed", NULL },
        { TORCHTUNE_ADAM "seed: 7\n", "seed", "7" },
        { TORCHTUNE_ADAM "device: cpu\n", "use_cpu", "true" },
        { TORCHTUNE_ADAM "save_every_n_steps: 100\n", "save_steps", "100" },
        { TORCHTUNE_ADAM "lr_scheduler: {_component_: "
                         "torchtune.training.lr_schedulers.get_cosine_schedule_with_"
                         "warmup, num_warmup_steps: 100}\n",
          "lr_scheduler_type", "cosine" },
        { TORCHTUNE_ADAM "lr_scheduler: {_component_: "
                         "torchtune.training.lr_schedulers.get_cosine_schedule_with_"
                         "warmup, num_warmup_steps: 100}\n",
          "warmup_steps", "100" },
        /* adapters: torchtune's alpha is 16 whatever the rank */
        { TUNE_LORA("  lora_rank: 64\n"), "lora_alpha", "16" },
        { TUNE_LORA("  apply_lora_to_mlp: True\n"), "lora_target",
          "q_proj,o_proj,gate_proj,up_proj,down_proj" },
        { TUNE_LORA(""), "optim", "paged_adamw_8bit" },
        { TUNE_LORA(""), "weight_decay", "0.0" },
        { TUNE_LORA(""), "neat_packing", "true" },
        /* what ${...} stands for */
        { "a: /x\nb: ${a}/y\nmodel: {_component_: m.lora_x}\noptimizer: {lr: 1}\n"
          "checkpointer: {checkpoint_dir: '${b}/z'}\ndataset: {source: q/r}\n",
          "model_name_or_path", "/x/y/z" },
        /* distillation */
        { TORCHTUNE_ADAM "teacher_checkpointer: {checkpoint_dir: /t}\nkd_loss: "
                         "{_component_: torchtune.modules.loss.ForwardKLLoss}\n",
          "stage", "distill" },
        { TORCHTUNE_ADAM "teacher_checkpointer: {checkpoint_dir: /t}\nkd_loss: "
                         "{_component_: torchtune.modules.loss.ReverseKLLoss}\n",
          "kd_beta", "1.0" },
        { TORCHTUNE_ADAM "teacher_checkpointer: {checkpoint_dir: /t}\nkd_ratio: 0.3\n",
          "kd_ratio", "0.3" },
        /* evaluation only where it is asked for */
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

static void test_import_refuses_what_would_train_something_else(void **state)
{
    static const struct {
        const char *source;
        enum error_code code;
        uint32_t line;
        const char *word;
    } cases[] = {
        { AXOLOTL "rl: dpo\n", ERROR_JOB, 3, "preferences" },
        { AXOLOTL "reward_model: true\n", ERROR_JOB, 3, "reward" },
        { AXOLOTL "processor_type: AutoProcessor\n", ERROR_JOB, 3, "images" },
        { AXOLOTL "adapter: llama-adapter\n", ERROR_JOB, 3, "llama-adapter" },
        { AXOLOTL "learning_rate: quick\n", ERROR_DATA, 3, "learning_rate" },
        { AXOLOTL "learning_rate: [1, 2]\n", ERROR_DATA, 3, "single value" },
        { AXOLOTL "micro_batch_size: 0\n", ERROR_DATA, 3, "per_device_train_batch_size" },
        { AXOLOTL "seed: 1\nseed: 2\n", ERROR_DATA, 4, "twice" },
        { "base_model: m\ndatasets: 3\n", ERROR_DATA, 2, "list of data sets" },
        { "base_model: m\ndatasets: [{type: alpaca}]\n", ERROR_DATA, 2, "no path" },
        { "sequence_len: 4\n", ERROR_DATA, 1, "base_model" },
        { TORCHTUNE_ADAM "tasks: [mmlu]\n", ERROR_DATA, 7, "evaluation" },
        { TORCHTUNE_ADAM "loss: {_component_: torchtune.rlhf.loss.DPOLoss}\n", ERROR_JOB,
          7, "preferences" },
        { TORCHTUNE_ADAM "dtype: fp16\n", ERROR_JOB, 7, "fp16" },
        { TORCHTUNE_ADAM "batch_size: ${nothing}\n", ERROR_DATA, 7, "${nothing}" },
        { TORCHTUNE_ADAM "a: ${b}\nb: ${a}\nbatch_size: ${b}\n", ERROR_DATA, 9, "${b}" },
        { TORCHTUNE, ERROR_DATA, 1, "trains nothing" },
        { "model_name_or_path: m\nstage: sft\n", ERROR_DATA, 1, "already" },
        { "compute_environment: LOCAL\n", ERROR_DATA, 1, "Accelerate" },
        { "a: b\n", ERROR_DATA, 0, "no job" },
        { "- a\n", ERROR_DATA, 1, "" },
        { "a: [\n", ERROR_DATA, 0, "" },
        { "", ERROR_DATA, 0, "" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        if (trial.good || trial.err.code != cases[i].code ||
            !strstr(trial.err.text, cases[i].word) ||
            (cases[i].line && trial.err.at.line != cases[i].line))
            fail_msg("%s: code %d, line %u: %s", cases[i].source, trial.err.code,
                     trial.err.at.line, trial.err.text);
        trial_end(&trial);
    }
}

/* Eight levels of 500 references to nothing: 500^8, if all were followed. */
static void test_import_follows_so_many_references(void **state)
{
    struct trial trial;
    struct text text;

    (void)state;
    text_init(&text, 0);
    text_adds(&text, AXOLOTL "a0: ''\n");
    for (int i = 1; i <= 7; i++) {
        text_addf(&text, "a%d: '", i);
        for (int k = 0; k < 500; k++)
            text_addf(&text, "${a%d}", i - 1);
        text_adds(&text, "'\n");
    }
    text_adds(&text, "output_dir: ${a7}\n");
    trial = trial_new("f.yml", text.data, text.len);
    assert_false(trial.good);
    assert_non_null(strstr(trial.err.text, "${a7}"));
    trial_end(&trial);
    text_clear(&text);
}

static void test_import_quotes_what_yaml_would_misread(void **state)
{
    static const char *const texts[] = {
        "plain",
        "a b",
        "a: b",
        "a #b",
        "#a",
        "- a",
        "'",
        "it's",
        "\"",
        "a\nb",
        "",
        " a ",
        "null",
        "true",
        "1e-4",
        "{a}",
        "[a]",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a`",
        "a:",
        "\t",
        "a\tb",
        "\x7f",
        "\xc2\x85",
        "\xe2\x80\xa8",
        "\xef\xbb\xbf"
        "a",
        "\xef\xbf\xbf",
        "\xc3\xa4\xf0\x9f\x98\x80",
        "C:\\dir",
        "? a",
        "a\\nb",
        "...",
        "--- a",
        "| a",
        "a,b",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct arena *arena = arena_new();
        struct document document;
        const struct entry *entry;
        char *line =
            arena_printf(arena, "k: %s  # note\nl: 1\n", import_yaml(arena, texts[i]));

        document_read(line, strlen(line), arena, &document);
        entry = document.root ? document_find(&document, "k") : NULL;
        if (!entry || document.root->count != 2 || document.remark_count > 0 ||
            strcmp(entry->value->text, texts[i]) != 0 || node_is_null(entry->value))
            fail_msg("'%s' was written as %s", texts[i], line);
        arena_free(arena);
    }
}

/* A comment is one line, whatever a name holds. */
static void test_import_lets_no_text_out_of_a_comment(void **state)
{
    static const char source[] =
        AXOLOTL "\"evil\\nstage: dpo\": 1\nchat_template: \"x\\nbf16: false\"\n"
                "optimizer: \"x\\u2028fp16: true\"\nseed: 1  # it's ours\n";
    struct trial trial = trial_new("a\nb: c.yml", source, strlen(source));

    (void)state;
    assert_true(trial.good);
    assert_string_equal(said(&trial, "stage"), "sft");
    assert_string_equal(said(&trial, "bf16"), "auto");
    assert_null(said(&trial, "fp16"));
    assert_null(said(&trial, "b"));
    assert_non_null(strstr(trial.import.text.data, "seed: 1  # it's ours\n"));
    trial_end(&trial);
}

/* Nothing that a shell would take for more than a word goes into a line to be pasted. */
static void test_import_offers_no_line_that_a_shell_misreads(void **state)
{
    static const char source[] =
        AXOLOTL_DATA("- {path: \"a/b'; rm -rf x; '\", type: alpaca}\n");
    struct trial trial = trial_new("f.yml", source, strlen(source));

    (void)state;
    assert_true(trial.good);
    assert_null(strstr(trial.import.text.data, "python3"));
    trial_end(&trial);
}

static void test_import_tells_of_every_key(void **state)
{
    static const struct {
        const char *key;
        enum import_fate fate;
    } wanted[] = {
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
    };
    static const char source[] =
        "base_model: m\ndatasets: [{path: a/b, type: alpaca, shards: 4}]\n"
        "wandb_project: mine\nload_in_4bit: true\nload_in_8bit: false\nfp16:\n"
        "unheard_of: {a: 1}\nspecial_tokens: {pad_token: <p>, eos_token: <e>}\n";
    struct trial trial = trial_new("f.yml", source, strlen(source));

    (void)state;
    assert_true(trial.good);
    for (size_t i = 0; i < TS_COUNT(wanted); i++) {
        const char *name = wanted[i].key;
        const struct import_key *key =
            fate_of(&trial, strcmp(name, "unheard_of") == 0 ? "unheard_of.a" : name);

        if (!key || key->fate != wanted[i].fate)
            fail_msg("%s: %s", name, key ? import_fate_names[key->fate] : "lost");
        assert_true(key->fate == IMPORT_CARRIED ? key->into != NULL : key->why != NULL);
    }
    trial_end(&trial);
}

/* Told among what may change the result, as a person would want to know. */
static void test_import_tells_what_may_change_the_result(void **state)
{
    static const struct {
        const char *source, *key;
    } cases[] = {
        { AXOLOTL "gptq: true\n", "gptq" },
        { AXOLOTL "qat: {weight_dtype: int4}\n", "qat" },
        { AXOLOTL "unfrozen_parameters: [lm_head]\n", "unfrozen_parameters" },
        { AXOLOTL "optimizer: muon\n", "optimizer" },
        { AXOLOTL "lr_scheduler: rex\n", "lr_scheduler" },
        { AXOLOTL "fp8: true\n", "fp8" },
        { AXOLOTL "save_strategy: best\n", "save_strategy" },
        { AXOLOTL "tokenizer_config: other\n", "tokenizer_config" },
        { AXOLOTL "neftune_noise_alpha: 5\n", "neftune_noise_alpha" },
        { AXOLOTL_LORA "lora_target_modules: 'x.*'\n", "lora_target_modules" },
        { AXOLOTL_LORA "peft_use_dora: true\n", "peft_use_dora" },
        { AXOLOTL_DATA("- {path: a/b, type: jeopardy}\n"), "datasets[0].type" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: jamba\n"),
          "chat_template" },
        { TORCHTUNE "optimizer: {_component_: torchao.optim.Lion, lr: 1e-4}\n",
          "optimizer._component_" },
        { TORCHTUNE_ADAM "quantizer: {_component_: x.Int8QATQuantizer}\n", "quantizer" },
        { "checkpointer: {checkpoint_dir: /m, checkpoint_files: [a.bin]}\n"
          "optimizer: {lr: 1}\ndataset: {_component_: my.records}\n"
          "model: {_component_: torchtune.models.llama2.qlora_llama2_7b}\n",
          "model._component_" },
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
        const struct import_key *key = trial.good ? fate_of(&trial, cases[i].key) : NULL;

        if (!key || key->fate != IMPORT_DIFFERS)
            fail_msg("%s: %s is %s", cases[i].source, cases[i].key,
                     key ? import_fate_names[key->fate] : trial.err.text);
        trial_end(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_keeps_what_axolotl_means),
        cmocka_unit_test(test_import_names_the_data_of_axolotl),
        cmocka_unit_test(test_import_keeps_what_torchtune_means),
        cmocka_unit_test(test_import_refuses_what_would_train_something_else),
        cmocka_unit_test(test_import_follows_so_many_references),
        cmocka_unit_test(test_import_quotes_what_yaml_would_misread),
        cmocka_unit_test(test_import_lets_no_text_out_of_a_comment),
        cmocka_unit_test(test_import_offers_no_line_that_a_shell_misreads),
        cmocka_unit_test(test_import_tells_of_every_key),
        cmocka_unit_test(test_import_tells_what_may_change_the_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
