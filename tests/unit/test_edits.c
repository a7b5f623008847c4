/* tests/unit/test_edits.c - edits are applied at their positions, and must not
 * overlap. */
#include "config.h"

#include "patcher/document/edits.h"

#include "tests/unit/unit.h"

static void assert_applied(const struct edits *edits, const char *data,
                           const char *expected)
{
    struct error err = { 0 };
    struct text out;

    text_init(&out, 0);
    assert_true(edits_apply(edits, data, strlen(data), &out, &err));
    assert_string_equal(out.data, expected);
    text_clear(&out);
}

static void test_edits_may_be_added_in_any_order(void **state)
{
    struct edits *edits = edits_new();

    (void)state;
    assert_applied(edits, "abcdef", "abcdef");
    assert_true(edits_replace(edits, 4, 1, "EE", NULL));
    assert_true(edits_replace(edits, 0, 1, "", NULL));
    assert_true(edits_replace(edits, 6, 0, "!", NULL));
    assert_true(edits_replace(edits, 2, 2, "-", NULL));
    assert_int_equal(edits_count(edits), 4);
    assert_applied(edits, "abcdef", "b-EEf!");
    edits_free(edits);
}

static void test_edits_keep_the_order_of_inserts_at_one_position(void **state)
{
    struct edits *edits = edits_new();

    (void)state;
    assert_true(edits_replace(edits, 1, 1, "X", NULL));
    assert_true(edits_replace(edits, 1, 0, "1", NULL));
    assert_true(edits_replace(edits, 1, 0, "2", NULL));
    assert_true(edits_replace(edits, 2, 0, "3", NULL));
    assert_applied(edits, "abc", "a12X3c");
    edits_free(edits);
}

static void test_edits_refuse_overlap(void **state)
{
    static const struct {
        size_t at, cut;
        bool fits;
    } cases[] = {
        { 0, 2, true },  { 0, 3, false }, { 2, 0, true },         { 3, 0, false },
        { 2, 3, false }, { 3, 1, false }, { 4, 2, false },        { 5, 0, true },
        { 5, 1, true },  { 0, 9, false }, { 1, SIZE_MAX, false },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct edits *edits = edits_new();
        struct error err = { 0 };

        assert_true(edits_replace(edits, 2, 3, "x", &err));
        assert_int_equal(edits_fit(edits, cases[i].at, cases[i].cut), cases[i].fits);
        assert_int_equal(edits_replace(edits, cases[i].at, cases[i].cut, "y", &err),
                         cases[i].fits);
        assert_int_equal(err.code, cases[i].fits ? ERROR_NONE : ERROR_JOB);
        assert_int_equal(edits_count(edits), cases[i].fits ? 2 : 1);
        edits_free(edits);
    }
}

static void test_edits_refuse_positions_past_the_end_and_large_texts(void **state)
{
    struct edits *edits = edits_new();
    struct error err = { 0 };
    struct text out;

    (void)state;
    text_init(&out, 4);
    assert_true(edits_replace(edits, 3, 1, "dddd", NULL));
    assert_false(edits_apply(edits, "abc", 3, &out, &err));
    error_clear(&err);
    text_reset(&out);
    assert_false(edits_apply(edits, "abcd", 4, &out, &err));
    assert_int_equal(err.code, ERROR_JOB);
    text_clear(&out);
    edits_free(edits);
    edits_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edits_may_be_added_in_any_order),
        cmocka_unit_test(test_edits_keep_the_order_of_inserts_at_one_position),
        cmocka_unit_test(test_edits_refuse_overlap),
        cmocka_unit_test(test_edits_refuse_positions_past_the_end_and_large_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
