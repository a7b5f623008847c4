/* tests/unit/test_job_manual.c - docs/trainspool-job.5 agrees with the tables. */
#include "config.h"

#include "patcher/schema/schema_manual.h"

#include "patcher/schema/schema.h"
#include "tests/unit/unit.h"
#include "train/model/architecture.h"

static void read_page(struct text *page)
{
    char *path = unit_source("docs/trainspool-job.5");
    struct error err = { 0 };

    text_init(page, 0);
    if (!file_read(path, (size_t)1 << 20, page, NULL, &err))
        fail_msg("%s", err.text);
    free(path);
}

static void test_job_manual_is_generated_from_the_table(void **state)
{
    struct text page, made;
    struct error err = { 0 };

    (void)state;
    read_page(&page);
    text_init(&made, 0);
    if (!schema_manual_update(&page, &made, &err))
        fail_msg("docs/trainspool-job.5: %s", err.text);
    if (page.len != made.len || memcmp(page.data, made.data, made.len) != 0)
        fail_msg("docs/trainspool-job.5 differs from the table of keys; to regenerate "
                 "it, run: make manual");
    text_clear(&made);
    text_clear(&page);
}

static void assert_has(const struct text *page, const char *before, const char *name,
                       const char *after)
{
    struct text line;

    text_init(&line, 0);
    text_addf(&line, "\n%s%s%s", before, name, after);
    if (!strstr(page->data, line.data))
        fail_msg("docs/trainspool-job.5 does not name %s", name);
    text_clear(&line);
}

static void assert_has_keys(const struct text *page, const struct vocabulary *of)
{
    const struct key *key;

    for (size_t i = 0; (key = schema_at(of, i)); i++) {
        if (key->use == KEY_USED)
            assert_has(page, ".BR ", key->name, " \"");
        else
            assert_has(page, ".B ", key->name, "");
        if (key->members && key->use == KEY_USED)
            assert_has_keys(page, key->members);
    }
}

/* Members of an ignored map, as fsdp_config, are left out. */
static void test_job_manual_names_every_key(void **state)
{
    struct text page;

    (void)state;
    read_page(&page);
    assert_has_keys(&page, &schema_job);
    assert_has_keys(&page, &schema_block);
    text_clear(&page);
}

static void test_job_manual_names_every_architecture(void **state)
{
    struct text page;

    (void)state;
    read_page(&page);
    for (size_t i = 0; architecture_at(i); i++)
        assert_has(&page, ".BR ", architecture_at(i)->model_type, " ");
    text_clear(&page);
}

static void test_job_manual_requires_its_marks(void **state)
{
    struct text page, made;
    struct error err = { 0 };

    (void)state;
    text_init(&page, 0);
    text_init(&made, 0);
    text_adds(&page, ".SH KEYS\n");
    assert_false(schema_manual_update(&page, &made, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_int_equal(made.len, 0);
    text_clear(&made);
    text_clear(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_job_manual_is_generated_from_the_table),
        cmocka_unit_test(test_job_manual_names_every_key),
        cmocka_unit_test(test_job_manual_names_every_architecture),
        cmocka_unit_test(test_job_manual_requires_its_marks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
