/* tests/unit/test_document.c - documents: positions of values, limits, and faults of bad
 * texts. */
#include "config.h"

#include "patcher/document/document.h"

#include "base/size.h"
#include "tests/unit/unit.h"

/* Each test has its own arena. */
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, drop_arena)

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

/* Return the bytes of a node. */
static const char *span(const struct document *document, const struct node *node)
{
    return arena_copy(arena, document->data + node->at.byte, node->bytes);
}

static void test_document_marks_all_forms_of_values(void **state)
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

static void test_document_reports_faults(void **state)
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
        { "a: [1, 2\n", DOCUMENT_SYNTAX, 1, 4 },
        { "a: \"open\n", DOCUMENT_SYNTAX, 1, 4 },
        { "a: 1\nb:2\nc: 3\n", DOCUMENT_SYNTAX, 2, 1 },
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

/* Read a text with `part` repeated `count` times. */
static struct document read_repeated(const char *head, const char *part, size_t count,
                                     const char *tail)
{
    struct text text;
    struct document document;

    text_init(&text, 0);
    text_adds(&text, head);
    for (size_t i = 0; i < count; i++)
        text_adds(&text, part);
    text_adds(&text, tail);
    document = read_bytes(text.data, text.len);
    text_clear(&text);
    return document;
}

static void assert_limit(struct document document, const char *message)
{
    assert_null(document.root);
    assert_int_equal(document.remark_count, 1);
    assert_int_equal(document.remarks[0].fault, DOCUMENT_LIMIT);
    if (!strstr(document.remarks[0].text, message))
        fail_msg("%s: %s", message, document.remarks[0].text);
}

/* Without limits, libyaml takes minutes for some of these. */
static void test_document_stops_at_its_limits(void **state)
{
    (void)state;
    assert_limit(read_repeated("a: ", "[", 32, ""), "nested deeper");
    assert_limit(read_repeated("a: ", "[", 100000, ""), "nested deeper");
    assert_limit(read_repeated("a: ", "{b: ", 100000, ""), "nested deeper");
    assert_limit(read_repeated("", "- ", 100000, "a"), "nested deeper");
    assert_limit(read_repeated("", "? ", 100000, "a"), "nested deeper");
    assert_limit(read_repeated("a: [", "[\n", 100000, ""), "nested deeper");
    assert_limit(read_repeated("a: [", "x,", 300000, "]"), "more than 20000");
    assert_limit(read_repeated("a:\n", "- x\n", 200000, ""), "more than 20000");
    assert_limit(read_repeated("a: ", "x", 4097, "\n"), "longer than 4096");
    assert_limit(read_repeated("a: |\n", "  x\n", 2049, ""), "longer than 4096");
    assert_limit(read_repeated("z: &z 1\na: [", "*z, ", 101, "]"),
                 "more than 100 aliases");
    assert_limit(read_repeated("a: ", "x", DOCUMENT_MAX_BYTES, ""),
                 "bytes; a job may have");
    assert_null(read_repeated("a: ", "[", 500000, "").root);
}

static void test_document_reads_up_to_its_limits(void **state)
{
    (void)state;
    assert_non_null(
        read_repeated("a: ", "[", 31, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]").root);
    assert_non_null(read_repeated("a: ", "x", 4096, "\n").root);
    assert_non_null(read_repeated("z: &z 1\na: [", "*z, ", 100, "]").root);
    assert_non_null(read_repeated("a: 1\n", "# comment\n", 100000, "").root);
    assert_non_null(read_repeated("a: [", "x,", 19990, "]").root);
    assert_int_equal(read_repeated("k", "e", 3000, ": 1\n").remark_count,
                     1); /* YAML's 1024 */
}

/* The billion-laughs bomb of nine levels of nine: 114 events. */
static void test_document_never_expands_aliases(void **state)
{
    struct text text;
    struct document document;

    (void)state;
    text_init(&text, 0);
    text_adds(&text, "a0: &a0 {x: 1}\n");
    for (int i = 1; i <= 9; i++) {
        text_addf(&text, "a%d: &a%d {y%d: 1, <<: [", i, i, i);
        for (int k = 0; k < 9; k++)
            text_addf(&text, "%s*a%d", k ? ", " : "", i - 1);
        text_adds(&text, "]}\n");
    }
    text_adds(&text, "<<: [*a9, *a9]\n");
    document = read_bytes(text.data, text.len);
    assert_non_null(document.root);
    assert_int_equal(document.aliases, 83);
    assert_non_null(document_find(&document, "x"));
    assert_null(document_find(&document, "none"));
    assert_int_equal(document.root->count, 10 + 9 + 1);
    text_clear(&text);
}

static void test_document_reports_duplicate_keys(void **state)
{
    struct document document = read_text(
        "fp16: true\nb: {c: 1, d: 2, c: 3}\n\"fp16\": false\n'fp16': x\n? fp16\n");

    (void)state;
    assert_non_null(document.root);
    assert_int_equal(document.remark_count, 4);
    assert_int_equal(document.remarks[0].fault, DOCUMENT_DUPLICATE);
    assert_int_equal(document.remarks[0].at.line, 3);
    assert_non_null(
        strstr(document.remarks[0].text, "fp16 is given twice, in lines 1 and 3"));
    assert_int_equal(document.remarks[3].at.column, 17);
    assert_int_equal(document_find(&document, "fp16")->key->at.line, 5);
    assert_int_equal(read_text("a: 1\nA: 2\n").remark_count, 0);
}

static void test_document_finds_only_clear_keys(void **state)
{
    struct document document = read_text("a: 1\nb: 2\na: 3\nc: x\nc: x\n");

    (void)state;
    assert_non_null(document.root);
    assert_non_null(node_find(document.root, "a"));
    assert_null(node_find_clear(document.root, "a"));
    assert_null(node_find_clear(document.root, "d"));
    assert_string_equal(node_find_clear(document.root, "b")->value->text, "2");
    assert_string_equal(node_find_clear(document.root, "c")->value->text, "x");
}

static void test_document_finds_merged_keys(void **state)
{
    struct document document = read_text("base: &b {fp16: true, bf16: false, x: 1}\n"
                                         "more: &m\n  x: 2\n  y: 3\n"
                                         "bf16: true\n"
                                         "<<: [*m, *b]\n"
                                         "seed: 1\n");
    const struct entry *entry = document_find(&document, "fp16");

    (void)state;
    assert_true(entry->from_merge);
    assert_int_equal(entry->value->at.line, 1);
    assert_string_equal(document_find(&document, "x")->value->text, "2");
    assert_string_equal(document_find(&document, "y")->value->text, "3");
    assert_string_equal(document_find(&document, "bf16")->value->text, "true");
    assert_false(document_find(&document, "bf16")->from_merge);
    assert_null(document_find(&document, "<<"));
    assert_int_equal(document.root->count, 7);
    document = read_text("\"<<\": {a: 1}\n");
    assert_non_null(document_find(&document, "<<"));
    document = read_text("<<: 5\n");
    assert_non_null(document_find(&document, "<<"));
}

static void test_document_resolves_aliases(void **state)
{
    struct document document =
        read_text("a: &x true\nb: &x false\nc: *x\nd: &y [1]\ne: *y\n");
    const struct node *c = document_find(&document, "c")->value;

    (void)state;
    assert_int_equal(c->kind, NODE_ALIAS);
    assert_string_equal(span(&document, c), "*x");
    assert_string_equal(c->text, "false");
    assert_string_equal(c->anchor, "x");
    assert_ptr_equal(node_value(c), document_find(&document, "b")->value);
    assert_int_equal(node_value(document_find(&document, "e")->value)->count, 1);
}

static void test_document_recognizes_null(void **state)
{
    struct document document =
        read_text("a:\nb: ~\nc: null\nd: Null\ne: NULL\nf: &x\ng: *x\n"
                  "h: nUll\ni: ''\nj: \"null\"\nk: []\nl: !!str\n");

    (void)state;
    for (size_t i = 0; i < document.root->count; i++)
        assert_int_equal(node_is_null(document.root->entries[i].value), i < 7);
}

static void test_document_recognizes_line_ends(void **state)
{
    struct document document = read_text("a: 1\r\nb: 2\nc: 3\rd: 4");

    (void)state;
    assert_true(document.mixed_ends);
    assert_false(document.crlf);
    assert_string_equal(document_newline(&document, 0), "\r\n");
    assert_string_equal(document_newline(&document, 6), "\n");
    assert_string_equal(document_newline(&document, 11), "\r");
    assert_string_equal(document_newline(&document, 19), "\r");
    assert_int_equal(document_line_end(&document, 2), 6);
    assert_int_equal(document_line_end(&document, 17), 20);
    assert_int_equal(document_line_start(&document, 5), 0);
    assert_int_equal(document_line_start(&document, 6), 6);
    assert_int_equal(document_line_start(&document, 15), 11);
    assert_int_equal(document_line_start(&document, 20), 16);
    assert_int_equal(document_find(&document, "d")->key->at.line, 4);
    assert_true(read_text("a: 1\r\nb: 2\r\n").crlf);
    assert_false(read_text("a: 1\nb: 2\n").mixed_ends);
    assert_true(read_text("\xef\xbb\xbf"
                          "a: 1")
                    .bom);
}

/* YAML 1.1 ends a line, and thus a comment, at NEL, LS and PS; people and editors do
 * not. */
static void test_document_ends_comments_where_libyaml_does(void **state)
{
    static const char *const ends[] = { "\xc2\x85", "\xe2\x80\xa8", "\xe2\x80\xa9" };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(ends); i++) {
        struct document document =
            read_text(arena_printf(arena, "a: 1 # c%sb: 2 # d\nc: 3\n", ends[i]));
        const struct entry *b = document_find(&document, "b");

        assert_non_null(b);
        assert_int_equal(document_line_end(&document, 0), b->key->at.byte);
        assert_int_equal(document_line_start(&document, b->value->at.byte),
                         b->key->at.byte);
        assert_int_equal(b->key->at.line, 1);
        assert_int_equal(document_find(&document, "c")->key->at.line, 2);
    }
}

static void test_document_reads_directives(void **state)
{
    struct document document =
        read_text("a: 1  # trainspool: keep\n"
                  "b: '# trainspool: keep'\n"
                  "c: x  # why #trainspool:ignore[TS104, TS118]\n"
                  "d: [1,\n  2] # trainspool: keep\n"
                  "e:   # trainspool: keep\n"
                  "f: 1 # trainspool: keeper\n"
                  "g: 1 # trainspool: ignore[TS1]\n"
                  "# trainspool: keep\n"
                  "h: a 'b # trainspool: keep it's\n"
                  "i: {j: \"# trainspool: keep\"} # trainspool: ignore[]");

    (void)state;
    for (const char *key = "acdefghi"; *key; key++) {
        char name[2] = { *key, 0 };
        const struct entry *entry = document_find(&document, name);
        bool keeps = strchr("adeh", *key) != NULL;

        assert_int_equal(document_line_keeps(&document, entry->value->at), keeps);
        assert_int_equal(document_line_keeps(&document, entry->key->at), keeps);
    }
    assert_false(
        document_line_keeps(&document, document_find(&document, "b")->value->at));
}

static void test_document_finds_comments_outside_quotes(void **state)
{
    static const struct {
        const char *text;
        size_t at; /* 0: no comment */
    } cases[] = {
        { "a: 1 # c\n", 5 },
        { "a: 1#c\n", 0 },
        { "a: 1\t# c\n", 5 },
        { "a: {b: 'it''s # x'} # y\n", 20 },
        { "a: [\"x \\\" # y\"] # z", 16 },
        { "a: it's 'x # y\n", 11 },
        { "# a\n", 0 },
        { "a: 1\n# b\n", 0 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct document document = read_text(cases[i].text);
        size_t at = 0;

        if (document_comment(&document, 0, &at) !=
                (cases[i].at > 0 || *cases[i].text == '#') ||
            at != cases[i].at)
            fail_msg("%s: %zu", cases[i].text, at);
    }
}

static void test_document_same_but_detects_other_changes(void **state)
{
    static const char *const but[] = { "fp16", NULL };
    static const char was[] = "a: 1\nfp16: true\nb: [1, {c: x}]\nd: &x 1\ne: *x\n";
    static const struct {
        const char *now;
        bool same;
    } cases[] = {
        { "a: 1\nfp16: false\nb: [1, {c: x}]\nd: &x 1\ne: *x\n", true },
        { "a: 1 # c\nb:\n- 1\n- c: x\nd: &x 1\ne: *x\n", true },
        { "fp16: 1\na: 1\nb: [1, {c: x}]\nd: &x 1\ne: *x\nfp16: 2\n", true },
        { "a: '1'\nfp16: true\nb: [1, {c: x}]\nd: &x 1\ne: *x\n", false },
        { "a: 1\nb: [1, {c: y}]\nd: &x 1\ne: *x\n", false },
        { "a: 1\nb: [1]\nd: &x 1\ne: *x\n", false },
        { "a: 1\nb: [1, {c: x}]\nd: &x 1\ne: 1\n", false },
        { "a: 1\nb: [1, {c: x}]\nd: &x 1\n", false },
        { "a: 1\nb: [1, {c: x}]\nd: &x 1\ne: *x\nnew: 1\n", false },
        { "b: [1, {c: x}]\na: 1\nd: &x 1\ne: *x\n", false },
        { "- a\n", false },
    };
    struct document first = read_text(was);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct document now = read_text(cases[i].now);

        if (document_same_but(&first, &now, but) != cases[i].same)
            fail_msg("%s", cases[i].now);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_document_marks_all_forms_of_values),
        TEST(test_document_reports_faults),
        TEST(test_document_stops_at_its_limits),
        TEST(test_document_reads_up_to_its_limits),
        TEST(test_document_never_expands_aliases),
        TEST(test_document_reports_duplicate_keys),
        TEST(test_document_finds_only_clear_keys),
        TEST(test_document_finds_merged_keys),
        TEST(test_document_resolves_aliases),
        TEST(test_document_recognizes_null),
        TEST(test_document_recognizes_line_ends),
        TEST(test_document_ends_comments_where_libyaml_does),
        TEST(test_document_reads_directives),
        TEST(test_document_finds_comments_outside_quotes),
        TEST(test_document_same_but_detects_other_changes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
