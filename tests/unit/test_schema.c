/* tests/unit/test_schema.c - every row of the table can be bound, read and explained. */
#include "config.h"

#include "patcher/schema.h"

#include "patcher/schema_value.h"
#include "tests/unit/unit.h"

#include "base/size.h"

struct job {
    struct arena *arena;
    struct document document;
    struct findings findings;
    struct plan plan;
};

static struct job *job_new(const char *text)
{
    struct job *job = memory_alloc(sizeof(*job));

    job->arena = arena_new();
    findings_init(&job->findings, job->arena);
    document_read(text, strlen(text), job->arena, &job->document);
    job->plan.dir = "/jobs";
    job->plan.run_dir = "/jobs/a.run";
    schema_check(&job->document, &job->findings);
    schema_bind(&job->document, job->arena, &job->plan);
    return job;
}

static void job_free(struct job *job)
{
    arena_free(job->arena);
    free(job);
}

/* The only finding of that rule, or NULL. */
static const struct finding *find(const struct job *job, const char *rule)
{
    for (size_t i = 0; i < job->findings.count; i++)
        if (strcmp(job->findings.list[i].rule, rule) == 0)
            return &job->findings.list[i];
    return NULL;
}

static void assert_only(const struct job *job, const char *rule)
{
    assert_int_equal(job->findings.count, rule ? 1 : 0);
    if (rule)
        assert_string_equal(job->findings.list[0].rule, rule);
}

#define HEAD "model_name_or_path: m\n"

/* ---- The table ---- */

static void test_schema_names_are_unique_and_told(void **state)
{
    const struct key *key;
    size_t count = 0;

    (void)state;
    for (; (key = schema_at(&schema_job, count)); count++) {
        assert_non_null(key->name);
        assert_non_null(key->help);
        assert_ptr_equal(schema_find(key->name), key);
        assert_true(strlen(key->name) < 64);
        if (key->use == KEY_RENAMED)
            assert_non_null(schema_find(key->now));
        if (key->use == KEY_FOREIGN)
            assert_true((key->now || key->instead) && key->tools);
        if (key->use == KEY_FOREIGN && key->now)
            assert_non_null(schema_find(key->now));
    }
    assert_true(count > 400);
}

static struct value read_text(const struct key *key, const char *text,
                              struct arena *arena)
{
    struct node node = { .kind = NODE_SCALAR, .text = text, .len = strlen(text) };

    return value_read(key, &node, arena);
}

static void check_preset(const struct key *key, struct arena *arena)
{
    struct value value = read_text(key, key->preset, arena);

    if (value.state != VALUE_GOOD || value.kind != SCALAR_GOOD)
        fail_msg("%s: the preset %s is no value of the key", key->name, key->preset);
}

static void test_schema_presets_are_values(void **state)
{
    struct arena *arena = arena_new();
    const struct key *key;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        if (key->preset && key->type != KEY_BOOL_OR_TEXT)
            check_preset(key, arena);
    for (size_t i = 0; (key = schema_at(&schema_block, i)); i++)
        if (key->preset)
            check_preset(key, arena);
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        for (size_t k = 0; key->members && schema_at(key->members, k); k++)
            if (schema_at(key->members, k)->preset)
                check_preset(schema_at(key->members, k), arena);
    arena_free(arena);
}

/* A value that is not the preset, and what it looks like in the plan. */
static const char *other_value(const struct key *key)
{
    switch (key->type) {
    case KEY_BOOL:
        return strcmp(key->preset ? key->preset : "true", "true") == 0 ? "false" : "true";
    case KEY_CHOICE:
        return key->preset && strcmp(key->preset, "false") == 0 ? "true" : "false";
    case KEY_INT:
        return strcmp(key->name, "version") == 0 ? "1" : "7";
    case KEY_REAL:
        return "0.125";
    case KEY_ENUM:
        return strcmp(key->preset, key->values[0]) == 0 && key->values[1]
                   ? key->values[1]
                   : key->values[0];
    case KEY_SCALE:
        return "none";
    case KEY_SIZE:
        return "3GiB";
    case KEY_SECONDS:
        return "2h";
    default:
        return "/some/text";
    }
}

static size_t size_of(const struct key *key)
{
    return key->type == KEY_BOOL ? sizeof(bool)
           : key->type == KEY_CHOICE || key->type == KEY_ENUM || key->type == KEY_SCALE
               ? sizeof(int)
               : sizeof(void *);
}

static bool is_changed(const struct key *key, const struct plan *a, const struct plan *b)
{
    return memcmp((const char *)a + key->into, (const char *)b + key->into,
                  size_of(key)) != 0;
}

/* The field changes, and that of no other row. */
static void check_binding(const struct key *key, bool block)
{
    struct job *job = job_new(HEAD);
    struct plan before = job->plan;
    const struct key *other;
    char name[80];

    snprintf(name, sizeof(name), "%s%s", block ? "trainspool." : "", key->name);
    assert_true(schema_set(name, other_value(key), job->arena, &job->plan, NULL));
    if (!is_changed(key, &before, &job->plan))
        fail_msg("%s: %s is not bound", name, other_value(key));
    for (size_t i = 0; (other = schema_at(&schema_job, i)); i++)
        if (other->into && other != key && is_changed(other, &before, &job->plan))
            fail_msg("%s changes %s", name, other->name);
    job_free(job);
}

static void test_schema_every_row_binds_its_field(void **state)
{
    const struct key *key;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        if (key->use == KEY_USED && key->into != 0)
            check_binding(key, false);
    for (size_t i = 0; (key = schema_at(&schema_block, i)); i++)
        if (key->use == KEY_USED && key->into != 0)
            check_binding(key, true);
}

/* ---- Presets and binding ---- */

static void test_schema_presets_are_llama_factory(void **state)
{
    struct job *job = job_new(HEAD);
    const struct plan *plan = &job->plan;

    (void)state;
    assert_only(job, NULL);
    assert_int_equal(plan->method, METHOD_LORA);
    assert_int_equal(plan->stage, STAGE_SFT);
    assert_true(plan->gradient_checkpointing);
    assert_int_equal(plan->per_device_train_batch_size, 8);
    assert_int_equal(plan->cutoff_len, 2048);
    assert_true(plan->learning_rate == 5e-5);
    assert_true(plan->request.max_grad_norm == 1.0);
    assert_true(plan->num_train_epochs == 3.0);
    assert_int_equal(plan->max_steps, -1);
    assert_int_equal(plan->data_seed, -1);
    assert_true(plan->save_steps == 500 && plan->logging_steps == 500);
    assert_true(plan->eval_steps == plan->logging_steps);
    assert_int_equal(plan->eval_strategy, WHEN_NO);
    assert_int_equal(plan->save_strategy, WHEN_STEPS);
    assert_int_equal(plan->packing, CHOICE_AUTO);
    assert_int_equal(plan->request.loss_scaling, CHOICE_AUTO);
    assert_int_equal(plan->request.tf32, CHOICE_AUTO);
    assert_int_equal(plan->request.bf16, CHOICE_NO);
    assert_true(plan->request.has_frozen && !plan->request.all_trainable);
    assert_true(plan->lora_alpha == 0);
    assert_string_equal(plan->model_name_or_path, "/jobs/m");
    assert_string_equal(plan->dataset_dir, "/jobs/data");
    assert_string_equal(plan->output_dir, "/jobs/a.run");
    assert_string_equal(plan->device_wanted, "auto");
    assert_null(plan->dataset);
    job_free(job);
}

static void test_schema_types_decide_not_yaml(void **state)
{
    struct job *job = job_new(HEAD "learning_rate: 1e-4\n"
                                   "dataset: no\n"
                                   "template: 1.0\n"
                                   "weight_decay: .5\n"
                                   "warmup_steps: 1E+2\n"
                                   "max_samples: 2e3\n"
                                   "fp16: True\n");

    (void)state;
    assert_only(job, NULL);
    assert_true(job->plan.learning_rate == 1e-4);
    assert_string_equal(job->plan.dataset, "no");
    assert_string_equal(job->plan.template_name, "1.0");
    assert_true(job->plan.weight_decay == 0.5);
    assert_true(job->plan.warmup_steps == 100);
    assert_int_equal(job->plan.max_samples, 2000);
    assert_int_equal(job->plan.request.fp16, CHOICE_YES);
    job_free(job);
}

static void test_schema_null_is_not_given(void **state)
{
    struct job *job = job_new(HEAD "fp16:\nlora_alpha: ~\ncutoff_len: null\nseed:\n"
                                   "max_grad_norm:\nsave_total_limit: -1\n");

    (void)state;
    assert_only(job, NULL);
    assert_int_equal(job->plan.request.fp16, CHOICE_NO);
    assert_int_equal(job->plan.cutoff_len, 2048);
    assert_int_equal(job->plan.seed, 42);
    assert_int_equal(job->plan.save_total_limit, 0);
    assert_true(job->plan.request.max_grad_norm == 0); /* off, as Hugging Face reads it */
    job_free(job);
}

static void test_schema_joins_lists_and_places_paths(void **state)
{
    struct job *job = job_new(HEAD "lora_target: [q_proj, v_proj]\n"
                                   "dataset:\n- a.jsonl\n- b.json\n"
                                   "output_dir: out\n"
                                   "export_dir: /abs\n"
                                   "resume_from_checkpoint: true\n");

    (void)state;
    assert_only(job, NULL);
    assert_string_equal(job->plan.lora_target, "q_proj,v_proj");
    assert_string_equal(job->plan.dataset, "a.jsonl,b.json");
    assert_string_equal(job->plan.output_dir, "/jobs/out");
    assert_string_equal(job->plan.export_dir, "/abs");
    assert_string_equal(job->plan.resume_from_checkpoint, "true");
    job_free(job);
}

static void test_schema_resolves_checkpointing(void **state)
{
    static const struct {
        const char *text;
        bool on;
    } cases[] = {
        { HEAD, true },
        { HEAD "gradient_checkpointing: false\n", false },
        { HEAD "gradient_checkpointing: true\n", true },
        { HEAD "disable_gradient_checkpointing: true\n", false },
        { HEAD "disable_gradient_checkpointing: false\n", true },
        { HEAD "gradient_checkpointing: true\ndisable_gradient_checkpointing: true\n",
          true },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct job *job = job_new(cases[i].text);

        assert_int_equal(job->plan.gradient_checkpointing, cases[i].on);
        job_free(job);
    }
}

static void test_schema_binds_aliases_and_shared_fields(void **state)
{
    struct job *job =
        job_new("stage: pt\n"
                "torch_dtype: float16\n"
                "evaluation_strategy: epoch\n"
                "optim: adamw_8bit\n"
                "use_cpu: true\n"
                "train_sampling_strategy: sequential\n"
                "loss_scale: 128\n"
                "finetuning_type: full\n"
                "lr_scheduler_kwargs: {min_lr_rate: 0.1, num_stable_steps: 5}\n"
                "trainspool:\n"
                "  policy: noclip\n"
                "  target: external\n"
                "  timeout: 90m\n");
    const struct plan *plan = &job->plan;

    (void)state;
    assert_int_equal(plan->request.model_dtype, DTYPE_FLOAT16);
    assert_int_equal(plan->eval_strategy, WHEN_EPOCH);
    assert_int_equal(plan->optimizer, OPTIMIZER_ADAMW);
    assert_string_equal(plan->device_wanted, "cpu");
    assert_true(plan->disable_shuffling);
    assert_int_equal(plan->request.loss_scaling, CHOICE_YES);
    assert_true(plan->request.loss_scale == 128);
    assert_true(plan->request.all_trainable);
    assert_true(plan->schedule_min_lr_rate == 0.1);
    assert_int_equal(plan->schedule_stable_steps, 5);
    assert_int_equal(plan->policy, POLICY_NOCLIP);
    assert_int_equal(plan->request.policy, POLICY_NOCLIP);
    assert_true(plan->external);
    assert_true(plan->timeout_seconds == 5400);
    job_free(job);
}

static void test_schema_set_takes_one_key(void **state)
{
    struct job *job = job_new(HEAD);
    struct error err = { 0 };

    (void)state;
    assert_true(schema_set("max_steps", "12", job->arena, &job->plan, &err));
    assert_true(schema_set("finetuning_type", "full", job->arena, &job->plan, &err));
    assert_true(schema_set("trainspool.threads", "2", job->arena, &job->plan, &err));
    assert_int_equal(job->plan.max_steps, 12);
    assert_true(job->plan.request.all_trainable);
    assert_int_equal(job->plan.threads, 2);
    assert_false(schema_set("max_stpes", "12", job->arena, &job->plan, &err));
    assert_string_equal(err.text,
                        "max_stpes is no key of a job; did you mean max_steps?");
    error_clear(&err);
    assert_false(schema_set("max_steps", "many", job->arena, &job->plan, &err));
    assert_int_equal(err.code, ERROR_USAGE);
    job_free(job);
}

/* ---- Findings ---- */

static void test_schema_tells_types_and_ranges(void **state)
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
        { "model_dtype: BF16\n", "TS705",
          "model_dtype must be auto, float32, float16 or bfloat16, not 'BF16'; did you "
          "mean bfloat16?" },
        { "eval_strategy: false\n", "TS705",
          "eval_strategy must be no, steps or epoch, not 'false'; did you mean no?" },
        { "lr_scheduler_type: constant-with-warmup\n", "TS705",
          "lr_scheduler_type must be linear, cosine, constant, constant_with_warmup, "
          "polynomial, cosine_with_min_lr or warmup_stable_decay, not "
          "'constant-with-warmup'; did you mean constant_with_warmup?" },
        { "finetuning_type: something\n", "TS705",
          "finetuning_type must be lora, full or freeze, not 'something'" },
        { "learning_rate: [1]\n", "TS704", "learning_rate must be a number, not a list" },
        { "lora_rank: 0\n", "TS705",
          "lora_rank must be a whole number from 1 to 65536, not '0'" },
        { "loss_scale: 0.5\n", "TS705",
          "loss_scale must be dynamic, none, or a number of 1 or more, not '0.5'" },
        { "lr_scheduler_type: cosin\n", "TS705",
          "lr_scheduler_type must be linear, cosine, constant, constant_with_warmup, "
          "polynomial, cosine_with_min_lr or warmup_stable_decay, not 'cosin'; did you "
          "mean "
          "cosine?" },
        { "stage: dpo\n", "TS707",
          "stage: dpo is not done here, only sft, pt or distill" },
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

static void test_schema_names_the_nearest(void **state)
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
        { "laerning_rate: 1e-4\n", "TS702", "learning_rate" }, /* two neighbours: one */
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
            assert_string_equal(job->findings.list[0].now, cases[i].now);
        else
            assert_null(job->findings.list[0].now);
        job_free(job);
    }
}

/* Renamed both, the file would have one key twice. */
static void test_schema_renames_no_two_to_one(void **state)
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
        assert_null(job->findings.list[0].now);
        assert_null(job->findings.list[1].now);
        job_free(job);
    }
}

static void test_schema_tells_a_hundred_unknown_keys(void **state)
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
    assert_string_equal(last->message, "200 more keys are no keys of a job");
    assert_int_equal(last->severity, SEVERITY_ERROR);
    job_free(job);
    text_clear(&text);
}

static void test_schema_never_shows_a_secret(void **state)
{
    struct job *job =
        job_new(HEAD "hf_hub_token: hf_GEHEIM\nhub_token: [hf_GEHEIM]\n"
                     "hf_hub_tokn: hf_GEHEIM\nswanlab_api_key: ${GEHEIM}\n");

    (void)state;
    assert_int_equal(job->findings.count, 4);
    for (size_t i = 0; i < job->findings.count; i++) {
        const struct finding *finding = &job->findings.list[i];

        assert_null(strstr(finding->message, "GEHEIM"));
        assert_true(!finding->was || !strstr(finding->was, "GEHEIM"));
        assert_true(!finding->now || !strstr(finding->now, "GEHEIM"));
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

static void test_schema_gathers_keys_without_effect(void **state)
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

static void test_schema_names_several_that_are_as_near(void **state)
{
    static const struct {
        const char *line, *message;
    } cases[] = {
        { "adam_beta: 0.9\n",
          "adam_beta is no key of a job; did you mean adam_beta1 or adam_beta2?" },
        { "warmup: 100\n",
          "warmup is no key of a job; did you mean warmup_steps or warmup_ratio?" },
        { "gradient_accumulation: 8\n",
          "gradient_accumulation is no key of a job; did you mean "
          "gradient_accumulation_steps?" },
        { "save: 8\n", "save is no key of a job" }, /* too many begin so */
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

/* The words that did_you_mean turns into others are values of the key. */
static void test_schema_words_mean_values(void **state)
{
    const struct key *key;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        for (const char *at = key->meant; at && *at; at += *at == ' ') {
            char word[64];
            size_t len = strcspn(at, "=");

            assert_int_equal(at[len], '=');
            snprintf(word, sizeof(word), "%.*s", (int)len, at);
            at += strcspn(at, " ");
            if (!value_nearest(key, word))
                fail_msg("%s: %s means nothing", key->name, word);
        }
}

/* A script may have keys of its own; LLaMA-Factory stops at what it does not know. */
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

/* Names in a map are told with its name; they are not edited. */
static void test_schema_looks_into_maps(void **state)
{
    static const struct {
        const char *text, *rule, *message;
        enum severity severity;
    } cases[] = {
        { "lr_scheduler_kwargs: {min_lrr: 1e-6}\n", "TS702",
          "min_lrr is no key of lr_scheduler_kwargs; did you mean min_lr?",
          SEVERITY_ERROR },
        { "lr_scheduler_kwargs:\n  Min-LR: 1e-6\n", "TS701", "Min-LR is written min_lr",
          SEVERITY_ERROR },
        { "lr_scheduler_kwargs: {num_cycles: many}\n", "TS704",
          "num_cycles must be a number of 0 or more, not 'many'", SEVERITY_ERROR },
        { "lr_scheduler_kwargs: {decay_type: linear}\n", "TS707",
          "decay_type: linear is not done here, only cosine", SEVERITY_ERROR },
        { "lr_scheduler_kwargs: {timescale: 100}\n", "TS708",
          "lr_scheduler_kwargs.timescale has no effect here", SEVERITY_INFO },
        { "trainspool: {target: external}\naccelerator_config: {split_batch: true}\n",
          "TS702",
          "split_batch is no key of accelerator_config; did you mean split_batches?",
          SEVERITY_ERROR },
        { "trainspool: {target: external}\nfsdp_config: {fsdp_verson: 2}\n", "TS702",
          "fsdp_verson is no key of fsdp_config; did you mean fsdp_version?",
          SEVERITY_WARNING },
        { "trainspool: {target: external}\nfsdp_config: {version: 2}\n", NULL, NULL, 0 },
        { "lr_scheduler_kwargs: {min_lr: 1e-6, num_cycles: 0.5}\n", NULL, NULL, 0 },
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

/* Hugging Face takes JSON in a text for a map. */
static void test_schema_reads_maps_of_json(void **state)
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

/* A word that is none of a key without effect would stop the tool the file came from. */
static void test_schema_tells_wrong_values_without_effect(void **state)
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

static void test_schema_refuses_what_is_on(void **state)
{
    struct job *job =
        job_new(HEAD "deepspeed: z3.json\nquantization_bit: 4\nuse_dora: true\n");

    (void)state;
    assert_int_equal(job->findings.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(job->findings.list[i].rule, "TS707");
        assert_int_equal(job->findings.list[i].severity, SEVERITY_ERROR);
    }
    job_free(job);
}

static void test_schema_keeps_what_the_job_keeps(void **state)
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
        assert_null(job->findings.list[i].now);
    }
    assert_int_equal(job->plan.request.fp16, CHOICE_YES);
    job_free(job);
}

static void test_schema_reads_old_yaml_as_pyyaml(void **state)
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
        cmocka_unit_test(test_schema_names_are_unique_and_told),
        cmocka_unit_test(test_schema_presets_are_values),
        cmocka_unit_test(test_schema_every_row_binds_its_field),
        cmocka_unit_test(test_schema_presets_are_llama_factory),
        cmocka_unit_test(test_schema_types_decide_not_yaml),
        cmocka_unit_test(test_schema_null_is_not_given),
        cmocka_unit_test(test_schema_joins_lists_and_places_paths),
        cmocka_unit_test(test_schema_resolves_checkpointing),
        cmocka_unit_test(test_schema_binds_aliases_and_shared_fields),
        cmocka_unit_test(test_schema_set_takes_one_key),
        cmocka_unit_test(test_schema_tells_types_and_ranges),
        cmocka_unit_test(test_schema_names_the_nearest),
        cmocka_unit_test(test_schema_renames_no_two_to_one),
        cmocka_unit_test(test_schema_tells_a_hundred_unknown_keys),
        cmocka_unit_test(test_schema_never_shows_a_secret),
        cmocka_unit_test(test_schema_gathers_keys_without_effect),
        cmocka_unit_test(test_schema_names_several_that_are_as_near),
        cmocka_unit_test(test_schema_words_mean_values),
        cmocka_unit_test(test_schema_is_lenient_with_scripts),
        cmocka_unit_test(test_schema_looks_into_maps),
        cmocka_unit_test(test_schema_reads_maps_of_json),
        cmocka_unit_test(test_schema_tells_wrong_values_without_effect),
        cmocka_unit_test(test_schema_refuses_what_is_on),
        cmocka_unit_test(test_schema_keeps_what_the_job_keeps),
        cmocka_unit_test(test_schema_reads_old_yaml_as_pyyaml),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
