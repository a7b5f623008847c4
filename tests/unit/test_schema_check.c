/* tests/unit/test_schema_check.c - findings on the names and values of a job. */
#include "config.h"

#include "tests/unit/unit_schema.h"

#include "base/size.h"
#include "patcher/schema/schema_value.h"

/* Return the first finding of that rule, or NULL. */
static const struct finding *find(const struct job *job, const char *rule)
{
    for (size_t i = 0; i < job->findings.count; i++)
        if (strcmp(job->findings.list[i].rule, rule) == 0)
            return &job->findings.list[i];
    return NULL;
}

static void test_schema_reports_types_and_ranges(void **state)
{
    static const struct {
        const char *line, *rule, *message;
    } cases[] = {
        { "lora_rank: eight\n", "TS704",
          "lora_rank must be a whole number from 1 to 65536, not 'eight'" },
        { "fp16: 1\n", "TS704",
          "fp16 must be true, false or auto, not '1'; did you mean true?" },
        { "use_cpu: flase\n", "TS704",
          "use_cpu must be true or false, not 'flase'; did you mean false?" },
        { "loss_scale: Dynamic\n", "TS704",
          "loss_scale must be dynamic, none, or a number of 1 or more, not 'Dynamic'; "
          "did you mean dynamic?" },
        { "bf16: !!str true\n", "TS704", "bf16 must be true, false or auto, not 'true'" },
        { "model_dtype: BF16\n", "TS705",
          "model_dtype must be auto, float32, float16 or bfloat16, not 'BF16'; did you "
          "mean bfloat16?" },
        { "eval_strategy: false\n", "TS705",
          "eval_strategy must be no, steps or epoch, not 'false'; did you mean no?" },
        { "lr_scheduler_type: constant-with-warmup\n", "TS705",
          "lr_scheduler_type must be linear, cosine, constant, constant_with_warmup, "
          "polynomial, cosine_with_restarts, cosine_with_min_lr, warmup_stable_decay, "
          "inverse_sqrt, cosine_warmup_with_min_lr or reduce_lr_on_plateau, not 'constant-with-warmup'; did "
          "you mean constant_with_warmup?" },
        { "finetuning_type: something\n", "TS705",
          "finetuning_type must be lora, full, freeze or oft, not 'something'" },
        { "learning_rate: [1]\n", "TS704", "learning_rate must be a number, not a list" },
        { "lora_rank: 0\n", "TS705",
          "lora_rank must be a whole number from 1 to 65536, not '0'" },
        { "loss_scale: 0.5\n", "TS705",
          "loss_scale must be dynamic, none, or a number of 1 or more, not '0.5'" },
        { "loss_scale: 1e16\n", "TS705",
          "loss_scale must be dynamic, none, or a number from 1 to 1000000000000000, "
          "not '1e16'" },
        { "seed: -1\n", "TS705", "seed must be a whole number of 0 or more, not '-1'" },
        { "seed: 18446744073709551615\n", "TS704",
          "seed must be a whole number from 0 to 1000000000000000, not "
          "'18446744073709551615'" },
        { "seed: 1000000000000001\n", "TS705",
          "seed must be a whole number from 0 to 1000000000000000, not "
          "'1000000000000001'" },
        { "num_train_epochs: 1e10\n", "TS705",
          "num_train_epochs must be a number above 0 and at most 1000000000, not '1e10'" },
        { "lr_scheduler_type: cosin\n", "TS705",
          "lr_scheduler_type must be linear, cosine, constant, constant_with_warmup, "
          "polynomial, cosine_with_restarts, cosine_with_min_lr, warmup_stable_decay, "
          "inverse_sqrt, cosine_warmup_with_min_lr or reduce_lr_on_plateau, not 'cosin'; did you mean cosine?" },
        { "lr_scheduler_type: greedy\n", "TS707", NULL },
        { "stage: ppo\n", "TS707",
          "stage must be sft, pt, distill, dpo, kto, grpo or rm, not ppo" },
        { "pref_loss: kto_pair\n", "TS707",
          "pref_loss must be sigmoid, hinge, ipo, orpo or simpo, not kto_pair" },
        { "pref_loss: dpo\n", "TS705",
          "pref_loss must be sigmoid, hinge, ipo, orpo or simpo, not 'dpo'; did you "
          "mean sigmoid?" },
        { "pref_beta: 0\n", "TS705", "pref_beta must be a number above 0, not '0'" },
        { "pref_ftx: -1\n", "TS705", "pref_ftx must be a number of 0 or more, not '-1'" },
        { "dpo_label_smoothing: 0.6\n", "TS705",
          "dpo_label_smoothing must be a number from 0 to 0.5, not '0.6'" },
        { "output_dir: ${x}/a\n", "TS008", NULL },
        { "memory_limit: lots\n", "TS704", NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char text[256];
        struct job *job;

        snprintf(text, sizeof(text), HEAD "%s", cases[i].line);
        job = job_new(text);
        assert_only(job, cases[i].rule);
        assert_int_equal(job->findings.list[0].severity, SEVERITY_ERROR);
        assert_int_equal(job->findings.list[0].at.line, 2);
        if (cases[i].message)
            assert_string_equal(job->findings.list[0].message, cases[i].message);
        job_free(job);
    }
}

static void test_schema_suggests_the_nearest_key(void **state)
{
    static const struct {
        const char *line, *rule, *now;
    } cases[] = {
        { "Logging_steps: 5\n", "TS701", "logging_steps" },
        { "num train epochs: 5\n", "TS701", "num_train_epochs" },
        { "--learning-rate: 1e-4\n", "TS701", "learning_rate" },
        { "lerning_rate: 1e-4\n", "TS702", "learning_rate" },
        { "max_stpes: 3\n", "TS702", "max_steps" },
        { "learning_rat: 1e-4\n", "TS702", "learning_rate" },
        { "laerning_rate: 1e-4\n", "TS702", "learning_rate" }, /* a swap is one change */
        { "learningRate: 1e-4\n", "TS701", "learning_rate" },
        { "LORA-RANK: 8\n", "TS701", "lora_rank" },
        { "Trainspool: {priority: 1}\n", "TS701", "trainspool" },
        { "trainspol: {priority: 1}\n", "TS702", "trainspool" },
        { "something_else: 3\n", "TS703", NULL },
        { "foo: 3\n", "TS703", NULL },
        { "num_train_epochs: 1\nNum_train_epochs: 3\n", "TS701", NULL },
        { "torch_dtype: auto\nmodel_dtype: auto\n", "TS005", NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char text[256];
        struct job *job;

        snprintf(text, sizeof(text), HEAD "%s", cases[i].line);
        job = job_new(text);
        assert_only(job, cases[i].rule);
        if (cases[i].now)
            assert_string_equal(job->findings.list[0].new_text, cases[i].now);
        else
            assert_null(job->findings.list[0].new_text);
        job_free(job);
    }
}

/* If both were renamed, the file would have one key twice. */
static void test_schema_never_renames_two_keys_to_one(void **state)
{
    static const char *const texts[] = {
        HEAD "Learning_Rate: 1\nlerning_rate: 1\n",
        HEAD "evaluation_strategy: no\nEval_Strategy: no\n",
        HEAD "torch_dtype: auto\ndtype: auto\n",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct job *job = job_new(texts[i]);

        assert_int_equal(job->findings.count, 2);
        assert_null(job->findings.list[0].new_text);
        assert_null(job->findings.list[1].new_text);
        job_free(job);
    }
}

static void test_schema_reports_at_most_a_hundred_unknown_keys(void **state)
{
    const struct finding *last;
    struct text text;
    struct job *job;

    (void)state;
    text_init(&text, 0);
    text_adds(&text, HEAD);
    for (int i = 0; i < 300; i++)
        text_addf(&text, "something_%d_else: 1\n", i);
    job = job_new(text.data);
    assert_int_equal(job->findings.count, 101);
    last = &job->findings.list[100];
    assert_string_equal(last->message, "200 more keys are not keys of a job");
    assert_int_equal(last->severity, SEVERITY_ERROR);
    job_free(job);
    text_clear(&text);
}

static void test_schema_never_shows_a_secret(void **state)
{
    struct job *job =
        job_new(HEAD "hf_hub_token: hf_PRIVATE\nhub_token: [hf_PRIVATE]\n"
                     "hf_hub_tokn: hf_PRIVATE\nswanlab_api_key: ${PRIVATE}\n");

    (void)state;
    assert_int_equal(job->findings.count, 4);
    for (size_t i = 0; i < job->findings.count; i++) {
        const struct finding *finding = &job->findings.list[i];

        assert_null(strstr(finding->message, "PRIVATE"));
        assert_true(!finding->old_text || !strstr(finding->old_text, "PRIVATE"));
        assert_true(!finding->new_text || !strstr(finding->new_text, "PRIVATE"));
    }
    assert_true(schema_is_secret("hub_token"));
    assert_true(schema_is_secret("AWS_SECRET_KEY"));
    assert_true(schema_is_secret("hf-hub-token"));
    assert_true(schema_is_secret("hf_hub_tokn"));
    assert_true(schema_is_secret("HF_hub_token"));
    assert_false(schema_is_secret("learning_rate"));
    assert_false(schema_is_secret("learning_rat"));
    job_free(job);
}

static void test_schema_collects_keys_without_effect(void **state)
{
    struct job *job =
        job_new(HEAD "ddp_timeout: 180000000\ndo_train: true\nreport_to: none\n"
                     "plot_loss: true\nfsdp:\nuse_galore: false\n"
                     "trust_remote_code: true\n");

    (void)state;
    assert_only(job, "TS708");
    assert_string_equal(job->findings.list[0].message,
                        "3 keys have no effect here: ddp_timeout, plot_loss, "
                        "trust_remote_code");
    assert_int_equal(job->findings.list[0].at.line, 2);
    job_free(job);
}

static void test_schema_suggests_several_equally_near_keys(void **state)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "adam_beta: 0.9\n",
          "adam_beta is not a key of a job; did you mean adam_beta1 or adam_beta2?" },
        { "warmup: 100\n",
          "warmup is not a key of a job; did you mean warmup_steps or warmup_ratio?" },
        { "gradient_accumulation: 8\n",
          "gradient_accumulation is not a key of a job; did you mean "
          "gradient_accumulation_steps?" },
        { "max_retries: 3\n",
          "max_retries is not a key of a job; it belongs in the block trainspool" },
        { "trainspool:\n  memory_limit: 3GiB\n",
          "memory_limit is not a key of the block trainspool; it belongs outside the "
          "block" },
        { "save: 8\n", "save is not a key of a job" }, /* too many keys begin with it */
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char text[256];
        struct job *job;

        snprintf(text, sizeof(text), HEAD "%s", cases[i].line);
        job = job_new(text);
        assert_only(job, "TS703");
        assert_string_equal(job->findings.list[0].message, cases[i].message);
        job_free(job);
    }
}

/* Every synonym stands for a value of its key. */
static void test_schema_synonyms_stand_for_values(void **state)
{
    const struct key *key;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        for (const char *at = key->synonyms; at && *at; at += *at == ' ') {
            char word[64];
            size_t len = strcspn(at, "=");

            assert_int_equal(at[len], '=');
            snprintf(word, sizeof(word), "%.*s", (int)len, at);
            at += strcspn(at, " ");
            if (!value_nearest(key, word))
                fail_msg("%s: %s is not a synonym of any value", key->name, word);
        }
}

/* A script may define more keys; LLaMA-Factory rejects unknown keys. */
static void test_schema_is_lenient_with_scripts(void **state)
{
    static const char target[] = "trainspool: {target: external}\n";
    static const struct {
        const char *text, *rule;
        enum severity severity;
    } cases[] = {
        { "my_own: 1\n", "TS703", SEVERITY_WARNING },
        { "learning_rat: 1\n", "TS702", SEVERITY_WARNING },
        { "base_model: m\n", "TS706", SEVERITY_WARNING },
        { "lora_r: 8\ndataset_name: d\nload_in_4bit: true\n", NULL, 0 },
        { "stage: sft\nmy_own: 1\n", "TS703", SEVERITY_ERROR },
        { "stage: sft\nlearning_rat: 1\n", "TS702", SEVERITY_ERROR },
        { "stage: sft\nlora_r: 8\n", "TS706", SEVERITY_ERROR },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char text[256];
        struct job *job;

        snprintf(text, sizeof(text), HEAD "%s%s", cases[i].text, target);
        job = job_new(text);
        assert_only(job, cases[i].rule);
        if (cases[i].rule)
            assert_int_equal(job->findings.list[0].severity, cases[i].severity);
        job_free(job);
    }
}

/* Findings in a map include its name and have no edit. */
static void test_schema_checks_members_of_maps(void **state)
{
    static const struct {
        const char *text, *rule, *message;
        enum severity severity;
    } cases[] = {
        { "lr_scheduler_kwargs: {min_lrr: 1e-6}\n", "TS702",
          "min_lrr is not a key of lr_scheduler_kwargs; did you mean min_lr?",
          SEVERITY_ERROR },
        { "lr_scheduler_kwargs:\n  Min-LR: 1e-6\n", "TS701",
          "Min-LR must be spelled min_lr", SEVERITY_ERROR },
        { "lr_scheduler_kwargs: {num_cycles: many}\n", "TS704",
          "num_cycles must be a number of 0 or more, not 'many'", SEVERITY_ERROR },
        { "lr_scheduler_kwargs: {decay_type: square}\n", "TS705",
          "decay_type must be cosine, linear or 1-sqrt, not 'square'", SEVERITY_ERROR },
        { "lr_scheduler_kwargs: {last_epoch: 100}\n", "TS708",
          "lr_scheduler_kwargs.last_epoch has no effect here", SEVERITY_INFO },
        { "lr_scheduler_kwargs: {patience: -1}\n", "TS705",
          "patience must be a whole number of 0 or more, not '-1'", SEVERITY_ERROR },
        { "trainspool: {target: external}\naccelerator_config: {split_batch: true}\n",
          "TS702",
          "split_batch is not a key of accelerator_config; did you mean split_batches?",
          SEVERITY_ERROR },
        { "trainspool: {target: external}\nfsdp_config: {fsdp_verson: 2}\n", "TS702",
          "fsdp_verson is not a key of fsdp_config; did you mean fsdp_version?",
          SEVERITY_WARNING },
        { "trainspool: {target: external}\nfsdp_config: {version: 2}\n", NULL, NULL, 0 },
        { "lr_scheduler_kwargs: {min_lr: 1e-6, num_cycles: 0.5}\n", NULL, NULL, 0 },
        { "lr_scheduler_type: cosine_with_restarts\n"
          "lr_scheduler_kwargs: {num_cycles: 3}\n",
          NULL, NULL, 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        char text[256];
        struct job *job;

        snprintf(text, sizeof(text), HEAD "%s", cases[i].text);
        job = job_new(text);
        assert_only(job, cases[i].rule);
        if (cases[i].rule) {
            assert_string_equal(job->findings.list[0].message, cases[i].message);
            assert_int_equal(job->findings.list[0].severity, cases[i].severity);
            assert_int_equal(job->findings.list[0].apply, APPLY_MANUAL);
        }
        job_free(job);
    }
}

/* Hugging Face accepts JSON in a string as a map. */
static void test_schema_reads_maps_in_json(void **state)
{
    struct job *job =
        job_new(HEAD "lr_scheduler_kwargs: '{\"min_lr\": 1e-6, \"num_cycles\": 2}'\n"
                     "gradient_checkpointing_kwargs: '{\"use_reentrant\": false}'\n");

    (void)state;
    assert_only(job, "TS708");
    assert_true(job->plan.schedule_min_lr == 1e-6);
    assert_true(job->plan.schedule_num_cycles == 2);
    job_free(job);
    job = job_new(HEAD "lr_scheduler_kwargs: '{\"min_lrr\": 1e-6}'\n");
    assert_only(job, "TS703");
    job_free(job);
    job = job_new(HEAD "lr_scheduler_kwargs: '{\"min_lr\": {}}'\n");
    assert_only(job, "TS704");
    job_free(job);
    job = job_new(HEAD "lr_scheduler_kwargs: '{\"min_lr\": '\n");
    assert_only(job, "TS704");
    job_free(job);
}

/* A wrong value of a key without effect would stop the tool that the file is for. */
static void test_schema_checks_values_without_effect(void **state)
{
    struct job *job = job_new(HEAD "hub_strategy: every_safe\ngalore_rank: 16\n");

    (void)state;
    assert_only(job, "TS705");
    assert_int_equal(job->findings.list[0].severity, SEVERITY_WARNING);
    assert_string_equal(job->findings.list[0].message,
                        "hub_strategy must be end, every_save, checkpoint or "
                        "all_checkpoints, not 'every_safe'; did you mean every_save?");
    job_free(job);
    job = job_new(HEAD "hub_strategy: every_safe\ntrainspool: {target: external}\n");
    assert_only(job, "TS705");
    assert_int_equal(job->findings.list[0].severity, SEVERITY_ERROR);
    job_free(job);
}

static void test_schema_rejects_unsupported_keys(void **state)
{
    struct job *job =
        job_new(HEAD "use_mca: true\noptimizer_in_bwd: true\nuse_hyper_parallel: true\n");

    (void)state;
    assert_int_equal(job->findings.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(job->findings.list[i].rule, "TS707");
        assert_int_equal(job->findings.list[i].severity, SEVERITY_ERROR);
    }
    job_free(job);
}

static void test_schema_does_not_edit_kept_keys(void **state)
{
    struct job *job = job_new(HEAD "fp16: yes # trainspool: keep\n"
                                   "bf16: off\n"
                                   "trainspool:\n"
                                   "  keep: [bf16]\n");

    (void)state;
    assert_int_equal(job->findings.count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(job->findings.list[i].rule, "TS012");
        assert_int_equal(job->findings.list[i].apply, APPLY_MANUAL);
        assert_null(job->findings.list[i].new_text);
    }
    assert_int_equal(job->plan.request.fp16, CHOICE_YES);
    job_free(job);
}

static void test_schema_reads_yaml11_numbers_as_pyyaml(void **state)
{
    struct job *job = job_new(HEAD "cutoff_len: 1_000\nseed: 017\nmax_steps: 12:30\n");

    (void)state;
    assert_int_equal(job->findings.count, 3);
    assert_non_null(find(job, "TS012"));
    assert_int_equal(job->plan.cutoff_len, 1000);
    assert_int_equal(job->plan.seed, 15);
    assert_int_equal(job->plan.max_steps, 750);
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_reports_types_and_ranges),
        cmocka_unit_test(test_schema_suggests_the_nearest_key),
        cmocka_unit_test(test_schema_never_renames_two_keys_to_one),
        cmocka_unit_test(test_schema_reports_at_most_a_hundred_unknown_keys),
        cmocka_unit_test(test_schema_never_shows_a_secret),
        cmocka_unit_test(test_schema_collects_keys_without_effect),
        cmocka_unit_test(test_schema_suggests_several_equally_near_keys),
        cmocka_unit_test(test_schema_synonyms_stand_for_values),
        cmocka_unit_test(test_schema_is_lenient_with_scripts),
        cmocka_unit_test(test_schema_checks_members_of_maps),
        cmocka_unit_test(test_schema_reads_maps_in_json),
        cmocka_unit_test(test_schema_checks_values_without_effect),
        cmocka_unit_test(test_schema_rejects_unsupported_keys),
        cmocka_unit_test(test_schema_does_not_edit_kept_keys),
        cmocka_unit_test(test_schema_reads_yaml11_numbers_as_pyyaml),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
