/* tests/unit/test_rewrite.c - an edit changes only its target; comments and layout
 * stay. */
#include "config.h"

#include "patcher/findings/rewrite.h"

#include "base/size.h"
#include "patcher/document/edits.h"
#include "tests/unit/unit.h"

enum what { VALUE, KEY, INSERT, REMOVE };

struct row {
    const char *text, *key, *arg, *expected; /* expected NULL: refused with `fault` */
    enum rewrite_fault fault;
};

static enum rewrite_fault rewrite(const struct rewrite *rewrite, enum what what,
                                  const struct entry *entry, const char *arg)
{
    switch (what) {
    case VALUE:
        return rewrite_value(rewrite, entry, arg);
    case KEY:
        return rewrite_key(rewrite, entry, arg);
    case INSERT:
        return rewrite_insert(rewrite, entry, arg, "new");
    default:
        return rewrite_remove(rewrite, entry, arg);
    }
}

static void check_span(const struct row *row, const struct document *document,
                       const struct finding *finding)
{
    if (strlen(finding->old_text) != finding->cut ||
        memcmp(document->data + finding->at.byte, finding->old_text, finding->cut) != 0)
        fail_msg("%s: old_text is not the text of the span: %s", row->text,
                 finding->old_text);
}

static void check_row(const struct row *row, enum what what)
{
    struct arena *arena = arena_new();
    struct edits *edits = edits_new();
    struct finding finding = { .rule = "TS999" };
    struct document document, after;
    struct rewrite how = { &document, arena, &finding };
    const char *const but[] = { row->key ? row->key : "", row->arg, NULL };
    struct text out;
    enum rewrite_fault fault;

    text_init(&out, 0);
    document_read(row->text, strlen(row->text), arena, &document);
    if (!document.root)
        fail_msg("%s: %s", row->text, document.remarks[0].text);
    fault = rewrite(&how, what, row->key ? document_find(&document, row->key) : NULL,
                    row->arg);
    if (fault != row->fault)
        fail_msg("%s: fault %d, not %d", row->text, fault, row->fault);
    if (fault == REWRITE_OK) {
        check_span(row, &document, &finding);
        assert_true(
            edits_replace(edits, finding.at.byte, finding.cut, finding.new_text, NULL));
        assert_true(edits_apply(edits, document.data, document.len, &out, NULL));
        assert_string_equal(out.data, row->expected);
        document_read(out.data, out.len, arena, &after);
        if (!document_same_but(&document, &after, but))
            fail_msg("%s: more than %s changed: %s", row->text, but[0], out.data);
    }
    text_clear(&out);
    edits_free(edits);
    arena_free(arena);
}

static void check_rows(const struct row *rows, size_t count, enum what what)
{
    for (size_t i = 0; i < count; i++)
        check_row(&rows[i], what);
}

static void test_rewrite_value_keeps_quotes_and_comments(void **state)
{
    static const struct row rows[] = {
        { "a: 1\nz: 2\n", "a", "x", "a: x\nz: 2\n", 0 },
        { "a: 1", "a", "x", "a: x", 0 },
        { "a: '1'\n", "a", "x", "a: 'x'\n", 0 },
        { "a: '1'\n", "a", "it's", "a: 'it''s'\n", 0 },
        { "a: \"1\"\n", "a", "x", "a: \"x\"\n", 0 },
        { "a: 1 # c\n", "a", "true", "a: true # c\n", 0 },
        { "a: true # c\n", "a", "1", "a: 1 # c\n", 0 },
        { "a: true    # c\n", "a", "1", "a: 1       # c\n", 0 },
        { "a: 1    # c\n", "a", "true", "a: true # c\n", 0 },
        { "a: 1     # c\n", "a", "true", "a: true  # c\n", 0 },
        { "a: 1   # c\n", "a", "float32", "a: float32 # c\n", 0 },
        { "a: \xc3\xa4   # c\n", "a", "x", "a: x   # c\n", 0 },
        { "a: true # c\nb: 11   # d\n", "a", "11", "a: 11   # c\nb: 11   # d\n", 0 },
        { "        # d\na: true # c\n", "a", "1", "        # d\na: 1    # c\n", 0 },
        { "       # d\na: true # c\n", "a", "1", "       # d\na: 1 # c\n", 0 },
        { "z:      # d\na: true # c\n", "a", "1", "z:      # d\na: 1    # c\n", 0 },
        { "a:\nz: 2\n", "a", "x", "a: x\nz: 2\n", 0 },
        { "a:", "a", "x", "a: x", 0 },
        { "a: # c\n", "a", "x", "a: x # c\n", 0 },
        { "a:        # c\n", "a", "x", "a: x      # c\n", 0 },
        { "a:  # c\n", "a", "x", "a: x # c\n", 0 },
        { "a:\t# c\n", "a", "x", "a: x\t# c\n", 0 },
        { "a:   \n", "a", "x", "a: x   \n", 0 },
        { "a: !!str 1\n", "a", "x", "a: x\n", 0 },
        { "a: |\n  text\n  more\nz: 2\n", "a", "x", "a: x\nz: 2\n", 0 },
        { "a:\n  b: 1\n  c: 2\nz: 2\n", "a", "x", "a:\n  x\nz: 2\n", 0 },
        { "a: [1,\n  2] # c\nz: 2\n", "a", "x", "a: x # c\nz: 2\n", 0 },
        { "{a: 1, z: 2}\n", "a", "x", "{a: x, z: 2}\n", 0 },
        { "{a: , z: 2}\n", "a", "x", "{a: x , z: 2}\n", 0 },
        { "{a, z: 2}\n", "a", "x", NULL, REWRITE_SHAPE },
        { "? a\n: 1\n", "a", "x", "? a\n: x\n", 0 },
        { "a: 1\r\nz: 2\r\n", "a", "x", "a: x\r\nz: 2\r\n", 0 },
        { "? a\nz: 2\n", "a", "x", NULL, REWRITE_SHAPE },
        { "z: 2\n? a #:\n", "a", "x", NULL, REWRITE_SHAPE },
        { "a: [1, # why\n  2]\n", "a", "x", NULL, REWRITE_SHAPE },
        { "a: | # why\n  t\n", "a", "x", NULL, REWRITE_SHAPE },
        { "a: &b 1\n", "a", "x", NULL, REWRITE_ANCHOR },
        { "z: &b 1\na: *b\n", "a", "x", NULL, REWRITE_ANCHOR },
        { "z: &b {a: 1}\n<<: *b\n", "a", "x", NULL, REWRITE_ANCHOR },
        { "a: [&b 1]\n", "a", "x", NULL, REWRITE_ANCHOR },
        { "a: ${b}\n", "a", "x", NULL, REWRITE_INTERPOLATION },
        { "a: 1\n \t\nz: 2\n", "a", "x", "a: x\n \t\nz: 2\n", 0 },
        { "a: 1\n \t\nz: 2\n", "a", "[x]", NULL, REWRITE_SHAPE },
        { "a: []# c\n", "a", "x", "a: x # c\n", 0 },
        { "a: 1\na: 2\n", "a", "x", NULL, REWRITE_TWICE },
        { "a: 1\n\"a\": 2\n", "a", "x", NULL, REWRITE_TWICE },
    };

    (void)state;
    check_rows(rows, TS_COUNT(rows), VALUE);
}

static void test_rewrite_key_keeps_value_and_comment(void **state)
{
    static const struct row rows[] = {
        { "a: 1 # c\n", "a", "b", "b: 1 # c\n", 0 },
        { "'a' : 1 # c\n", "a", "b", "'b' : 1 # c\n", 0 },
        { "\"a\": 1\n", "a", "b", "\"b\": 1\n", 0 },
        { "? a\n: 1\n", "a", "b", "? b\n: 1\n", 0 },
        { "&x a: 1\n", "a", "b", NULL, REWRITE_ANCHOR },
        { "a: 1\na: 2\n", "a", "b", NULL, REWRITE_TWICE },
    };

    (void)state;
    check_rows(rows, TS_COUNT(rows), KEY);
}

static void test_rewrite_inserts_a_line_like_its_neighbor(void **state)
{
    static const struct row rows[] = {
        { "a: 1\nz: 2\n", "a", "b", "a: 1\nb: new\nz: 2\n", 0 },
        { "a: 1 # c\nz: 2\n", "a", "b", "a: 1 # c\nb: new\nz: 2\n", 0 },
        { "a: 1\r\nz: 2\n", "a", "b", "a: 1\r\nb: new\r\nz: 2\n", 0 },
        { "a: 1\rz: 2\r", "a", "b", "a: 1\rb: new\rz: 2\r", 0 },
        { "  a: 1\n  z: 2\n", "a", "b", "  a: 1\n  b: new\n  z: 2\n", 0 },
        { "z: 2\na: 1", "a", "b", "z: 2\na: 1\nb: new\n", 0 },
        { "z: 2\r\na: 1", "a", "b", "z: 2\r\na: 1\r\nb: new\r\n", 0 },
        { "a: 1 # c", "a", "b", "a: 1 # c\nb: new\n", 0 },
        { "a:", "a", "b", "a:\nb: new\n", 0 },
        { "a:\n  c: 1\n  # d\n\n# e\nz: 2\n", "a", "b",
          "a:\n  c: 1\nb: new\n  # d\n\n# e\nz: 2\n", 0 },
        { "a:\n- 1\n- 2\nz: 2\n", "a", "b", "a:\n- 1\n- 2\nb: new\nz: 2\n", 0 },
        { "a: |\n  text\n\nz: 2\n", "a", "b", "a: |\n  text\n\nb: new\nz: 2\n", 0 },
        { "a: |+\n  text\n\n\nz: 2\n", "a", "b", "a: |+\n  text\n\n\nb: new\nz: 2\n", 0 },
        { "a: [1,\n  2]\nz: 2\n", "a", "b", "a: [1,\n  2]\nb: new\nz: 2\n", 0 },
        { "a: 'x\n  y'\nz: 2\n", "a", "b", "a: 'x\n  y'\nb: new\nz: 2\n", 0 },
        { "z: 2\na: 1\n...\n", "a", "b", "z: 2\na: 1\nb: new\n...\n", 0 },
        { "z: 2\na: 1 # c\n\n# end\n", NULL, "b", "z: 2\na: 1 # c\nb: new\n\n# end\n",
          0 },
        { "x: &m {q: 1}\n<<: *m\n", NULL, "b", "x: &m {q: 1}\nb: new\n<<: *m\n", 0 },
        { "? a\n: 1\nz: 2\n", "a", "b", NULL, REWRITE_SHAPE },
        { "? a\nz: 2\n", "a", "b", NULL, REWRITE_SHAPE },
        { "{a: 1, z: 2}\n", "a", "b", "{a: 1, b: new, z: 2}\n", 0 },
        { "{\"a\":1}\n", "a", "b", "{\"a\":1, \"b\": new}\n", 0 },
        { "{a: , z: 2}\n", "a", "b", "{b: new, a: , z: 2}\n", 0 },
        { "{z: 2, a}\n", "a", "b", "{z: 2, b: new, a}\n", 0 },
        { "&x a: 1\nz: 2\n", "a", "b", "&x a: 1\nb: new\nz: 2\n", 0 },
    };

    (void)state;
    check_rows(rows, TS_COUNT(rows), INSERT);
}

static void test_rewrite_remove_comments_out(void **state)
{
    static const struct row rows[] = {
        { "z: 2\na: 1  # c\n", "a", "TS606",
          "z: 2\n# trainspool TS606 removed: a: 1  # c\n", 0 },
        { "z: 2\na:\n", "a", "TS606", "z: 2\n# trainspool TS606 removed: a:\n", 0 },
        { "  z: 2\n  a: 1", "a", "TS606", "  z: 2\n  # trainspool TS606 removed: a: 1",
          0 },
        { "z: 2\na:\n  b: 1\n  # why\n  c: 1\n", "a", "TS606",
          "z: 2\n# trainspool TS606 removed: a:\n#   b: 1\n#   # why\n#   c: 1\n", 0 },
        { "a: 1\n", "a", "TS606", NULL, REWRITE_SHAPE },
        { "{a: 1, z: 2}\n", "a", "TS606", NULL, REWRITE_SHAPE },
        { "? a\n: 1\nz: 2\n", "a", "TS606", NULL, REWRITE_SHAPE },
        { "a: &x 1\nz: 2\n", "a", "TS606", NULL, REWRITE_ANCHOR },
        { "z: 2\na: 1\n \t\n", "a", "TS606", NULL, REWRITE_SHAPE },
        { "z: 2\na: 1\n\n \t# c\n", "a", "TS606", NULL, REWRITE_SHAPE },
    };

    (void)state;
    check_rows(rows, TS_COUNT(rows), REMOVE);
}

static void test_rewrite_keeps_the_finding_when_it_refuses(void **state)
{
    struct arena *arena = arena_new();
    struct finding finding = { .rule = "TS102", .cut = 77 };
    struct document document;

    (void)state;
    document_read("a: ${b}\n", 8, arena, &document);
    assert_int_equal(rewrite_value(&(struct rewrite) { &document, arena, &finding },
                                   document_find(&document, "a"), "x"),
                     REWRITE_INTERPOLATION);
    assert_int_equal(finding.cut, 77);
    assert_null(finding.new_text);
    arena_free(arena);
}

static void test_rewrite_sets_the_label_for_people(void **state)
{
    struct arena *arena = arena_new();
    struct finding finding = { .rule = "TS102" };
    struct document document;

    (void)state;
    document_read("a: true   # c\n", 14, arena, &document);
    rewrite_value(&(struct rewrite) { &document, arena, &finding },
                  document_find(&document, "a"), "false");
    assert_string_equal(finding.old_text, "true ");
    assert_string_equal(finding.new_text, "false");
    assert_int_equal(finding.at.column, 4);
    rewrite_value(&(struct rewrite) { &document, arena, &finding },
                  document_find(&document, "a"), "no");
    assert_string_equal(finding.old_text, "true");
    assert_string_equal(finding.new_text, "no  ");
    assert_string_equal(finding.label, "no");
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rewrite_value_keeps_quotes_and_comments),
        cmocka_unit_test(test_rewrite_key_keeps_value_and_comment),
        cmocka_unit_test(test_rewrite_inserts_a_line_like_its_neighbor),
        cmocka_unit_test(test_rewrite_remove_comments_out),
        cmocka_unit_test(test_rewrite_keeps_the_finding_when_it_refuses),
        cmocka_unit_test(test_rewrite_sets_the_label_for_people),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
