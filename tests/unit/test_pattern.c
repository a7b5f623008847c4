/* tests/unit/test_pattern.c - matches equal Oniguruma's, also where PCRE2 differs. */
#include "config.h"

#include "train/text/pattern.h"

#include "base/size.h"
#include "tests/unit/unit.h"

/* Write all matches as "[a][b]". */
static void find_all(const struct pattern *pattern, const char *text, struct text *out)
{
    struct pattern_scratch *scratch = pattern_scratch_new();
    struct pattern_search search = {
        .pattern = pattern,
        .scratch = scratch,
        .text = text,
        .len = strlen(text),
    };

    text_reset(out);
    while (pattern_next(&search))
        text_addf(out, "[%.*s]", (int)(search.end - search.start), text + search.start);
    assert_false(search.failed);
    pattern_scratch_free(scratch);
}

static void test_pattern_finds_the_matches_of_oniguruma(void **state)
{
    static const struct {
        const char *regex, *text, *expected;
    } cases[] = {
        { "a+", "caab a", "[aa][a]" },
        { "(?i:'s|'t)", "'S't'x", "['S]['t]" },
        { "\\p{N}{1,3}", "1234567", "[123][456][7]" },
        { "\\s+(?!\\S)|\\s+", "a   b", "[  ][ ]" },
        { "(?=[A-Z])", "aBcD", "[][]" }, /* empty matches, each once */
        /* none at the position where a match has just ended */
        { "x*", "axb", "[][x][]" },
        { "^b", "a\nb", "[b]" }, /* lines as in Ruby */
        { "a.b", "a\nb", "" },
        { "\\w+", "na\xc3\xafve e\xcc\x81 x", "[na\xc3\xafve][e\xcc\x81][x]" },
        { "\\W", "a\xcc\x81-", "[-]" },
        { "\\s", "\xc2\x85\xe3\x80\x80", "[\xc2\x85][\xe3\x80\x80]" },
        { "\\s", "\xe1\xa0\x8e", "" }, /* U+180E is no longer a blank */
        { "[^\\s]", "\xe1\xa0\x8e ", "[\xe1\xa0\x8e]" },
        { "[\\s\\]]", "a] ", "[]][ ]" },
        { "[]a]", "]b", "[]]" },
        { "[^]a]", "]b", "[b]" },
        { "\\S+", "a b", "[a][b]" },
    };
    struct text got;

    (void)state;
    text_init(&got, 0);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct pattern *pattern = pattern_compile(cases[i].regex);

        find_all(pattern, cases[i].text, &got);
        if (strcmp(got.data, cases[i].expected) != 0)
            fail_msg("%s in \"%s\" gives %s, not %s", cases[i].regex, cases[i].text,
                     got.data, cases[i].expected);
        pattern_free(pattern);
    }
    text_clear(&got);
}

static struct pattern *read_json(const char *json, struct error *err)
{
    json_t *value = json_read_text(json, strlen(json), "x", 1, err);
    struct pattern *pattern = pattern_new(value, "x", err);

    json_decref(value);
    return pattern;
}

static void test_pattern_is_a_string_or_a_regex(void **state)
{
    struct error err = { 0 };
    struct pattern *pattern = read_json("{\"String\": \".*\"}", &err);
    struct text got;

    (void)state;
    text_init(&got, 0);
    find_all(pattern, "a.*b.", &got);
    assert_string_equal(got.data, "[.*]");
    pattern_free(pattern);
    pattern = read_json("{\"Regex\": \".*b\"}", &err);
    find_all(pattern, "a.*b.", &got);
    assert_string_equal(got.data, "[a.*b]");
    pattern_free(pattern);
    text_clear(&got);
}

static void test_pattern_refuses_invalid_expressions(void **state)
{
    static const char *const cases[] = { "{}",
                                         "{\"String\": \"\"}",
                                         "{\"Regex\": \"(\"}",
                                         "{\"Regex\": 5}",
                                         "{\"Regex\": \"\\\\C\"}",
                                         "{\"Regex\": \"[a\"}" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };

        assert_null(read_json(cases[i], &err));
        assert_int_equal(err.code, ERROR_DATA);
    }
    pattern_free(NULL);
    pattern_scratch_free(NULL);
}

static void test_pattern_whole_matches_all_of_a_text(void **state)
{
    static const struct {
        const char *regex, *text;
        bool matches;
    } cases[] = {
        { "q_proj", "q_proj", true },
        { "q_proj", "attn.q_proj", false },
        { "q_proj", "q_proj_a", false },
        { "q_proj", "q_proj\n", false }, /* $ would match before the line's end */
        { "q_proj", "x\nq_proj", false },
        { "q|k", "q", true }, /* the alternatives are grouped */
        { "q|k", "kq", false },
        { "q|k", "qk", false },
        { ".*\\.(q|v)_proj", "model.layers.3.self_attn.v_proj", true },
        { ".*\\.(q|v)_proj", "model.layers.3.self_attn.o_proj", false },
        { "", "", true },
        { "", "q", false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct pattern *pattern = pattern_compile_whole(cases[i].regex, "x", &err);
        bool failed = true;

        assert_non_null(pattern);
        if (pattern_matches(pattern, cases[i].text, &failed) != cases[i].matches)
            fail_msg("%s %s \"%s\"", cases[i].regex,
                     cases[i].matches ? "does not match" : "matches", cases[i].text);
        assert_false(failed);
        pattern_free(pattern);
    }
}

static void test_pattern_whole_refuses_invalid_expressions(void **state)
{
    struct error err = { 0 };

    (void)state;
    assert_null(pattern_compile_whole("q_proj(", "file: key", &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "file: key: "));
}

/* An expression that would run forever on a text is abandoned. */
static void test_pattern_abandons_endless_matching(void **state)
{
    struct pattern *pattern = pattern_compile("(a+)+$");
    struct pattern_scratch *scratch = pattern_scratch_new();
    struct pattern_search search = {
        .pattern = pattern,
        .scratch = scratch,
        .text = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab",
        .len = 40,
    };
    bool failed = false;

    (void)state;
    assert_false(pattern_next(&search));
    assert_true(search.failed);
    assert_false(pattern_matches(pattern, search.text, &failed));
    assert_true(failed);
    assert_false(pattern_matches(pattern, search.text, NULL));
    pattern_scratch_free(scratch);
    pattern_free(pattern);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern_finds_the_matches_of_oniguruma),
        cmocka_unit_test(test_pattern_is_a_string_or_a_regex),
        cmocka_unit_test(test_pattern_refuses_invalid_expressions),
        cmocka_unit_test(test_pattern_whole_matches_all_of_a_text),
        cmocka_unit_test(test_pattern_whole_refuses_invalid_expressions),
        cmocka_unit_test(test_pattern_abandons_endless_matching),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
