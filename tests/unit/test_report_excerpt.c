/* tests/unit/test_report_excerpt.c - carets are under the span of the finding. */
#include "config.h"

#include "runner/output/report_excerpt.h"

#include "tests/unit/unit.h"

/* A finding at the first `what` in the text. */
static struct finding finding_at(const struct document *document, const char *what)
{
    const char *found = strstr(document->data, what);

    assert_non_null(found);
    return (
        struct finding) { .rule = "TS105",
                          .severity = SEVERITY_ERROR,
                          .at = document_mark(document, (size_t)(found - document->data)),
                          .cut = strlen(what) };
}

static void shows(const char *text, const char *what, size_t width, const char *expected)
{
    struct arena *arena = arena_new();
    struct document document;
    struct finding finding;
    struct findings findings = { .list = &finding, .count = 1 };
    struct excerpt *excerpt;
    struct text out;

    document_read(text, strlen(text), arena, &document);
    finding = finding_at(&document, what);
    excerpt = excerpt_new(&document, width, false);
    text_init(&out, 0);
    assert_true(excerpt_add(excerpt, &findings, 0, &out));
    assert_string_equal(out.data, expected);
    text_clear(&out);
    excerpt_free(excerpt);
    arena_free(arena);
}

static void test_excerpt_has_carets_under_the_span(void **state)
{
    (void)state;
    shows("a: 1\nbf16: true  # why\nb: 2\n", "true", 80,
          "  2 | bf16: true  # why\n"
          "    |       ^^^^\n");
    shows("a: 1\r\nbf16: true   \r\n", "bf16", 80,
          "  2 | bf16: true\n"
          "    | ^^^^\n");
    shows("a: [1,\n 2]\n", "[1,\n 2]", 80, /* the first of several lines */
          "  1 | a: [1,\n"
          "    |    ^^^\n");
    shows("\xef\xbb\xbf"
          "bf16: true",
          "true", 80,
          "  1 | bf16: true\n"
          "    |       ^^^^\n");
}

static void test_excerpt_makes_room_for_its_number(void **state)
{
    char text[1100];

    (void)state;
    memset(text, '\n', sizeof(text));
    memcpy(text + 1000, "bf16: true", sizeof("bf16: true"));
    shows(text, "true", 80,
          "1001 | bf16: true\n"
          "     |       ^^^^\n");
}

static void test_excerpt_counts_columns_of_a_terminal(void **state)
{
    (void)state;
    shows("a:\ttrue\n", "true", 80,
          "  1 | a:  true\n"
          "    |     ^^^^\n");
    shows("\xe6\xb1\x89\xe5\xad\x97: true\n", "true", 80, /* two columns each */
          "  1 | \xe6\xb1\x89\xe5\xad\x97: true\n"
          "    |       ^^^^\n");
    shows("e\xcc\x81: true\n", "true", 80, /* a combining accent takes none */
          "  1 | e\xcc\x81: true\n"
          "    |    ^^^^\n");
    shows("a: \xf0\x9f\x98\x80 true\n", "\xf0\x9f\x98\x80", 80,
          "  1 | a: \xf0\x9f\x98\x80 true\n"
          "    |    ^^\n");
}

static void test_excerpt_shows_hidden_and_direction_characters(void **state)
{
    (void)state;
    shows("a: 'x' # \xe2\x80\xae y\n", "'x'", 80,
          "  1 | a: 'x' # \\u202e y\n"
          "    |    ^^^\n");
    shows("a\033[31m: true\n", "true", 80,
          "  1 | a\\x1b[31m: true\n"
          "    |            ^^^^\n");
    shows("a\xff: true\n", "true", 80,
          "  1 | a\\xff: true\n"
          "    |        ^^^^\n");
}

static void test_excerpt_hides_secrets(void **state)
{
    (void)state;
    shows("hub_token: hf_abcdef\n", "hf_abcdef", 80,
          "  1 | hub_token: ***\n"
          "    |            ^^^\n");
    shows("{hub_token: hf_abcdef, bf16: true}\n", "true", 80,
          "  1 | {hub_token: ***, bf16: true}\n"
          "    |                        ^^^^\n");
    shows("hub_tokn: hf_abcdef\n", "hub_tokn", 80,
          "  1 | hub_tokn: ***\n"
          "    | ^^^^^^^^\n");
}

static void test_excerpt_cuts_long_lines_around_the_span(void **state)
{
    char text[4096], expected[512];

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text + 2000, "here", 4);
    text[sizeof(text) - 1] = 0;
    /* 50 columns: 6 of the gutter, 2 * 3 of dots, 12 kept after the span */
    snprintf(expected, sizeof(expected),
             "  1 | ...%.22shere%.12s...\n    |    %22s^^^^\n", text, text, "");
    shows(text, "here", 50, expected);
    memcpy(text, "here", 4);
    snprintf(expected, sizeof(expected), "  1 | %.38s...\n    | ^^^^\n", text);
    shows(text, "here", 50, expected);
    memset(text, 'x', 2004);
    memcpy(text + sizeof(text) - 5, "here", 4);
    snprintf(expected, sizeof(expected), "  1 | ...%.22shere\n    |    %22s^^^^\n",
             text + 5, "");
    shows(text, "here", 50, expected);
}

/* A value longer than the terminal is shown from its start, with its key. */
static void test_excerpt_of_a_long_span_keeps_its_key(void **state)
{
    char text[256], expected[256];

    (void)state;
    memset(text, 'x', sizeof(text));
    memcpy(text, "seed: ", 6);
    text[sizeof(text) - 1] = 0;
    snprintf(expected, sizeof(expected), "  1 | %.38s...\n    |       %.32s\n", text,
             "^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^");
    shows(text, text + 6, 50, expected);
}

static void test_excerpt_of_a_new_line_is_the_line_before(void **state)
{
    static const char text[] = "bf16: true\nseed: 1\n";
    struct arena *arena = arena_new();
    struct document document;
    struct finding list[2];
    struct findings findings = { .list = list, .count = 2 };
    struct excerpt *excerpt;
    struct text out;

    (void)state;
    document_read(text, sizeof(text) - 1, arena, &document);
    list[0] = finding_at(&document, "seed");
    list[0].cut = 0;
    list[0].old_text = "";
    list[0].new_text = "fp16: true\n";
    list[1] = (struct finding) { .at = document_mark(&document, 0) };
    excerpt = excerpt_new(&document, 80, false);
    text_init(&out, 0);
    assert_true(excerpt_add(excerpt, &findings, 0, &out));
    assert_string_equal(out.data, "  1 | bf16: true\n");
    text_reset(&out);
    assert_false(excerpt_add(excerpt, &findings, 1, &out)); /* of the file as a whole */
    assert_int_equal(out.len, 0);
    text_clear(&out);
    excerpt_free(excerpt);
    arena_free(arena);
}

static void test_excerpt_underlines_other_edits_of_a_group(void **state)
{
    static const char text[] = "{bf16: true, fp16: false}\n";
    struct arena *arena = arena_new();
    struct document document;
    struct finding list[2];
    struct findings findings = { .list = list, .count = 2 };
    struct excerpt *excerpt;
    struct text out;

    (void)state;
    document_read(text, sizeof(text) - 1, arena, &document);
    list[0] = finding_at(&document, "true");
    list[1] = finding_at(&document, "false");
    list[0].group = list[1].group = 7;
    excerpt = excerpt_new(&document, 80, false);
    text_init(&out, 0);
    assert_true(excerpt_add(excerpt, &findings, 0, &out));
    assert_string_equal(out.data, "  1 | {bf16: true, fp16: false}\n"
                                  "    |        ^^^^        -----\n");
    text_clear(&out);
    excerpt_free(excerpt);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_excerpt_has_carets_under_the_span),
        cmocka_unit_test(test_excerpt_makes_room_for_its_number),
        cmocka_unit_test(test_excerpt_counts_columns_of_a_terminal),
        cmocka_unit_test(test_excerpt_shows_hidden_and_direction_characters),
        cmocka_unit_test(test_excerpt_hides_secrets),
        cmocka_unit_test(test_excerpt_cuts_long_lines_around_the_span),
        cmocka_unit_test(test_excerpt_of_a_long_span_keeps_its_key),
        cmocka_unit_test(test_excerpt_of_a_new_line_is_the_line_before),
        cmocka_unit_test(test_excerpt_underlines_other_edits_of_a_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
