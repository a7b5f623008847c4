/* tests/unit/test_python_value.c - values as the program of an external job reads
 * them. */
#include "config.h"

#include "patcher/rules/python_value.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct arena *arena;

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

/* Read the value of a job with one key. */
static struct python_value read_value(const char *key, const char *value,
                                      enum python_reader reader)
{
    struct document document;
    const char *text = arena_printf(arena, "%s: %s\n", key, value);

    document_read(text, strlen(text), arena, &document);
    assert_non_null(document.root);
    return python_value_read(key, document.root->entries[0].value, reader);
}

/* yaml.safe_load of PyYAML 6.0.3 and OmegaConf.load of OmegaConf 2.3.0, tested. */
static void test_python_value_kinds(void **state)
{
    static const struct {
        const char *text;
        enum python_kind pyyaml, omegaconf;
    } rows[] = {
        { "true", PYTHON_BOOL, PYTHON_BOOL },
        { "No", PYTHON_BOOL, PYTHON_BOOL },
        { "y", PYTHON_TEXT, PYTHON_TEXT },
        { "tRue", PYTHON_TEXT, PYTHON_TEXT },
        { "'true'", PYTHON_TEXT, PYTHON_TEXT },
        { "~", PYTHON_NONE, PYTHON_NONE },
        { "None", PYTHON_TEXT, PYTHON_TEXT },
        { "12", PYTHON_NUMBER, PYTHON_NUMBER },
        { "1e-4", PYTHON_TEXT, PYTHON_NUMBER },
        { "1.0e4", PYTHON_TEXT, PYTHON_NUMBER },
        { "1.0e-4", PYTHON_NUMBER, PYTHON_NUMBER },
        { "017", PYTHON_NUMBER, PYTHON_NUMBER },
        { "0o17", PYTHON_TEXT, PYTHON_TEXT },
        { "0:30", PYTHON_TEXT, PYTHON_TEXT },
        { "\"3\"", PYTHON_TEXT, PYTHON_TEXT },
        { "[a, b]", PYTHON_LIST, PYTHON_LIST },
        { "{a: b}", PYTHON_MAP, PYTHON_MAP },
        { "!!str 3", PYTHON_TEXT, PYTHON_TEXT },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        assert_int_equal(read_value("x", rows[i].text, PYTHON_PYYAML).kind,
                         rows[i].pyyaml);
        assert_int_equal(read_value("x", rows[i].text, PYTHON_OMEGACONF).kind,
                         rows[i].omegaconf);
    }
}

/* argparse calls the argument's type for a default that is a string. */
static void test_python_value_argparse_converts_strings(void **state)
{
    struct python_value value = read_value("bf16", "'False'", PYTHON_ARGPARSE);

    (void)state;
    assert_int_equal(value.kind, PYTHON_BOOL);
    assert_false(python_value_is_true(&value));
    value = read_value("learning_rate", "1e-4", PYTHON_ARGPARSE);
    assert_int_equal(value.kind, PYTHON_NUMBER);
    assert_true(value.number == 1e-4);
    value = read_value("sync_ref_model", "'false'", PYTHON_ARGPARSE);
    assert_int_equal(value.kind, PYTHON_BOOL); /* a key of TRL only */
    value = read_value("of_next_year", "'1'", PYTHON_ARGPARSE);
    assert_int_equal(value.kind, PYTHON_NUMBER);
    value = read_value("run_name", "'12'", PYTHON_ARGPARSE);
    assert_int_equal(value.kind, PYTHON_TEXT);
}

static void test_python_value_truth(void **state)
{
    static const struct {
        const char *text;
        bool is_true;
    } rows[] = {
        { "true", true }, { "'False'", true }, { "''", false },    { "0", false },
        { "0.5", true },  { "null", false },   { "[]", false },    { "[0]", true },
        { "{}", false },  { "off", false },    { "no way", true },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct python_value value = read_value("x", rows[i].text, PYTHON_PYYAML);

        assert_int_equal(python_value_is_true(&value), rows[i].is_true);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_python_value_kinds),
        cmocka_unit_test(test_python_value_argparse_converts_strings),
        cmocka_unit_test(test_python_value_truth),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
