/* tests/unit/test_json_edit.c - a member is replaced or added, and every other byte
 * stays. */
#include "config.h"

#include "base/json_edit.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void check(const char *before, const char *key, const char *value,
                  const char *expected)
{
    struct error err = { 0 };
    json_t *parsed = json_loads(value, JSON_DECODE_ANY, NULL);
    struct text text;

    text_init(&text, 0);
    text_adds(&text, before);
    if (!json_edit_set(&text, key, parsed, "x.json", &err))
        fail_msg("%s", err.text);
    assert_string_equal(text.data, expected);
    text_clear(&text);
    json_decref(parsed);
}

static void test_json_edit_replaces_a_value(void **state)
{
    static const struct {
        const char *before, *after;
    } rows[] = {
        { "{\"k\": null}", "{\"k\": \"<end>\"}" },
        { "{\"k\" :\t1e30 , \"b\":2}", "{\"k\" :\t\"<end>\" , \"b\":2}" },
        { "{\"a\": \"\\\"k\\\": {\", \"k\": [1, {\"k\": \"]\"}],\n \"b\": 2}\n",
          "{\"a\": \"\\\"k\\\": {\", \"k\": \"<end>\",\n \"b\": 2}\n" },
        { "{\"n\": {\"k\": 1}, \"k\": {\"content\": \"}\"}}",
          "{\"n\": {\"k\": 1}, \"k\": \"<end>\"}" },
        { "{\"k\": true\n}", "{\"k\": \"<end>\"\n}" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        check(rows[i].before, "k", "\"<end>\"", rows[i].after);
}

static void test_json_edit_adds_a_member(void **state)
{
    (void)state;
    check("{}", "k", "[1,2]", "{\"k\": [1,2]}");
    check("{\n}\n", "k", "1", "{\n  \"k\": 1\n}\n");
    check("{\"a\": 1}", "k", "1", "{\"a\": 1,\"k\": 1}");
    check("{\n  \"a\": {\"k\": 3},\n  \"max\": 1000000000000000019884624838656\n}\n", "k",
          "1",
          "{\n  \"a\": {\"k\": 3},\n  \"max\": 1000000000000000019884624838656,\n"
          "  \"k\": 1\n}\n");
    check("\xef\xbb\xbf{\"kk\": 1}", "k", "1", "\xef\xbb\xbf{\"kk\": 1,\"k\": 1}");
}

static void test_json_edit_refuses_what_is_no_object(void **state)
{
    static const char *const cases[] = { "[1]", "", "{\"a\": }", "7" };
    json_t *value = json_integer(1);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct text text;

        text_init(&text, 0);
        text_adds(&text, cases[i]);
        assert_false(json_edit_set(&text, "k", value, "x.json", &err));
        assert_int_equal(err.code, ERROR_DATA);
        assert_string_equal(text.data, cases[i]);
        text_clear(&text);
    }
    json_decref(value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_edit_replaces_a_value),
        cmocka_unit_test(test_json_edit_adds_a_member),
        cmocka_unit_test(test_json_edit_refuses_what_is_no_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
