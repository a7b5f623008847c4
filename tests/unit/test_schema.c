/* tests/unit/test_schema.c - the key table is consistent, and its keys reach the plan. */
#include "config.h"

#include "tests/unit/unit_schema.h"

#include "base/size.h"
#include "patcher/schema/schema_value.h"
#include "train/model/optimizer_table.h"

/* ---- The table ---- */

static void test_schema_names_are_unique_and_have_help(void **state)
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
        if (key->use == KEY_OTHER_TOOL)
            assert_true((key->now || key->instead) && key->tools);
        if (key->use == KEY_OTHER_TOOL && key->now)
            assert_non_null(schema_find(key->now));
    }
    assert_true(count > 400);
}

/* Names that look like secrets are found first: the table decides about its own keys. */
static void test_schema_table_decides_what_is_secret(void **state)
{
    const struct key *key;
    size_t secrets = 0;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++) {
        assert_int_equal(schema_is_secret(key->name), key->secret);
        secrets += key->secret;
    }
    assert_true(secrets > 5);
    assert_true(schema_is_secret("hf_hub_tokn"));
    assert_true(schema_is_secret("AWS_SECRET_KEY"));
    assert_false(schema_is_secret("k59999"));
    assert_false(schema_is_secret(""));
}

static struct value read_text(const struct key *key, const char *text,
                              struct arena *arena)
{
    struct node node = { .kind = NODE_SCALAR, .text = text, .len = strlen(text) };

    return value_read(key, &node, arena);
}

static void check_default(const struct key *key, struct arena *arena)
{
    struct value value = read_text(key, key->default_value, arena);

    if (value.state != VALUE_GOOD || value.kind != SCALAR_GOOD)
        fail_msg("%s: the default %s is not a value of the key", key->name,
                 key->default_value);
}

static void test_schema_defaults_are_values(void **state)
{
    struct arena *arena = arena_new();
    const struct key *key;

    (void)state;
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        if (key->default_value && key->type != KEY_BOOL_OR_TEXT)
            check_default(key, arena);
    for (size_t i = 0; (key = schema_at(&schema_block, i)); i++)
        if (key->default_value)
            check_default(key, arena);
    for (size_t i = 0; (key = schema_at(&schema_job, i)); i++)
        for (size_t k = 0; key->members && schema_at(key->members, k); k++)
            if (schema_at(key->members, k)->default_value)
                check_default(schema_at(key->members, k), arena);
    arena_free(arena);
}

/* Return a value other than the default. */
static const char *other_value(const struct key *key)
{
    switch (key->type) {
    case KEY_BOOL:
        return strcmp(key->default_value ? key->default_value : "true", "true") == 0
                   ? "false"
                   : "true";
    case KEY_CHOICE:
        return key->default_value && strcmp(key->default_value, "false") == 0 ? "true"
                                                                              : "false";
    case KEY_INT:
        return strcmp(key->name, "version") == 0 ? "1"
               : key->max > 1 && key->max < 7    ? "2"
                                                 : "7";
    case KEY_REAL:
        return "0.125";
    case KEY_ENUM:
        return strcmp(key->default_value, key->values[0]) == 0 && key->values[1]
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

/* Binding the key changes its field and that of no other row. */
static void check_binding(const struct key *key, bool block)
{
    struct job *job = job_new(HEAD);
    struct plan before = job->plan;
    const struct key *other;
    char name[80];

    snprintf(name, sizeof(name), "%s%s", block ? "trainspool." : "", key->name);
    assert_true(schema_set(name, other_value(key), job->arena, &job->plan, NULL));
    if (!is_changed(key, &before, &job->plan))
        fail_msg("%s: %s does not reach the plan", name, other_value(key));
    /* ASFT is a distillation, with the settings of one */
    for (size_t i = 0;
         strcmp(name, "use_asft_loss") != 0 && (other = schema_at(&schema_job, i)); i++)
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

/* ---- Defaults and binding ---- */

static void test_schema_defaults_match_llama_factory(void **state)
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
    assert_string_equal(plan->media_dir, "/jobs/data");
    assert_null(plan->features);
    assert_int_equal(plan->image_max_pixels, 768 * 768);
    assert_int_equal(plan->image_min_pixels, 32 * 32);
    assert_int_equal(plan->audio_sampling_rate, 16000);
    assert_true(plan->freeze_vision_tower && plan->freeze_multi_modal_projector);
    assert_false(plan->freeze_language_model);
    job_free(job);
}

/* Media are next to the data, unless the job says otherwise. */
static void test_schema_binds_media(void **state)
{
    struct job *job = job_new(HEAD "dataset_dir: sets\n"
                                   "image_resolution: 4096\n"
                                   "freeze_multi_modal_projector: false\n"
                                   "trainspool: {features: rows.safetensors}\n");

    (void)state;
    assert_only(job, NULL);
    assert_string_equal(job->plan.media_dir, "/jobs/sets");
    assert_string_equal(job->plan.features, "/jobs/rows.safetensors");
    assert_int_equal(job->plan.image_max_pixels, 4096);
    assert_false(job->plan.freeze_multi_modal_projector);
    job_free(job);
    job = job_new(HEAD "dataset_dir: sets\nmedia_dir: sounds\n");
    assert_only(job, NULL);
    assert_string_equal(job->plan.media_dir, "/jobs/sounds");
    job_free(job);
}

static void test_schema_type_of_the_key_decides(void **state)
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

static void test_schema_null_means_default(void **state)
{
    struct job *job = job_new(HEAD "fp16:\nlora_alpha: ~\ncutoff_len: null\nseed:\n"
                                   "max_grad_norm:\nsave_total_limit: -1\n");

    (void)state;
    assert_only(job, NULL);
    assert_int_equal(job->plan.request.fp16, CHOICE_NO);
    assert_int_equal(job->plan.cutoff_len, 2048);
    assert_int_equal(job->plan.seed, 42);
    assert_int_equal(job->plan.save_total_limit, 0);
    assert_true(job->plan.request.max_grad_norm == 0); /* off, as in Hugging Face */
    job_free(job);
}

static void test_schema_joins_lists_and_resolves_paths(void **state)
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
                "lr_scheduler_kwargs: {min_lr_rate: 0.1, num_stable_steps: 5, "
                "decay_type: 1-sqrt, warmup_type: cosine, timescale: 12, "
                "warmup_lr_rate: 0.2}\n"
                "trainspool:\n"
                "  policy: noclip\n"
                "  target: external\n"
                "  timeout: 90m\n");
    const struct plan *plan = &job->plan;

    (void)state;
    assert_int_equal(plan->request.model_dtype, DTYPE_FLOAT16);
    assert_int_equal(plan->eval_strategy, WHEN_EPOCH);
    assert_string_equal(optimizer_names[plan->optimizer], "adamw_8bit");
    assert_string_equal(plan->device_wanted, "cpu");
    assert_true(plan->disable_shuffling);
    assert_int_equal(plan->request.loss_scaling, CHOICE_YES);
    assert_true(plan->request.loss_scale == 128);
    assert_true(plan->request.all_trainable);
    assert_true(plan->schedule_min_lr_rate == 0.1);
    assert_int_equal(plan->schedule_stable_steps, 5);
    assert_int_equal(plan->schedule_decay, DECAY_ROOT);
    assert_int_equal(plan->schedule_warmup, WARMUP_COSINE);
    assert_int_equal(plan->schedule_timescale, 12);
    assert_true(plan->schedule_warmup_lr_rate == 0.2);
    assert_int_equal(plan->policy, POLICY_NOCLIP);
    assert_int_equal(plan->request.policy, POLICY_NOCLIP);
    assert_true(plan->external);
    assert_true(plan->timeout_seconds == 5400);
    job_free(job);
}

/* With LLaMA-Factory's names, its older names, and the defaults. */
static void test_schema_binds_preferences(void **state)
{
    static const struct {
        const char *text;
        enum preference_loss loss;
        double beta, ftx, smoothing, gamma;
        const char *reference, *adapter;
    } cases[] = {
        { "stage: dpo\n", PREFERENCE_SIGMOID, 0.1, 0, 0, 0.5, NULL, NULL },
        { "stage: dpo\npref_loss: hinge\npref_beta: 0.3\npref_ftx: 0.2\n"
          "ref_model: r\nref_model_adapters: /a\n",
          PREFERENCE_HINGE, 0.3, 0.2, 0, 0.5, "/jobs/r", "/a" },
        { "stage: dpo\npref_loss: ipo\n", PREFERENCE_IPO, 0.1, 0, 0, 0.5, NULL, NULL },
        { "stage: dpo\npref_loss: orpo\norpo_beta: 0.2\n", PREFERENCE_ORPO, 0.2, 0, 0,
          0.5, NULL, NULL },
        { "stage: dpo\npref_loss: simpo\nsimpo_gamma: 1.5\n", PREFERENCE_SIMPO, 0.1, 0, 0,
          1.5, NULL, NULL },
        { "stage: dpo\ndpo_loss: sigmoid\ndpo_beta: 0.4\ndpo_ftx: 1\n"
          "dpo_label_smoothing: 0.1\ndpo_ref_model: r\ndpo_ref_model_checkpoint: a\n",
          PREFERENCE_SIGMOID, 0.4, 1, 0.1, 0.5, "/jobs/r", "/jobs/a" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct job *job = job_new(cases[i].text);
        const struct preference *preference = &job->plan.preference;

        assert_only(job, NULL);
        assert_int_equal(job->plan.stage, STAGE_DPO);
        assert_int_equal(preference->loss, cases[i].loss);
        assert_true(preference->beta == cases[i].beta);
        assert_true(preference->ftx == cases[i].ftx);
        assert_true(preference->label_smoothing == cases[i].smoothing);
        assert_true(preference->simpo_gamma == cases[i].gamma);
        assert_int_equal(preference->reference != NULL, cases[i].reference != NULL);
        assert_int_equal(preference->adapter != NULL, cases[i].adapter != NULL);
        if (cases[i].reference)
            assert_string_equal(preference->reference, cases[i].reference);
        if (cases[i].adapter)
            assert_string_equal(preference->adapter, cases[i].adapter);
        job_free(job);
    }
}

/* Settings that do not apply to pairs are off, except in external jobs. */
static void test_schema_turns_off_settings_unfit_for_pairs(void **state)
{
    static const char text[] = "stage: dpo\npacking: true\nneat_packing: true\n"
                               "mask_history: true\nlora_dropout: 0.1\n"
                               "label_smoothing_factor: 0.1\ncompute_accuracy: true\n"
                               "predict_with_generate: true\neval_strategy: steps\n";
    char external[sizeof(text) + 64];
    struct job *job = job_new(text);
    const struct plan *plan = &job->plan;

    (void)state;
    assert_int_equal(plan->packing, CHOICE_NO);
    assert_false(plan->neat_packing || plan->mask_history || plan->compute_accuracy ||
                 plan->generation.on);
    assert_true(plan->disable_dropout && plan->lora_dropout == 0);
    assert_true(plan->label_smoothing == 0);
    job_free(job);
    snprintf(external, sizeof(external), "%strainspool: {target: external}\n", text);
    job = job_new(external);
    assert_int_equal(job->plan.packing, CHOICE_YES);
    assert_true(job->plan.mask_history && job->plan.lora_dropout == 0.1);
    assert_false(job->plan.disable_dropout);
    job_free(job);
}

static void test_schema_set_sets_one_key(void **state)
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
                        "max_stpes is not a key of a job; did you mean max_steps?");
    error_clear(&err);
    assert_false(schema_set("max_steps", "many", job->arena, &job->plan, &err));
    assert_int_equal(err.code, ERROR_USAGE);
    job_free(job);
}

static void test_schema_binds_the_loss_of_a_token(void **state)
{
    static const struct {
        const char *text;
        enum token_loss loss;
        double alpha, smoothing;
    } cases[] = {
        { "stage: kto\nuse_dft_loss: true\n", TOKEN_LOSS_PLAIN, 1, 0 },
        { "use_asft_loss: true\nlabel_smoothing_factor: 0.1\n", TOKEN_LOSS_DFT, 1, 0 },
        { "label_smoothing_factor: 0.1\n", TOKEN_LOSS_PLAIN, 1, 0.1 },
        { "use_dft_loss: true\nlabel_smoothing_factor: 0.1\n", TOKEN_LOSS_DFT, 1, 0 },
        { "use_eaft_loss: true\neaft_alpha: 0.5\n", TOKEN_LOSS_EAFT, 0.5, 0 },
        { "use_eaft_loss: true\nuse_dft_loss: true\n", TOKEN_LOSS_DFT, 1, 0 },
        { "stage: pt\nuse_dft_loss: true\n", TOKEN_LOSS_PLAIN, 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct job *job = job_new(cases[i].text);

        assert_int_equal(job->plan.token_loss, cases[i].loss);
        assert_true(job->plan.eaft_alpha == cases[i].alpha);
        assert_true(job->plan.label_smoothing == cases[i].smoothing);
        job_free(job);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schema_names_are_unique_and_have_help),
        cmocka_unit_test(test_schema_table_decides_what_is_secret),
        cmocka_unit_test(test_schema_defaults_are_values),
        cmocka_unit_test(test_schema_every_row_binds_its_field),
        cmocka_unit_test(test_schema_defaults_match_llama_factory),
        cmocka_unit_test(test_schema_binds_media),
        cmocka_unit_test(test_schema_type_of_the_key_decides),
        cmocka_unit_test(test_schema_null_means_default),
        cmocka_unit_test(test_schema_joins_lists_and_resolves_paths),
        cmocka_unit_test(test_schema_resolves_checkpointing),
        cmocka_unit_test(test_schema_binds_aliases_and_shared_fields),
        cmocka_unit_test(test_schema_binds_preferences),
        cmocka_unit_test(test_schema_turns_off_settings_unfit_for_pairs),
        cmocka_unit_test(test_schema_binds_the_loss_of_a_token),
        cmocka_unit_test(test_schema_set_sets_one_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
