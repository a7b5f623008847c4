/* tests/unit/test_json.c - strict parsing, exact writing, and the position of errors. */
#include "config.h"

#include "base/json.h"

#include <float.h>
#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static json_t *read_string(const char *data, struct error *err)
{
    return json_read_text(data, strlen(data), "x.json", 1, err);
}

static void test_json_reports_the_position_of_an_error(void **state)
{
    const char *data = "{\"a\": 1,\n \"b\": }\n";
    struct error err = { 0 };

    (void)state;
    assert_null(json_read_text(data, strlen(data), "data.jsonl", 41, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_string_equal(err.file, "data.jsonl");
    assert_int_equal(err.at.line, 42);
    assert_in_range(err.at.column, 6, 7);
    assert_in_range(err.at.byte, 14, 16);
}

static void test_json_loose_accepts_large_numbers(void **state)
{
    const char *data = "{\"max\": 1000000000000000019884624838656, \"b\": 7}";
    const char *words = "[-Infinity, \"Infinity \\\" Infinity\", Infinity]";
    struct error err = { 0 };
    json_t *value = json_read_loose(data, strlen(data), "x.json", 1, &err);

    (void)state;
    assert_non_null(value);
    assert_true(json_number_value(json_object_get(value, "max")) == 1e30);
    assert_true(json_number_value(json_object_get(value, "b")) == 7);
    json_decref(value);
    value = json_read_loose("[7]", 3, "x.json", 1, &err);
    assert_true(json_is_integer(json_array_get(value, 0)));
    json_decref(value);
    value = json_read_loose(words, strlen(words), "x.json", 1, &err);
    assert_true(json_number_value(json_array_get(value, 0)) == -1.7e308);
    assert_string_equal(json_string_value(json_array_get(value, 1)),
                        "Infinity \" Infinity");
    assert_true(json_number_value(json_array_get(value, 2)) == 1.7e308);
    json_decref(value);
    assert_null(json_read_text("[Infinity]", 10, "x.json", 1, NULL));
    assert_null(json_read_loose("[Infinityy]", 11, "x.json", 1, NULL));
    assert_null(json_read_loose("[7", 2, "x.json", 1, &err));
    assert_int_equal(err.code, ERROR_DATA);
}

static void test_json_refuses_invalid_texts(void **state)
{
    static const char *const cases[] = {
        "",
        "{",
        "[1,]",
        "{\"a\":1,\"a\":2}",
        "[1] 2",
        "NaN",
        "nul",
        "01",
        "\"\xff\"",
        "\"\xed\xa0\x80\"",
        "\"\\ud800\"",
        "1e999",
        "99999999999999999999",
        "\"\n\"",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        if (read_string(cases[i], &err))
            fail_msg("accepted %s", cases[i]);
        assert_int_equal(err.code, ERROR_DATA);
        assert_true(err.at.line >= 1 && err.at.column >= 1);
    }
}

static void test_json_depth_is_limited(void **state)
{
    enum { DEPTH = 100000 };
    char *deep = memory_alloc(DEPTH + 1);
    struct error err = { 0 };

    (void)state;
    memset(deep, '[', DEPTH);
    assert_null(read_string(deep, &err));
    assert_int_equal(err.code, ERROR_DATA);
    free(deep);
}

static void test_json_skips_a_byte_order_mark(void **state)
{
    struct error err = { 0 };
    json_t *value = read_string("\xef\xbb\xbf[1]", &err);

    (void)state;
    assert_non_null(value);
    json_decref(value);
}

/* A value is written as it was read, in the same order. */
static void test_json_survives_a_round_trip(void **state)
{
    static const char *const cases[] = {
        "{\"z\":1,\"a\":[true,false,null],\"m\":{\"x\":-7}}",
        "[]",
        "{}",
        "\"\\\"\\\\\\n\\t\\u0000\\u001f\xc3\xa4\xf0\x9f\x98\x80\"",
        "[0.1,0.0002,1.0,2e-05,1e+300,-0.0,0.30000000000000004,9007199254740993]",
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        json_t *value = read_string(cases[i], &err);
        struct text out;

        text_init(&out, 0);
        assert_non_null(value);
        assert_true(json_write(value, &out));
        assert_string_equal(out.data, cases[i]);
        text_clear(&out);
        json_decref(value);
    }
}

static void test_json_reals_survive_a_round_trip(void **state)
{
    static const double values[] = { DBL_MAX, DBL_MIN, DBL_TRUE_MIN,
                                     1 / 3.0, 1e22,    1e23,
                                     65536.0, -1.5e-7, 123456789012345680.0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(values); i++) {
        json_t *value = json_number(values[i]), *again;
        struct error err = { 0 };
        struct text out;

        text_init(&out, 0);
        assert_true(json_write(value, &out));
        again = read_string(out.data, &err);
        assert_true(json_is_real(again));
        assert_true(json_real_value(again) == values[i]);
        text_clear(&out);
        json_decref(again);
        json_decref(value);
    }
}

static void test_json_writes_nonfinite_numbers_as_strings(void **state)
{
    struct text out;
    json_t *array = json_array();

    (void)state;
    text_init(&out, 0);
    json_array_append_new(array, json_number(NAN));
    json_array_append_new(array, json_number(INFINITY));
    json_array_append_new(array, json_number(-INFINITY));
    assert_true(json_write(array, &out));
    assert_string_equal(out.data, "[\"NaN\",\"Infinity\",\"-Infinity\"]");
    text_clear(&out);
    json_decref(array);
}

static void test_json_visible_accepts_any_bytes(void **state)
{
    static const struct {
        const char *text;
        size_t len;
        const char *expected;
    } cases[] = {
        { "a\"\xc3\xa9\n", 5, "\"a\\\"\xc3\xa9\\n\"" },
        { "a\0b", 3, "\"a\\u0000b\"" },
        { "\xc3", 1, "\"\\\\xc3\"" },
        { "", 0, "\"\"" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        json_t *value = json_visible(cases[i].text, cases[i].len);
        struct text out;

        text_init(&out, 0);
        assert_true(json_write(value, &out));
        assert_string_equal(out.data, cases[i].expected);
        text_clear(&out);
        json_decref(value);
    }
}

static void test_json_pretty_indents_by_two(void **state)
{
    struct error err = { 0 };
    json_t *value = read_string("{\"a\":[1,{\"b\":2}],\"c\":[],\"d\":{}}", &err);
    struct text out;

    (void)state;
    text_init(&out, 0);
    assert_true(json_write_pretty(value, &out));
    assert_string_equal(out.data,
                        "{\n  \"a\": [\n    1,\n    {\n      \"b\": 2\n    }\n  ],\n"
                        "  \"c\": [],\n  \"d\": {}\n}\n");
    text_clear(&out);
    json_decref(value);
}

static void test_json_write_reports_overflow(void **state)
{
    struct error err = { 0 };
    json_t *value = read_string("[1,2,3,\"four\"]", &err);
    struct text out;

    (void)state;
    text_init(&out, 10);
    assert_false(json_write(value, &out));
    text_clear(&out);
    json_decref(value);
}

static void test_json_get_applies_defaults_and_refuses_other_types(void **state)
{
    struct error err = { 0 };
    json_t *object = read_string(
        "{\"i\":7,\"r\":0.5,\"b\":true,\"s\":\"text\",\"n\":null,\"nul\":\"a\\u0000b\"}",
        &err);

    (void)state;
    assert_int_equal(json_get_int(object, "i", 1, "c.json", &err), 7);
    assert_true(json_get_real(object, "r", 1, "c.json", &err) == 0.5);
    assert_true(json_get_real(object, "i", 1, "c.json", &err) == 7.0);
    assert_true(json_get_bool(object, "b", false, "c.json", &err));
    assert_string_equal(json_get_string(object, "s", NULL, "c.json", &err), "text");
    assert_int_equal(json_get_int(object, "n", 3, "c.json", &err), 3);
    assert_true(json_get_bool(object, "n", true, "c.json", &err));
    assert_false(json_get_flag(object, "n", true, "c.json", &err));
    assert_true(json_get_flag(object, "b", false, "c.json", &err));
    assert_true(json_get_flag(object, "missing", true, "c.json", &err));
    assert_int_equal(json_get_int(object, "missing", 4, "c.json", &err), 4);
    assert_null(json_get_string(object, "missing", NULL, "c.json", &err));
    assert_int_equal(err.code, ERROR_NONE);

    assert_int_equal(json_get_int(object, "r", 5, "c.json", &err), 5);
    assert_int_equal(err.code, ERROR_DATA);
    assert_string_equal(err.text, "c.json: r must be an integer");
    assert_true(json_get_bool(object, "s", true, "c.json", &err));
    assert_string_equal(err.text, "c.json: r must be an integer");
    error_clear(&err);
    assert_null(json_get_string(object, "nul", NULL, "c.json", &err));
    assert_int_equal(err.code, ERROR_DATA);
    error_clear(&err);
    assert_true(json_get_real(object, "s", 2, "c.json", &err) == 2);
    assert_int_equal(err.code, ERROR_DATA);
    json_decref(object);
}

static void test_json_reads_a_file(void **state)
{
    char *dir = unit_dir_new(), *name = path_join(dir, "config.json");
    struct error err = { 0 };
    json_t *value;

    (void)state;
    assert_true(file_create(name, "{\"a\": 1}\n", 9, 0600, &err));
    value = json_read_file(name, 100, &err);
    assert_int_equal(json_get_int(value, "a", 0, name, &err), 1);
    json_decref(value);
    assert_null(json_read_file(name, 8, &err));
    assert_int_equal(err.code, ERROR_DATA);
    free(name);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_json_reports_the_position_of_an_error),
        cmocka_unit_test(test_json_loose_accepts_large_numbers),
        cmocka_unit_test(test_json_refuses_invalid_texts),
        cmocka_unit_test(test_json_depth_is_limited),
        cmocka_unit_test(test_json_skips_a_byte_order_mark),
        cmocka_unit_test(test_json_survives_a_round_trip),
        cmocka_unit_test(test_json_reals_survive_a_round_trip),
        cmocka_unit_test(test_json_writes_nonfinite_numbers_as_strings),
        cmocka_unit_test(test_json_visible_accepts_any_bytes),
        cmocka_unit_test(test_json_pretty_indents_by_two),
        cmocka_unit_test(test_json_write_reports_overflow),
        cmocka_unit_test(test_json_get_applies_defaults_and_refuses_other_types),
        cmocka_unit_test(test_json_reads_a_file),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
