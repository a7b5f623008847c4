/* tests/unit/test_document.c - every value's bytes are found, and what is no job is told.
 */
#include "config.h"

#include "patcher/document.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct arena *arena;

static int make_arena(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int drop_arena(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static struct document read_bytes(const char *data, size_t len)
{
    struct document document;

    document_read(data, len, arena, &document);
    return document;
}

static struct document read_text(const char *text)
{
    return read_bytes(text, strlen(text));
}

/* The bytes a node stands on. */
static const char *span(const struct document *document, const struct node *node)
{
    return arena_copy(arena, document->data + node->at.byte, node->bytes);
}

static void test_document_marks_every_form_of_value(void **state)
{
    static const struct {
        const char *text, *span, *value;
        uint32_t line, column;
    } cases[] = {
        { "a: b\n", "b", "b", 1, 4 },
        { "a: b", "b", "b", 1, 4 },
        { "a:   b c  # d\n", "b c", "b c", 1, 6 },
        { "a : b\n", "b", "b", 1, 5 },
        { "a:\n", "", "", 1, 3 },
        { "a:", "", "", 1, 3 },
        { "a:   # comment\n", "", "", 1, 3 },
        { "a:\n# comment\nz: 1\n", "", "", 1, 3 },
        { "a: \"b # c\"  # d\n", "\"b # c\"", "b # c", 1, 4 },
        { "a: 'it''s'\n", "'it''s'", "it's", 1, 4 },
        { "a: \"\\u00e4\"\n", "\"\\u00e4\"", "\xc3\xa4", 1, 4 },
        { "'a': b\n", "b", "b", 1, 6 },
        { "\"a\": b\n", "b", "b", 1, 6 },
        { "? a\n: b\n", "b", "b", 2, 3 },
        { "? a\nz: 1\n", "", "", 1, 4 },
        { "{a: b, c: d}\n", "b", "b", 1, 5 },
        { "{c: d, a: }\n", "", "", 1, 10 },
        { "{a, c: d}\n", "", "", 1, 3 },
        { "{\"a\":1}\n", "1", "1", 1, 6 },
        { "a: |\n  fp16: true\n  b\n\nz: 1\n", "|\n  fp16: true\n  b", "fp16: true\nb\n",
          1, 4 },
        { "a: >-\n  b\n  c\n# d\nz: 1\n", ">-\n  b\n  c", "b c", 1, 4 },
        { "a: |  # none\nz: 1\n", "|", "", 1, 4 },
        { "a: [1,\n  2]  # c\nz: 1\n", "[1,\n  2]", "", 1, 4 },
        { "a:\n  b: 1  # x\n  c:   # y\n\n# z\nz: 1\n", "b: 1  # x\n  c:", "", 2, 3 },
        { "a:\n- 1\n- # e\n# f\nz: 1\n", "- 1\n-", "", 2, 1 },
        { "a: one\n  two\nz: 1\n", "one\n  two", "one two", 1, 4 },
        { "a: !!str true  # t\n", "!!str true", "true", 1, 4 },
        { "a: &x true\n", "&x true", "true", 1, 4 },
        { "a: &x\nz: 1\n", "&x", "", 1, 4 },
        { "--- # d\na: b\n...\n", "b", "b", 2, 4 },
        { "%YAML 1.1\n---\na: b\n", "b", "b", 3, 4 },
        { "z: \xc3\xa4\xf0\x9f\x98\x80\na: \xe2\x80\x8f\xc3\xa4 b # \xc3\xa4\n",
          "\xe2\x80\x8f\xc3\xa4 b", "\xe2\x80\x8f\xc3\xa4 b", 2, 4 },
        { "{\xc3\xa4\xf0\x9f\x98\x80: e\xcc\x81, a: b}\n", "b", "b", 1, 13 },
        { "\xef\xbb\xbf"
          "a: b\n",
          "b", "b", 1, 4 },
        { "z: 1\r\na: b\r\nc: d\r\n", "b", "b", 2, 4 },
        { "z: 1\ra: b\rc: d\r", "b", "b", 2, 4 },
        { "a: k :value\n", "k :value", "k :value", 1, 4 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct document document = read_text(cases[i].text);
        const struct entry *entry = document_find(&document, "a");

        if (!entry)
            fail_msg("no a in %s: %s", cases[i].text, document.remarks[0].text);
        assert_int_equal(document.remark_count, 0);
        assert_string_equal(span(&document, entry->value), cases[i].span);
        assert_string_equal(entry->value->text, cases[i].value);
        assert_int_equal(entry->value->at.line, cases[i].line);
        assert_int_equal(entry->value->at.column, cases[i].column);
    }
}

static void test_document_tells_why_a_text_is_no_job(void **state)
{
    static const struct {
        const char *text;
        enum document_fault fault;
        uint32_t line, column;
    } cases[] = {
        { "", DOCUMENT_LIMIT, 1, 1 },
        { "# only a comment\n", DOCUMENT_LIMIT, 1, 1 },
        { "---\n", DOCUMENT_LIMIT, 2, 1 },
        { "- a\n- b\n", DOCUMENT_LIMIT, 1, 1 },
        { "just words\n", DOCUMENT_LIMIT, 1, 1 },
        { "key :value\n", DOCUMENT_LIMIT, 1, 1 },
        { "a: 1\n\tb: 2\n", DOCUMENT_TAB, 2, 1 },
        { "a:\n \tb: 2\n", DOCUMENT_TAB, 2, 2 },
        { "a: 1\n---\nb: 2\n", DOCUMENT_SEVERAL, 2, 1 },
        { "a: 1\n...\nb: 2\n", DOCUMENT_SEVERAL, 3, 1 },
        { "a: 1\n...\n---\n", DOCUMENT_SEVERAL, 3, 1 },
        { "a: b: c\n", DOCUMENT_SYNTAX, 1, 5 },
        { "a: [1, 2\n", DOCUMENT_SYNTAX, 2, 1 },
        { "a: \"open\n", DOCUMENT_SYNTAX, 2, 1 },
        { "a: 1\n b: 2\n", DOCUMENT_SYNTAX, 2, 3 },
        { "a: @x\n", DOCUMENT_SYNTAX, 1, 4 },
        { "a: \x01\n", DOCUMENT_SYNTAX, 1, 4 },
        { "a: *x\n", DOCUMENT_LIMIT, 1, 4 },
        { "a: &x [1, *x]\n", DOCUMENT_LIMIT, 1, 11 },
        { "a: 1\nb: caf\xe9\n", DOCUMENT_ENCODING, 2, 7 },
        { "\xff\xfe"
          "a",
          DOCUMENT_ENCODING, 1, 1 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct document document = read_text(cases[i].text);

        if (document.remark_count != 1 || document.remarks[0].fault != cases[i].fault)
            fail_msg("%s: %zu remarks, fault %d, %s", cases[i].text,
                     document.remark_count, document.remarks[0].fault,
                     document.remarks[0].text);
        assert_null(document.root);
        assert_int_equal(document.remarks[0].at.line, cases[i].line);
        assert_int_equal(document.remarks[0].at.column, cases[i].column);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_document_marks_every_form_of_value,
                                        make_arena, drop_arena),
        cmocka_unit_test_setup_teardown(test_document_tells_why_a_text_is_no_job,
                                        make_arena, drop_arena),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
