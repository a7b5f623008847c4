/* tests/unit/test_profile.c - the key tables of trainers: their order, their ranges, and
 * facts that differ between versions and programs. */
#include "config.h"

#include "patcher/profiles/profile.h"

#include "base/size.h"
#include "patcher/schema/schema.h"
#include "tests/unit/unit.h"

static const struct profile_table *const tables[] = {
    &profile_llamafactory_table, &profile_transformers_table, &profile_trl_table,
    &profile_axolotl_table,      &profile_torchtune_table,    &profile_lightning_table,
    &profile_unsloth_table
};

static void give(struct versions *versions, enum package package, const char *text)
{
    if (!version_read(text, &versions->packages[package].version))
        fail_msg("%s is a version", text);
    versions->packages[package].given = text;
}

/* A view of TRL or LLaMA-Factory at a version, with a transformers; NULL: unknown. */
static struct profile_view view_of(enum trainer trainer, const char *own,
                                   const char *transformers, const char *program)
{
    struct versions versions = { 0 };
    struct profile_view view;

    if (own)
        give(&versions, profile_at(trainer)->package, own);
    if (transformers)
        give(&versions, PACKAGE_TRANSFORMERS, transformers);
    profile_view(trainer, &versions, program, &view);
    return view;
}

static void test_profile_tables_are_sorted(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(tables); i++)
        for (size_t j = 0; j + 1 < tables[i]->key_count; j++) {
            const struct profile_key *key = &tables[i]->keys[j];
            int order = strcmp(key[0].name, key[1].name);

            if (order > 0 || (order == 0 && key[0].since > key[1].since))
                fail_msg("%s %d comes before %s %d", key[0].name, key[0].since,
                         key[1].name, key[1].since);
        }
}

static void test_profile_ranges_are_versions_of_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(tables); i++)
        for (size_t j = 0; j < tables[i]->key_count; j++) {
            const struct profile_key *key = &tables[i]->keys[j];

            if (key->since > key->until || key->until >= tables[i]->version_count ||
                key->programs == 0 || key->programs >> tables[i]->program_count != 0)
                fail_msg("the range or the programs of %s", key->name);
            if (!key->default_value != !!(key->types & PROFILE_REQUIRED))
                fail_msg("%s has a default or is required", key->name);
        }
}

/* One program of one version has one field of a name. */
static void test_profile_rows_of_a_key_do_not_overlap(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(tables); i++)
        for (size_t j = 0; j < tables[i]->key_count; j++)
            for (size_t k = j + 1;
                 k < tables[i]->key_count &&
                 strcmp(tables[i]->keys[j].name, tables[i]->keys[k].name) == 0;
                 k++) {
                const struct profile_key *a = &tables[i]->keys[j],
                                         *b = &tables[i]->keys[k];

                if ((a->programs & b->programs) && a->since <= b->until &&
                    b->since <= a->until)
                    fail_msg("two rows of %s overlap", a->name);
            }
}

static void test_profile_versions_are_in_order(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(tables); i++)
        for (size_t j = 0; j + 1 < tables[i]->version_count; j++) {
            struct version a, b;

            assert_true(version_read(tables[i]->versions[j], &a));
            assert_true(version_read(tables[i]->versions[j + 1], &b));
            if (version_compare(&a, &b) >= 0)
                fail_msg("%s is not above %s", tables[i]->versions[j + 1],
                         tables[i]->versions[j]);
        }
}

/* Read in the releases by hand. */
static const struct fact {
    enum trainer trainer;
    const char *own, *transformers, *program, *key;
    const char *default_value; /* NULL: the version lacks the key */
} facts[] = {
    { TRAINER_LLAMAFACTORY, "0.9.0", "4.45.0", NULL, "cutoff_len", "1024" },
    { TRAINER_LLAMAFACTORY, "0.9.3", "4.52.4", NULL, "cutoff_len", "2048" },
    { TRAINER_LLAMAFACTORY, "0.9.3", "4.52.4", NULL, "max_source_length", NULL },
    { TRAINER_LLAMAFACTORY, "0.9.3", "4.52.4", NULL, "predict_with_generate", "false" },
    { TRAINER_LLAMAFACTORY, "0.9.1", "4.45.0", NULL, "use_apollo", NULL },
    { TRAINER_LLAMAFACTORY, "0.9.2", "4.49.0", NULL, "use_apollo", "false" },
    { TRAINER_TRANSFORMERS, "4.45.2", NULL, NULL, "evaluation_strategy", "null" },
    { TRAINER_TRANSFORMERS, "4.51.3", NULL, NULL, "evaluation_strategy", NULL },
    { TRAINER_TRANSFORMERS, "4.40.0", NULL, NULL, "eval_strategy", NULL },
    { TRAINER_TRANSFORMERS, "4.41.0", NULL, NULL, "eval_strategy", "no" },
    { TRAINER_TRANSFORMERS, "4.57.1", NULL, NULL, "group_by_length", "false" },
    { TRAINER_TRANSFORMERS, "5.2.0", NULL, NULL, "group_by_length", NULL },
    { TRAINER_TRANSFORMERS, "5.0.0rc1", NULL, NULL, "no_cuda", NULL },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "bf16", "null" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "gradient_checkpointing", "true" },
    { TRAINER_TRL, "0.19.1", "4.53.0", "sft", "gradient_checkpointing", "false" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "max_length", "1024" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "max_seq_length", NULL },
    { TRAINER_TRL, "0.19.1", "4.53.0", "sft", "max_seq_length", "null" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "learning_rate", "2e-05" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "dpo", "learning_rate", "1e-06" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "reward", "learning_rate", "0.0001" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "beta", NULL },
    { TRAINER_TRL, "0.24.0", "4.57.1", "dpo", "beta", "0.1" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "grpo", "beta", "0.0" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "lora_r", "16" },
    { TRAINER_TRL, "0.24.0", "4.57.1", "sft", "weight_decay", "0.0" },
    { TRAINER_TRL, "0.26.0", "4.57.1", "dpo", "dtype", "null" },
    { TRAINER_TRL, "0.27.0", "4.57.1", "dpo", "dtype", "float32" },
    { TRAINER_TRL, "0.24.0", "5.2.0", "sft", "group_by_length", NULL },
};

static void test_profile_knows_keys_and_defaults(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(facts); i++) {
        const struct fact *fact = &facts[i];
        struct profile_view view =
            view_of(fact->trainer, fact->own, fact->transformers, fact->program);
        const char *found = profile_default(&view, fact->key);

        if (!fact->default_value != !profile_find(&view, fact->key))
            fail_msg("%s %s: %s", profile_at(fact->trainer)->title, fact->own, fact->key);
        if (fact->default_value && (!found || strcmp(found, fact->default_value) != 0))
            fail_msg("%s %s: %s is %s, not %s", profile_at(fact->trainer)->title,
                     fact->own, fact->key, found, fact->default_value);
    }
}

static void test_profile_default_is_unknown_where_it_differs(void **state)
{
    struct profile_view any = view_of(TRAINER_TRL, NULL, NULL, "sft"),
                        programs = view_of(TRAINER_TRL, "0.24.0", "4.57.1", NULL);

    (void)state;
    assert_null(profile_default(&any, "gradient_checkpointing"));
    assert_non_null(profile_find(&any, "gradient_checkpointing"));
    assert_string_equal(profile_default(&any, "dataset_test_split"), "test");
    assert_null(profile_default(&programs, "learning_rate"));
    assert_null(profile_default(&programs, "beta"));
}

/* 4.46.0, 4.52.0 and 4.57.0 are no longer in the index. */
static void test_profile_version_that_was_withdrawn(void **state)
{
    static const char *const spelled[] = { "4.46", "4.46.0", "4.46.1" };
    int last = -1;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(spelled); i++) {
        struct profile_view view = view_of(TRAINER_TRANSFORMERS, spelled[i], NULL, NULL);

        assert_true(last == -1 || last == view.own);
        last = view.own;
    }
    assert_string_equal(profile_transformers_table.versions[last], "4.46.1");
}

static void test_profile_older_than_the_table_knows_nothing(void **state)
{
    struct profile_view old = view_of(TRAINER_TRL, "0.12.0", "4.46.1", "sft"),
                        base = view_of(TRAINER_TRL, "0.19.0", "4.30.0", "sft"),
                        good = view_of(TRAINER_TRL, "0.19.0", NULL, "sft");
    struct profile_view native = view_of(TRAINER_NATIVE, NULL, NULL, NULL);

    (void)state;
    assert_false(profile_is_complete(&old));
    assert_false(profile_is_complete(&base));
    assert_false(profile_is_complete(&native));
    assert_true(profile_is_complete(&good));
}

static void test_profile_newer_than_the_table_is_the_newest(void **state)
{
    struct profile_view view = view_of(TRAINER_TRL, "99.1", "99.0", "sft");
    struct version version;

    (void)state;
    assert_int_equal(view.own, profile_trl_table.version_count - 1);
    assert_true(version_read("99.1", &version));
    assert_true(profile_is_newer(TRAINER_TRL, &version));
    assert_true(version_read("0.24.0", &version));
    assert_false(profile_is_newer(TRAINER_TRL, &version));
}

static void test_profile_history_of_a_key(void **state)
{
    struct profile_view now = view_of(TRAINER_TRL, "0.24.0", "4.57.1", "sft"),
                        old = view_of(TRAINER_TRANSFORMERS, "4.40.0", NULL, NULL);
    struct profile_history history;

    (void)state;
    assert_true(profile_history(&now, "max_seq_length", &history));
    assert_string_equal(history.package, "trl");
    assert_string_equal(history.until, "0.19.1");
    assert_non_null(history.deprecated);
    assert_null(history.since);
    assert_true(profile_history(&now, "evaluation_strategy", &history));
    assert_string_equal(history.package, "transformers");
    assert_true(profile_history(&old, "eval_strategy", &history));
    assert_string_equal(history.since, "4.41.0");
    assert_null(history.until);
    assert_false(profile_history(&now, "sequence_len", &history));
}

static void test_profile_removed_names_the_first_version_without_the_key(void **state)
{
    (void)state;
    assert_string_equal(profile_removed(TRAINER_TRANSFORMERS, "use_ipex"), "4.57.1");
    assert_string_equal(profile_removed(TRAINER_TRANSFORMERS, "no_cuda"), "5.0.0");
    assert_string_equal(profile_removed(TRAINER_TRL, "max_seq_length"), "0.20.0");
    assert_null(profile_removed(TRAINER_TRANSFORMERS, "learning_rate"));
    assert_null(profile_removed(TRAINER_TRANSFORMERS, "sharded_ddp"));
}

/* Keys of files that are not jobs, by version: 0.16 of Axolotl has attn_implementation,
 * 0.10 only the older flags; LigerArgs belong to a plugin; Trainer arguments are in a
 * block. */
static void test_profile_of_other_files(void **state)
{
    static const struct {
        enum trainer trainer;
        const char *version, *key;
        bool known;
    } keys[] = {
        { TRAINER_AXOLOTL, "0.10.0", "flash_attention", true },
        { TRAINER_AXOLOTL, "0.10.0", "liger_rope", true },
        { TRAINER_AXOLOTL, "0.10.0", "dynamic_checkpoint", false },
        { TRAINER_AXOLOTL, "0.19.0", "dynamic_checkpoint", true },
        { TRAINER_AXOLOTL, "0.19.0", "model_type", true }, /* an alias */
        { TRAINER_AXOLOTL, "0.19.0", "num_train_epochs", false },
        { TRAINER_TORCHTUNE, "0.1.0", "enable_activation_offloading", false },
        { TRAINER_TORCHTUNE, "0.4.0", "enable_activation_offloading", true },
        { TRAINER_LIGHTNING, "2.0.0", "trainer.enable_autolog_hparams", false },
        { TRAINER_LIGHTNING, "2.6.0", "trainer.enable_autolog_hparams", true },
        { TRAINER_LIGHTNING, "2.0.0", "precision", false },
        { TRAINER_UNSLOTH, "2026.10.9", "training.load_in_4bit", true },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(keys); i++) {
        struct profile_view view = view_of(keys[i].trainer, keys[i].version, NULL, NULL);

        if ((profile_find(&view, keys[i].key) != NULL) != keys[i].known)
            fail_msg("%s %s: %s", profile_at(keys[i].trainer)->title, keys[i].version,
                     keys[i].key);
    }
}

static void test_profile_of_other_files_has_few_rules(void **state)
{
    struct profile_view view = view_of(TRAINER_LIGHTNING, NULL, NULL, NULL);

    (void)state;
    assert_true(profile_has_rule(TRAINER_AXOLOTL, "TS815"));
    assert_true(profile_has_rule(TRAINER_AXOLOTL, "TS007"));
    assert_false(profile_has_rule(TRAINER_AXOLOTL, "TS013")); /* pydantic converts */
    assert_false(profile_has_rule(TRAINER_AXOLOTL, "TS102"));
    assert_true(profile_has_rule(TRAINER_TRL, "TS102"));
    assert_true(profile_has_block(&view, "trainer"));
    assert_false(profile_has_block(&view, "trainer.precision"));
}

static void test_profile_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRAINERS; i++)
        assert_int_equal(profile_named(profile_at((enum trainer)i)->name), i);
    assert_int_equal(profile_named("nothing"), TRAINERS);
    for (size_t i = 0; i <= TRAINERS; i++) { /* of trainspool.target */
        const char *value = schema_find_in(&schema_block, "target")->values[i];

        assert_true(i == TRAINERS
                        ? !value
                        : strcmp(value, profile_at((enum trainer)i)->name) == 0);
    }
    assert_false(profile_has_rule(TRAINER_LLAMAFACTORY, "TS603"));
    assert_true(profile_has_rule(TRAINER_TRL, "TS603"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_tables_are_sorted),
        cmocka_unit_test(test_profile_ranges_are_versions_of_the_table),
        cmocka_unit_test(test_profile_rows_of_a_key_do_not_overlap),
        cmocka_unit_test(test_profile_versions_are_in_order),
        cmocka_unit_test(test_profile_knows_keys_and_defaults),
        cmocka_unit_test(test_profile_default_is_unknown_where_it_differs),
        cmocka_unit_test(test_profile_version_that_was_withdrawn),
        cmocka_unit_test(test_profile_older_than_the_table_knows_nothing),
        cmocka_unit_test(test_profile_newer_than_the_table_is_the_newest),
        cmocka_unit_test(test_profile_history_of_a_key),
        cmocka_unit_test(test_profile_removed_names_the_first_version_without_the_key),
        cmocka_unit_test(test_profile_names_are_unique),
        cmocka_unit_test(test_profile_of_other_files),
        cmocka_unit_test(test_profile_of_other_files_has_few_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
