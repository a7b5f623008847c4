/* tests/unit/test_normalizer.c - single steps, sequences of steps, and unsupported
 * ones. */
#include "config.h"

#include "train/tokenizer/normalizer.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct normalizer *read_json(const char *json, struct error *err)
{
    json_t *value = json_read_text(json, strlen(json), "x", 1, err);
    struct normalizer *normalizer = normalizer_new(value, "x", err);

    json_decref(value);
    return normalizer;
}

static void test_normalizer_applies_its_steps(void **state)
{
    static const struct {
        const char *json, *text, *wanted;
    } cases[] = {
        { "null", " A\xcc\x8a ", " A\xcc\x8a " },
        { "{\"type\": \"NFC\"}",
          "A\xcc\x8a"
          "bc",
          "\xc3\x85"
          "bc" },
        { "{\"type\": \"NFC\"}", "plain \xc3\xa9", "plain \xc3\xa9" },
        { "{\"type\": \"NFC\"}", "\xef\xac\x81",
          "\xef\xac\x81" }, /* the ligature stays */
        { "{\"type\": \"NFKC\"}", "\xef\xac\x81", "fi" },
        { "{\"type\": \"NFD\"}", "\xc3\x85", "A\xcc\x8a" },
        { "{\"type\": \"NFKD\"}", "\xc2\xb2\xc3\x85", "2A\xcc\x8a" },
        { "{\"type\": \"Prepend\", \"prepend\": \"_\"}", "a", "_a" },
        { "{\"type\": \"Prepend\", \"prepend\": \"_\"}", "", "" },
        { "{\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
          "\"__\"}",
          " a b", "__a__b" },
        { "{\"type\": \"Replace\", \"pattern\": {\"Regex\": \" {2,}\"}, \"content\": \" "
          "\"}",
          "a   b c", "a b c" },
        { "{\"type\": \"Lowercase\"}",
          "\xc3\x84"
          "B\xc4\xb0",
          "\xc3\xa4"
          "bi\xcc\x87" },
        { "{\"type\": \"Strip\"}", "\xe3\x80\x80 a b\n", "a b" },
        { "{\"type\": \"Strip\", \"strip_left\": false}", " a ", " a" },
        { "{\"type\": \"Strip\"}", "  ", "" },
        { "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", "
          "\"prepend\": \" \"}, {\"type\": \"Sequence\", \"normalizers\": [{\"type\": "
          "\"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": \"_\"}]}]}",
          "a b", "_a_b" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct normalizer *normalizer = read_json(cases[i].json, &err);
        struct pattern_scratch *scratch = pattern_scratch_new();
        struct normal_form form;

        if (!normalizer)
            fail_msg("%s", err.text);
        normal_form_init(&form, 0);
        text_adds(&form.text, cases[i].text);
        assert_true(normalizer_apply(normalizer, &form, scratch, &err));
        assert_string_equal(form.text.data, cases[i].wanted);
        assert_int_equal(normalizer_is_empty(normalizer), i == 0);
        normal_form_clear(&form);
        pattern_scratch_free(scratch);
        normalizer_free(normalizer);
    }
}

static void test_normalizer_refuses_unsupported_steps(void **state)
{
    static const char *const cases[][2] = {
        { "{}", "type \"\"" },
        { "{\"type\": \"Nmt\"}", "\"Nmt\" is not supported" },
        { "{\"type\": \"Precompiled\"}", "precompiled_charsmap is damaged" },
        { "{\"type\": \"Precompiled\", \"precompiled_charsmap\": \"a\"}",
          "precompiled_charsmap is not base64" },
        { "{\"type\": \"Sequence\"}", "list of steps" },
        { "{\"type\": \"Replace\", \"content\": \"\"}", "pattern" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_json(cases[i][0], &err));
        assert_int_equal(err.code, ERROR_DATA);
        assert_non_null(strstr(err.text, cases[i][1]));
    }
}

/* A step may enlarge a text, repeatedly: there is a ceiling. */
/* Whether characters at the start are removed, not what they were or became before. */
static void test_normalizer_reports_a_cut_start(void **state)
{
    static const char strip[] = "{\"type\": \"Strip\"}";
    static const char blanks[] =
        "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFKC\"}, {\"type\": "
        "\"Replace\", \"pattern\": {\"Regex\": \"\\\\A +| +\\\\z\"}, \"content\": \"\"}]}";
    static const struct {
        const char *json, *text;
        bool cut;
    } rows[] = {
        { strip, " a", true },
        { strip, "a ", false },
        { strip, "a", false },
        { blanks, " a", true },
        { blanks,
          "\xc2\xa0"
          "a",
          true },
        { blanks, "a ", false },
        { blanks, "\na ", false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        struct error err = { 0 };
        struct normalizer *normalizer = read_json(rows[i].json, &err);
        struct pattern_scratch *scratch = pattern_scratch_new();
        struct normal_form form;

        if (!normalizer)
            fail_msg("%s", err.text);
        normal_form_init(&form, 0);
        text_adds(&form.text, rows[i].text);
        assert_true(normalizer_apply(normalizer, &form, scratch, &err));
        assert_int_equal(form.cut, rows[i].cut);
        normal_form_clear(&form);
        pattern_scratch_free(scratch);
        normalizer_free(normalizer);
    }
}

static void test_normalizer_has_a_ceiling(void **state)
{
    struct error err = { 0 };
    struct normalizer *normalizer =
        read_json("{\"type\": \"Prepend\", \"prepend\": \"0123456789\"}", &err);
    struct pattern_scratch *scratch = pattern_scratch_new();
    struct normal_form form;

    (void)state;
    normal_form_init(&form, 16);
    text_adds(&form.text, "abcdefgh");
    assert_false(normalizer_apply(normalizer, &form, scratch, &err));
    assert_int_equal(err.code, ERROR_DATA);
    normal_form_clear(&form);
    pattern_scratch_free(scratch);
    normalizer_free(normalizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normalizer_applies_its_steps),
        cmocka_unit_test(test_normalizer_refuses_unsupported_steps),
        cmocka_unit_test(test_normalizer_reports_a_cut_start),
        cmocka_unit_test(test_normalizer_has_a_ceiling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
