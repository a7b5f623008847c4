/* tests/unit/test_edit_log.c - edits of edited texts map to the original text. */
#include "config.h"

#include "patcher/document/edit_log.h"

#include "patcher/document/edits.h"
#include "tests/unit/unit.h"

static unsigned next_random(unsigned *random)
{
    *random = *random * 1664525u + 1013904223u;
    return *random >> 16;
}

/* Apply the edits to the original text with struct edits and compare. */
static void assert_edits_lead_to(const struct edit_log *edit_log, const char *first,
                                 const char *expected)
{
    const struct edit_log_entry *list;
    size_t count = edit_log_entries(edit_log, &list);
    struct edits *edits = edits_new();
    struct text out;

    text_init(&out, 0);
    for (size_t i = 0; i < count; i++)
        assert_true(
            edits_replace(edits, list[i].at, list[i].cut, list[i].new_text, NULL));
    assert_true(edits_apply(edits, first, strlen(first), &out, NULL));
    assert_string_equal(out.data, expected);
    text_clear(&out);
    edits_free(edits);
}

static void test_edit_log_equals_successive_edits(void **state)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyz";
    static const char *const texts[] = { "", "1", "22", "333", "55555" };

    (void)state;
    for (unsigned seed = 1; seed < 500; seed++) {
        struct arena *arena = arena_new();
        struct edit_log *edit_log = edit_log_new(first, strlen(first), arena);
        const char *now = first;
        unsigned random = seed;

        for (unsigned i = 0; i < 1 + seed % 9; i++) {
            struct edit_log_entry edit = { .owner = i };
            size_t len = strlen(now);

            edit.at = next_random(&random) % (len + 1);
            edit.cut = next_random(&random) % 6;
            if (edit.cut > len - edit.at)
                edit.cut = len - edit.at;
            edit.new_text = texts[next_random(&random) % 5];
            now = arena_printf(arena, "%.*s%s%s", (int)edit.at, now, edit.new_text,
                               now + edit.at + edit.cut);
            edit_log_replace(edit_log, &edit);
            assert_string_equal(edit_log_text(edit_log, &len), now);
            assert_int_equal(len, strlen(now));
        }
        assert_edits_lead_to(edit_log, first, now);
        arena_free(arena);
    }
}

static void test_edit_log_maps_positions_back(void **state)
{
    struct arena *arena = arena_new();
    struct edit_log *edit_log = edit_log_new("abcdef", 6, arena);

    (void)state;
    edit_log_replace(edit_log,
                     &(struct edit_log_entry) { 1, 2, "XXXX", 0 });       /* aXXXXdef */
    edit_log_replace(edit_log, &(struct edit_log_entry) { 6, 1, "", 0 }); /* aXXXXdf */
    edit_log_replace(edit_log,
                     &(struct edit_log_entry) { 0, 0, "__", 0 }); /* __aXXXXdf */
    assert_int_equal(edit_log_origin(edit_log, 1), 0);
    assert_int_equal(edit_log_origin(edit_log, 2), 0);
    assert_int_equal(edit_log_origin(edit_log, 3), 1);
    assert_int_equal(edit_log_origin(edit_log, 6), 1);
    assert_int_equal(edit_log_origin(edit_log, 7), 3);
    assert_int_equal(edit_log_origin(edit_log, 8), 5);
    assert_int_equal(edit_log_origin(edit_log, 9), 6);
    /* end of a span: before text that was removed after it, after text that was written
     * in it */
    assert_int_equal(edit_log_origin_end(edit_log, 8), 4);
    assert_int_equal(edit_log_origin_end(edit_log, 9), 6);
    assert_int_equal(edit_log_origin_end(edit_log, 5), 3);
    arena_free(arena);
}

static void test_edit_log_assigns_overlaps_to_the_later_owner(void **state)
{
    struct arena *arena = arena_new();
    struct edit_log *edit_log = edit_log_new("abcdef", 6, arena);
    const struct edit_log_entry *list;

    (void)state;
    edit_log_replace(edit_log, &(struct edit_log_entry) { 0, 1, "A", 1 });
    edit_log_replace(edit_log, &(struct edit_log_entry) { 2, 1, "CC", 2 }); /* AbCCdef */
    edit_log_replace(edit_log, &(struct edit_log_entry) { 3, 2, "x", 3 });  /* AbCxef */
    assert_int_equal(edit_log_entries(edit_log, &list), 2);
    assert_int_equal(list[1].at, 2);
    assert_int_equal(list[1].cut, 2);
    assert_string_equal(list[1].new_text, "Cx");
    assert_int_equal(list[1].owner, 3);
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edit_log_equals_successive_edits),
        cmocka_unit_test(test_edit_log_maps_positions_back),
        cmocka_unit_test(test_edit_log_assigns_overlaps_to_the_later_owner),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
