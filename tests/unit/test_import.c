/* tests/unit/test_import.c - refused files, quoting, and the outcome for each key. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"
#include "patcher/import/import_internal.h"

static const struct import_key *outcome_of(const struct trial *trial, const char *name)
{
    for (size_t i = 0; i < trial->import.key_count; i++)
        if (strcmp(trial->import.keys[i].name, name) == 0)
            return &trial->import.keys[i];
    return NULL;
}

/* Check the outcome of a key, and words of its reason or of the key it went into. */
static void check_outcome(const char *source, const char *name,
                          enum import_outcome outcome, const char *word)
{
    struct trial trial = trial_new("f.yml", source, strlen(source));
    const struct import_key *key = trial.good ? outcome_of(&trial, name) : NULL;
    const char *detail =
        key ? key->outcome == IMPORT_CARRIED ? key->into : key->why : NULL;

    if (!key || key->outcome != outcome || !strstr(detail, word))
        fail_msg("%s: %s is %s: %s", source, name,
                 key ? import_outcome_names[key->outcome] : "dropped",
                 detail ? detail : trial.err.text);
    trial_end(&trial);
}

static void test_import_refuses_unsupported_training(void **state)
{
    static const struct {
        const char *source;
        enum error_code code;
        uint32_t line;
        const char *word;
    } cases[] = {
        { AXOLOTL "rl: kto\n", ERROR_JOB, 3, "must be dpo, ipo, orpo or simpo, not kto" },
        { AXOLOTL "rl: dpo\ndpo_loss_type: [robust]\n", ERROR_JOB, 4, "dpo_loss_type" },
        { AXOLOTL "rl: dpo\nrl_beta: 0\n", ERROR_DATA, 4, "pref_beta" },
        { AXOLOTL "reward_model: true\n", ERROR_JOB, 3, "reward" },
        { AXOLOTL "processor_type: AutoProcessor\n", ERROR_JOB, 3, "images" },
        { AXOLOTL "adapter: llama-adapter\n", ERROR_JOB, 3, "llama-adapter" },
        { AXOLOTL "learning_rate: quick\n", ERROR_DATA, 3, "learning_rate" },
        { AXOLOTL "learning_rate: [1, 2]\n", ERROR_DATA, 3, "single value" },
        { AXOLOTL "micro_batch_size: 0\n", ERROR_DATA, 3, "per_device_train_batch_size" },
        { AXOLOTL "seed: 1\nseed: 2\n", ERROR_DATA, 4, "twice" },
        { "base_model: m\ndatasets: 3\n", ERROR_DATA, 2, "list of datasets" },
        { "base_model: m\ndatasets: [{type: alpaca}]\n", ERROR_DATA, 2, "no path" },
        { "sequence_len: 4\nmicro_batch_size: 1\n", ERROR_DATA, 1, "base_model" },
        { TORCHTUNE_ADAM "tasks: [mmlu]\n", ERROR_DATA, 7, "evaluates" },
        { TORCHTUNE_ADAM "loss: {_component_: torchtune.rlhf.loss.SimPOLoss}\n",
          ERROR_JOB, 7, "preferences" },
        { TORCHTUNE_ADAM "dtype: fp16\n", ERROR_JOB, 7, "fp16" },
        { TORCHTUNE_ADAM "clip_grad_norm: -1\n", ERROR_DATA, 7, "0 or more" },
        { TORCHTUNE_ADAM "clip_grad_norm: -inf\n", ERROR_DATA, 7, "must be a number" },
        { TORCHTUNE_ADAM "batch_size: ${nothing}\n", ERROR_DATA, 7, "${nothing}" },
        { TORCHTUNE_ADAM "a: ${b}\nb: ${a}\nbatch_size: ${b}\n", ERROR_DATA, 9, "${b}" },
        { TORCHTUNE, ERROR_DATA, 1, "trains nothing" },
        { "model_name_or_path: m\nstage: sft\n", ERROR_DATA, 1, "already" },
        { "compute_environment: LOCAL\n", ERROR_DATA, 1, "Accelerate" },
        { "a: b\n", ERROR_DATA, 0, "not a job" },
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

/* Eight levels of 500 references to nothing: 500^8 if all were followed. */
static void test_import_limits_references(void **state)
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

static void test_import_quotes_ambiguous_values(void **state)
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

/* A comment stays on one line, whatever a name contains. */
static void test_import_keeps_text_inside_comments(void **state)
{
    static const char source[] =
        AXOLOTL "\"evil\\nstage: dpo\": 1\nchat_template: \"x\\nbf16: false\"\n"
                "optimizer: \"x\\u2028fp16: true\"\nseed: 1  # it's ours\n";
    struct trial trial = trial_new("a\nb: c.yml", source, strlen(source));

    (void)state;
    assert_true(trial.good);
    assert_string_equal(job_value(&trial, "stage"), "sft");
    assert_string_equal(job_value(&trial, "bf16"), "auto");
    assert_null(job_value(&trial, "fp16"));
    assert_null(job_value(&trial, "b"));
    assert_non_null(strstr(trial.import.text.data, "seed: 1  # it's ours\n"));
    trial_end(&trial);
}

/* A line to be pasted has no words that a shell would interpret. */
static void test_import_prints_only_harmless_shell_commands(void **state)
{
    static const char source[] =
        AXOLOTL_DATA("- {path: \"a/b'; rm -rf x; '\", type: alpaca}\n");
    struct trial trial = trial_new("f.yml", source, strlen(source));

    (void)state;
    assert_true(trial.good);
    assert_null(strstr(trial.import.text.data, "python3"));
    trial_end(&trial);
}

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
    };
    static const char source[] =
        "base_model: m\ndatasets: [{path: a/b, type: alpaca, shards: 4}]\n"
        "wandb_project: mine\nload_in_4bit: true\nload_in_8bit: false\nfp16:\n"
        "unheard_of: {a: 1}\nspecial_tokens: {pad_token: <p>, eos_token: <e>}\n";
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
    static const struct {
        const char *source, *key;
        enum import_outcome outcome;
        const char *word; /* in the reason, or the target key */
    } cases[] = {
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
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        check_outcome(cases[i].source, cases[i].key, cases[i].outcome, cases[i].word);
}

/* The entry for dataset_info.json has the part of a file. */
static void test_import_keeps_the_part_of_a_file(void **state)
{
#define PART(type) \
    AXOLOTL_DATA("- {path: ./a.jsonl, split: 'train[:10%]', type: " type "}\n")
#define TUNE(more)                                                                      \
    "checkpointer: {checkpoint_dir: /m}\noptimizer: {lr: 1}\nmodel: "                   \
    "{_component_: torchtune.models.llama2.llama2_7b}\ndataset: {source: json, "        \
    "data_files: /d/a.json, split: 'train[5%:]', _component_: torchtune.datasets." more \
    "}\n"
    static const struct {
        const char *source, *entry;
    } cases[] = {
        { PART("alpaca"), "{\"a\": {\"file_name\": \"../a.jsonl\", \"split\": "
                          "\"train[:10%]\"}}" },
        { PART("completion"), "\"formatting\": \"alpaca\", \"columns\": {\"prompt\": "
                              "\"text\"}, \"split\": \"train[:10%]\"}}" },
        { PART("chat_template"), "\"columns\": {\"messages\": \"messages\"}, \"tags\": "
                                 "{\"role_tag\": \"role\"" },
        { TUNE("alpaca_dataset"), "{\"a\": {\"file_name\": \"/d/a.json\", "
                                  "\"formatting\": \"alpaca\", \"split\": "
                                  "\"train[5%:]\"}}" },
        { TUNE("chat_dataset, conversation_style: openai"),
          "\"columns\": {\"messages\": \"messages\"}, \"tags\": {\"role_tag\": "
          "\"role\"" },
        { TUNE("chat_dataset, conversation_style: sharegpt"),
          "\"columns\": {\"messages\": \"conversations\"}, \"split\"" },
    };
#undef PART
#undef TUNE

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        if (!trial.good || !strstr(trial.import.text.data, cases[i].entry))
            fail_msg("%s: no %s in\n%s", cases[i].source, cases[i].entry,
                     trial.good ? trial.import.text.data : trial.err.text);
        trial_end(&trial);
    }
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
        { AXOLOTL_DATA("- {path: a.jsonl, type: alpaca, split: test}\n"),
          "datasets[0].split" },
        { AXOLOTL_DATA("- {path: json, ds_type: json, data_files: [x.json, y.json], "
                       "type: alpaca, split: 'train[:9]'}\n"),
          "datasets[0].split" },
        { AXOLOTL_DATA("- {path: a/b, type: chat_template}\nchat_template: jamba\n"),
          "chat_template" },
        { TORCHTUNE "optimizer: {_component_: torchao.optim.Lion, lr: 1e-4}\n",
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
    static const struct {
        const char *source, *key;
        enum import_outcome outcome;
        const char *word; /* in the reason, or the target key */
    } cases[] = {
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
        /* formats */
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
        /* batch */
        { AXOLOTL "group_by_length: true\n", "group_by_length", IMPORT_IDLE,
          "from all lengths" },
        { AXOLOTL "group_by_length: false\n", "group_by_length", IMPORT_IDLE, "off" },
        /* saving and resuming */
        { AXOLOTL "save_steps: 9\nsaves_per_epoch: 3\n", "saves_per_epoch",
          IMPORT_DIFFERS, "save_steps is kept" },
        { AXOLOTL "saves_per_epoch: 3\nsave_strategy: epoch\n", "save_strategy",
          IMPORT_IDLE, "saves_per_epoch takes precedence" },
        { AXOLOTL "save_strategy:\n", "save_strategy", IMPORT_IDLE, "empty" },
        { AXOLOTL "resume_from_checkpoint: ./c\nauto_resume_from_checkpoints: true\n",
          "auto_resume_from_checkpoints", IMPORT_IDLE,
          "resume_from_checkpoint takes precedence" },
        /* evaluation */
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
        { AXOLOTL_DATA("- {path: a.jsonl, type: alpaca, revision: v1}\n"),
          "datasets[0].revision", IMPORT_IDLE, "applies to hubs" },
        /* packing of texts */
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
        { TORCHTUNE_ADAM "run_val_every_n_steps: 9\n", "run_val_every_n_steps",
          IMPORT_IDLE, "no dataset_val" },
        { TORCHTUNE_ADAM "save_every_n_steps: 0\n", "save_every_n_steps", IMPORT_IDLE,
          "off" },
        { TORCHTUNE_ADAM "lr_scheduler: {_component_: "
                         "x.get_cosine_schedule_with_warmup, num_cycles: 2}\n",
          "lr_scheduler", IMPORT_DIFFERS, "num_cycles other" },
        /* every key next to a _component_ is passed to it */
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
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        check_outcome(cases[i].source, cases[i].key, cases[i].outcome, cases[i].word);
}

/* Return the job with each comment on one line. */
static const char *unwrapped(const struct trial *trial)
{
    char *text = arena_strdup(trial->arena, trial->import.text.data), *to = text;

    for (const char *at = text; *at; *to++ = *at++)
        while (strncmp(at, "\n#   ", 5) == 0)
            at += 4;
    *to = 0;
    return text;
}

/* If the job only approximates the other tool, a comment names the difference. */
static void test_import_comments_on_differences(void **state)
{
#define NO_ATTENTION_REMARK \
    "texts in one block can attend to each other; in Axolotl they cannot"
    static const struct {
        const char *source, *comment;
    } cases[] = {
        { AXOLOTL "gradient_checkpointing: unsloth\n",
          "unsloth in Axolotl; a job keeps checkpointed activations on the device" },
        { AXOLOTL "fp16: true\nbf16: auto\n",
          "# on all devices, as in Axolotl 0.9.1 and later" },
        { AXOLOTL "fp16: false\nbf16: auto\n",
          "this job uses fp16 there, unless you set" },
        { AXOLOTL "fp16:\nbf16: auto\n", "otherwise fp16, as in Axolotl" },
        { AXOLOTL_TEXT,
          "into pieces of sequence_len (at most 64), each of them a sample;" },
        { AXOLOTL_TEXT "sample_packing: true\n", NO_ATTENTION_REMARK },
        { AXOLOTL_STREAM, "each text is a sample, truncated to cutoff_len" },
        { AXOLOTL_STREAM "pretraining_sample_concatenation: true\n",
          "the first sequence_len - 2 tokens of each text" },
        { AXOLOTL_STREAM "sample_packing: true\n",
          NO_ATTENTION_REMARK "\n"
                              "# a text that is cut continues in the next" },
        { AXOLOTL_STREAM "sample_packing: true\npretrain_multipack_attn: true\n",
          NO_ATTENTION_REMARK },
        { TORCHTUNE_TEXT("true"), "attend to each other; in torchtune they cannot" },
        { TORCHTUNE_ADAPTERS("phi3.lora_phi3_mini", "q_proj, v_proj", "true"),
          "qkv_proj: they share one adapter; torchtune leaves k_proj without one\n" },
        { TORCHTUNE_ADAPTERS("phi3.lora_phi3_mini", "v_proj", "true"),
          "one adapter; torchtune leaves q_proj and k_proj without" },
        { TORCHTUNE_ADAPTERS("phi4.lora_phi4_14b", "q_proj, k_proj, v_proj", "true"),
          "qkv_proj: they share one adapter\n" },
        { TORCHTUNE_ADAPTERS("phi4.lora_phi4_14b", "output_proj", "true"),
          "gate_up_proj: they share one adapter\n" },
    };
#undef NO_ATTENTION_REMARK

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct trial trial = trial_new("f.yml", cases[i].source, strlen(cases[i].source));

        if (!trial.good || !strstr(unwrapped(&trial), cases[i].comment))
            fail_msg("%s: no '%s' in\n%s", cases[i].source, cases[i].comment,
                     trial.good ? trial.import.text.data : trial.err.text);
        trial_end(&trial);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_import_refuses_unsupported_training),
        cmocka_unit_test(test_import_limits_references),
        cmocka_unit_test(test_import_quotes_ambiguous_values),
        cmocka_unit_test(test_import_keeps_text_inside_comments),
        cmocka_unit_test(test_import_prints_only_harmless_shell_commands),
        cmocka_unit_test(test_import_reports_every_key),
        cmocka_unit_test(test_import_reports_data_with_another_template),
        cmocka_unit_test(test_import_keeps_the_part_of_a_file),
        cmocka_unit_test(test_import_carries_a_base_in_4_bits),
        cmocka_unit_test(test_import_reports_what_may_change_the_result),
        cmocka_unit_test(test_import_reports_which_key_wins),
        cmocka_unit_test(test_import_comments_on_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
