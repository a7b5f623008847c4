/* tests/unit/test_lookalike.c - characters that look like YAML's marks, where they matter. */
#include "config.h"

#include "patcher/document/lookalike.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_lookalike_names_characters_in_values(void **state)
{
    static const struct {
        const char *text, *hint;
    } samples[] = {
        { "1e\u20135", "U+2013 is an en dash: write - instead" },
        { "\u22121", "U+2212 is a minus sign: write - instead" },
        { "q_proj\uff0cv_proj", "U+FF0C is a full-width comma: write , instead" },
        { "\u201cqwen\u201d", "U+201C is a typographic quote: write \" instead" },
        { "true\u200b", "U+200B is a zero-width space: write a space instead" },
        { "\uff11\uff12", "U+FF11 is a full-width digit: write a digit instead" },
        { "\u00a0x", "U+00A0 is a no-break space: write a space instead" },
        { "plain - \"text\": [a, b]", NULL },
        { "\u4f60\u597d caf\u00e9", NULL },
        { "", NULL },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(samples); i++) {
        struct arena *arena = arena_new();
        const char *hint =
            lookalike_in_text(samples[i].text, strlen(samples[i].text), arena);

        if (!text_equal(hint, samples[i].hint))
            fail_msg("%s: %s", samples[i].text, hint ? hint : "no hint");
        arena_free(arena);
    }
}

/* The document is not valid YAML, and the hint names the character in its position. */
static void test_lookalike_explains_syntax_errors(void **state)
{
    static const struct {
        const char *text, *hint;
        unsigned line, column;
    } samples[] = {
        { "a: 1\nbf16\uff1a true\n", "U+FF1A is a full-width colon", 2, 5 },
        { "bf16\uff1a true\n", "U+FF1A is a full-width colon", 1, 5 },
        { "a: 1\nbf16:\u00a0true\n", "U+00A0 is a no-break space", 2, 6 },
        { "a: {b: 1\uff0cc: 2}\n", "U+FF0C is a full-width comma", 1, 9 },
        { "a: {b: 1\uff5d\nc: 1\n", "U+FF5D is a full-width brace", 1, 9 },
        { "a: 1\n\u2013 b\n", "U+2013 is an en dash", 2, 1 },
        { "a: 1\n{% if x %}\nb: 2\n{% endif %}\n", "this is a template", 2, 2 },
        { "a: {{ b }}/c\n", "this is a template", 1, 11 },
        { "{# note #}\na: 1\n", "this is a template", 1, 1 },
        { "a: 1\nb 2  # \uff1a\n", "could not find expected ':'", 2, 1 },
        { "a: \u4f60\uff1a \"b\" c: d\n", "mapping values", 1, 12 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(samples); i++) {
        struct arena *arena = arena_new();
        struct document document;

        document_read(samples[i].text, strlen(samples[i].text), arena, &document);
        if (document.root || document.remark_count != 1)
            fail_msg("%s is valid", samples[i].text);
        if (!strstr(document.remarks[0].text, samples[i].hint) ||
            document.remarks[0].at.line != samples[i].line ||
            document.remarks[0].at.column != samples[i].column)
            fail_msg("%s: %u:%u: %s", samples[i].text, document.remarks[0].at.line,
                     document.remarks[0].at.column, document.remarks[0].text);
        arena_free(arena);
    }
}

static void test_lookalike_knows_templates(void **state)
{
    (void)state;
    assert_true(lookalike_is_template("{{ a }}", 7));
    assert_true(lookalike_is_template("x{%- if", 7));
    assert_true(lookalike_is_template("{# a", 4));
    assert_false(lookalike_is_template("{a: {b: 1}}", 11));
    assert_false(lookalike_is_template("{", 1));
    assert_false(lookalike_is_template("", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lookalike_names_characters_in_values),
        cmocka_unit_test(test_lookalike_explains_syntax_errors),
        cmocka_unit_test(test_lookalike_knows_templates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
