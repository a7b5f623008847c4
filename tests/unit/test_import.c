/* tests/unit/test_import.c - refused files, quoting, comments, and parts of files. */
#include "config.h"

#include "tests/unit/unit_import.h"

#include "base/size.h"
#include "patcher/import/import_internal.h"

static void test_import_refuses_unsupported_training(void **state)
{
    static const struct {
        const char *source;
        enum error_code code;
        uint32_t line;
        const char *word;
    } cases[] = {
        { AXOLOTL "rl: ebft\n", ERROR_JOB, 3,
          "must be dpo, ipo, orpo, simpo, kto, grpo or gdpo, not ebft" },
        { AXOLOTL "rl: grpo\ntrl:\n  reward_funcs: [rewards.format]\n", ERROR_JOB, 5,
          "rewards.format is a function in Python" },
        { AXOLOTL "rl: grpo\n", ERROR_JOB, 3, "without trl.reward_funcs has no reward" },
        { AXOLOTL "rl: dpo\ndpo_loss_type: [robust]\n", ERROR_JOB, 4, "dpo_loss_type" },
        { AXOLOTL "rl: dpo\nrl_beta: 0\n", ERROR_DATA, 4, "pref_beta" },
        { AXOLOTL "reward_model: true\nnum_labels: 2\n", ERROR_JOB, 4, "num_labels" },
        { AXOLOTL "process_reward_model: true\n", ERROR_JOB, 3, "reward" },
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
        { TORCHTUNE_ADAM "loss: {_component_: torchtune.dev.grpo.loss.GRPOSimpleLoss}\n",
          ERROR_JOB, 7,
          "stage: grpo has the rewards answer, format, pattern and length" },
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

static const char *const ambiguous[] = {
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

static void test_import_quotes_ambiguous_values(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(ambiguous); i++) {
        struct arena *arena = arena_new();
        struct document document;
        const struct entry *entry;
        char *line = arena_printf(arena, "k: %s  # note\nl: 1\n",
                                  import_yaml(arena, ambiguous[i]));

        document_read(line, strlen(line), arena, &document);
        entry = document.root ? document_find(&document, "k") : NULL;
        if (!entry || document.root->count != 2 || document.remark_count > 0 ||
            strcmp(entry->value->text, ambiguous[i]) != 0 || node_is_null(entry->value))
            fail_msg("'%s' was written as %s", ambiguous[i], line);
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
        cmocka_unit_test(test_import_keeps_the_part_of_a_file),
        cmocka_unit_test(test_import_comments_on_differences),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
