/* tests/unit/test_suppress.c - which findings are hidden, and that no others are. */
#include "config.h"

#include "patcher/rules/suppress.h"

#include "base/size.h"
#include "patcher/document/directive.h"
#include "patcher/patcher.h"
#include "tests/unit/unit.h"

static void test_suppress_selects_by_the_longer_prefix(void **state)
{
    static const char *const one[] = { "TS1", "TS702", NULL };
    static const char *const out[] = { "TS104", "TS7", NULL };
    static const char *const all[] = { "", NULL };

    (void)state;
    assert_true(suppress_selects(NULL, NULL, "TS105"));
    assert_true(suppress_selects(one, NULL, "TS105"));
    assert_false(suppress_selects(one, NULL, "TS205"));
    assert_true(suppress_selects(one, out, "TS105"));
    assert_false(suppress_selects(one, out, "TS104"));
    assert_true(suppress_selects(one, out, "TS702"));
    assert_false(suppress_selects(NULL, out, "TS713"));
    assert_false(suppress_selects(one, one, "TS105"));
    assert_true(suppress_selects(all, out, "TS205"));
    assert_false(suppress_selects(NULL, all, "TS205"));
}

static void test_suppress_suggests_a_rule(void **state)
{
    static const char *const like[] = { "TS1O4", "104", "ts-104", "TSl04", "ts104" };

    (void)state;
    for (size_t i = 0; i < sizeof(like) / sizeof(like[0]); i++)
        assert_string_equal(suppress_suggest_rule(like[i]), "TS104");
    assert_null(suppress_suggest_rule("TS"));
    assert_null(suppress_suggest_rule("TS999"));
    assert_null(suppress_suggest_rule("TS1044"));
    assert_null(suppress_suggest_rule("E501"));
    assert_null(suppress_suggest_rule(""));
}

static void test_directives_are_in_comments_only(void **state)
{
    static const char text[] =
        "# trainspool: keep\n"
        "a: 'it''s # trainspool: keep'\n"
        "b: x#trainspool:keep\n"
        "c: | # trainspool: keep\n"
        "  # trainspool: keep\n"
        "  text # trainspool: keep\n"
        "d: [1, # trainspool: ignore [TS104 TS105]\n"
        "  2] # half #trainspool:ignore[TS106,ts107,] see there\n"
        "e: 1 # trainspool: a word\n"
        "f: \"\n  # trainspool: keep\n  \" # trainspool: ignores[]";
    static const struct {
        uint32_t line, column;
        enum comment_kind kind;
        size_t words;
    } wanted[] = { { 1, 1, COMMENT_KEEP, 0 },
                   { 4, 6, COMMENT_KEEP, 0 },
                   { 7, 8, COMMENT_IGNORE, 2 },
                   { 8, 13, COMMENT_IGNORE, 2 },
                   { 12, 5, COMMENT_MISSPELLED, 0 } };
    struct arena *arena = arena_new();
    struct document document;
    struct directive *list;

    (void)state;
    document_read(text, sizeof(text) - 1, arena, &document);
    assert_int_equal(directives_read(&document, arena, &list), 5);
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(list[i].at.line, wanted[i].line);
        assert_int_equal(list[i].at.column, wanted[i].column);
        assert_int_equal(list[i].kind, wanted[i].kind);
        assert_int_equal(list[i].count, wanted[i].words);
    }
    assert_true(list[0].alone);
    assert_false(list[1].alone);
    assert_true(directive_ignores(&list[3], "TS107"));
    assert_false(directive_ignores(&list[3], "TS10"));
    assert_true(directive_applies_to(&list[2], &document, document_find(&document, "d")));
    assert_true(directive_applies_to(&list[3], &document, document_find(&document, "d")));
    assert_false(
        directive_applies_to(&list[3], &document, document_find(&document, "e")));
    assert_false(
        directive_applies_to(&list[0], &document, document_find(&document, "a")));
    arena_free(arena);
}

/* i: ignore, with a digit for its rules; k: keep; m: misspelled; capital: same as the
 * last. */
static void test_directives_may_follow_each_other_and_text(void **state)
{
    static const struct {
        const char *comment, *wanted;
    } cases[] = {
        { "# trainspool: keep, ignore[TS104]", "ki1" },
        { "# trainspool: keep ignore[TS104, TS105]  ", "ki2" },
        { "# trainspool: ignore[TS104], keep", "i1k" },
        { "# trainspool: ignore[TS104] ,ignore [TS105],keep , see there", "i1i1k" },
        { "# trainspool: keep, ignroe[TS104]", "km" },
        { "# trainspool: keep, as it ignores[nothing]", "K" },
        { "# trainspool: keep, ignore nothing", "K" },
        { "# trainspool: ignore[TS104], keep this", "I1" },
        { "# trainspool: ignore[TS104, keep", "I2" },
        { "# trainspool: keep # x # trainspool: ignore[TS104]", "kI1" },
        { "# known; trainspool: ignore[TS104]", "I1" },
        { "# half is enough trainspool: keep", "K" },
        { "# known.\ttrainspool:keep,ignore[TS104] # see #12", "ki1" },
        { "# known: trainspool: ignroe[TS104]", "M" },
        { "# known; trainspool: ignore[TS104] is its way", "" },
        { "# known; trainspool: ignore[TS104", "" },
        { "# known; trainspool: ignore TS104", "" },
        { "# for trainspool: keep it as it is", "" },
        { "# for trainspool: keeps", "" },
        { "# for trainspool:", "" },
        { "# mytrainspool: keep", "" },
        { "#trainspool:", "" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct arena *arena = arena_new();
        const char *text = arena_printf(arena, "a: 1 %s\n", cases[i].comment);
        struct document document;
        struct directive *list;
        struct text found;
        size_t count;

        text_init(&found, 0);
        document_read(text, strlen(text), arena, &document);
        count = directives_read(&document, arena, &list);
        for (size_t j = 0; j < count; j++) {
            text_addc(&found, (list[j].last ? "IKM" : "ikm")[list[j].kind]);
            if (list[j].kind == COMMENT_IGNORE)
                text_addf(&found, "%zu", list[j].count);
            assert_int_equal(list[j].at.line, 1);
        }
        if (strcmp(found.data, cases[i].wanted) != 0)
            fail_msg("%s: %s, not %s", cases[i].comment, found.data, cases[i].wanted);
        assert_int_equal(
            document_line_keeps(&document, document_find(&document, "a")->value->at),
            strpbrk(cases[i].wanted, "kK") != NULL);
        text_clear(&found);
        arena_free(arena);
    }
}

/* More than any real job has; comparing them all would take minutes. */
static void test_directives_have_a_limit(void **state)
{
    struct arena *arena = arena_new();
    struct document document;
    struct directive *list;
    struct text text;

    (void)state;
    text_init(&text, 0);
    text_adds(&text, "bf16: true\n");
    for (int i = 0; i < DIRECTIVES_MAX + 10; i++)
        text_adds(&text, "# trainspool: keep\n");
    document_read(text.data, text.len, arena, &document);
    assert_int_equal(directives_read(&document, arena, &list), DIRECTIVES_MAX);
    text_clear(&text);
    arena_free(arena);
}

static const char *message_of_714(const struct patch *patch)
{
    const char *last = "";

    for (size_t i = 0; i < patch->findings.count; i++)
        if (strcmp(patch->findings.list[i].rule, "TS714") == 0)
            last = patch->findings.list[i].message;
    return last;
}

static void test_suppress_reports_what_it_does_not_read(void **state)
{
    const struct patch_options options = { .job = "job.yaml" };
    struct error err = { 0 };
    struct patch patch;
    struct text text;

    (void)state;
    text_init(&text, 0);
    text_adds(&text, "model_name_or_path: model\ntrainspool:\n  ignore:\n");
    for (int i = 0; i < 1010; i++)
        text_adds(&text, "  - TS104\n");
    assert_true(patcher_check(text.data, text.len, &options, &patch, &err));
    assert_non_null(strstr(message_of_714(&patch), "only the first 1000 rules"));
    patch_clear(&patch);
    text_clear(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_suppress_selects_by_the_longer_prefix),
        cmocka_unit_test(test_suppress_suggests_a_rule),
        cmocka_unit_test(test_directives_are_in_comments_only),
        cmocka_unit_test(test_directives_may_follow_each_other_and_text),
        cmocka_unit_test(test_directives_have_a_limit),
        cmocka_unit_test(test_suppress_reports_what_it_does_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
