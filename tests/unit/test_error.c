/* tests/unit/test_error.c - the first error is kept, with its position. */
#include "config.h"

#include "base/error.h"

#include "tests/unit/unit.h"

static void test_error_first_one_wins(void **state)
{
    struct error err = { 0 };

    (void)state;
    assert_false(error_set(&err, ERROR_JOB, "no key %s", "fp16"));
    assert_false(error_set(&err, ERROR_SYSTEM, "something later"));
    assert_false(error_at(&err, ERROR_DATA, "x", (struct mark) { 1, 2, 3 }, "later"));
    errno = ENOENT;
    assert_false(error_errno(&err, "later"));
    assert_int_equal(err.code, ERROR_JOB);
    assert_string_equal(err.text, "no key fp16");
    assert_int_equal(err.at.line, 0);
    assert_string_equal(err.file, "");
}

static void test_error_accepts_null(void **state)
{
    (void)state;
    assert_false(error_set(NULL, ERROR_JOB, "dropped"));
    assert_false(error_at(NULL, ERROR_JOB, "f", (struct mark) { 0 }, "dropped"));
    assert_false(error_errno(NULL, "dropped"));
    error_clear(NULL);
}

static void test_error_at_keeps_the_position(void **state)
{
    struct error err = { 0 };

    (void)state;
    error_at(&err, ERROR_JOB, "qwen.yaml", (struct mark) { 309, 14, 13 }, "not %g", 0.5);
    assert_string_equal(err.file, "qwen.yaml");
    assert_string_equal(err.text, "not 0.5");
    assert_int_equal(err.at.byte, 309);
    assert_int_equal(err.at.line, 14);
    assert_int_equal(err.at.column, 13);
}

static void test_error_errno_uses_errno_of_the_call(void **state)
{
    struct error err = { 0 };

    (void)state;
    errno = ENOENT;
    error_errno(&err, "cannot open %s", "a.yaml");
    assert_int_equal(err.code, ERROR_SYSTEM);
    assert_string_equal(err.text, "cannot open a.yaml: No such file or directory");
    assert_int_equal(errno, ENOENT);
}

static void test_error_can_be_reused_after_clear(void **state)
{
    struct error err = { 0 };

    (void)state;
    error_at(&err, ERROR_JOB, "f", (struct mark) { 1, 1, 1 }, "first");
    error_clear(&err);
    assert_int_equal(err.code, ERROR_NONE);
    error_set(&err, ERROR_DATA, "second");
    assert_string_equal(err.text, "second");
    assert_string_equal(err.file, "");
}

static void test_error_truncates_between_characters(void **state)
{
    struct error err = { 0 };
    char longest[1200];
    size_t bad;

    (void)state;
    /* two-byte characters, starting at an even and at an odd byte */
    for (int shift = 0; shift < 2; shift++) {
        memset(longest, 'x', sizeof(longest));
        for (size_t i = (size_t)shift; i + 2 < sizeof(longest); i += 2)
            memcpy(longest + i, "\xc3\xa4", 2);
        longest[sizeof(longest) - 1] = 0;
        error_clear(&err);
        error_at(&err, ERROR_JOB, longest, (struct mark) { 0 }, "%s", longest);
        assert_true(strlen(err.text) < sizeof(err.text));
        assert_true(text_ends(err.text, "..."));
        assert_true(text_is_utf8(err.text, strlen(err.text), &bad));
        assert_true(text_is_utf8(err.file, strlen(err.file), &bad));
        error_clear(&err);
        errno = EIO;
        error_errno(&err, "%s", longest);
        assert_true(text_is_utf8(err.text, strlen(err.text), &bad));
    }
}

static void test_error_knows_lack_of_memory(void **state)
{
    struct error err = { 0 };

    (void)state;
    error_set(&err, ERROR_MEMORY, "the card is full");
    assert_true(error_is_memory(&err));
    error_clear(&err);
    errno = ENOMEM;
    error_errno(&err, "cannot map the model");
    assert_true(error_is_memory(&err));
    error_clear(&err);
    errno = EIO;
    error_errno(&err, "cannot map the model");
    assert_false(error_is_memory(&err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_error_first_one_wins),
        cmocka_unit_test(test_error_accepts_null),
        cmocka_unit_test(test_error_at_keeps_the_position),
        cmocka_unit_test(test_error_errno_uses_errno_of_the_call),
        cmocka_unit_test(test_error_can_be_reused_after_clear),
        cmocka_unit_test(test_error_truncates_between_characters),
        cmocka_unit_test(test_error_knows_lack_of_memory),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
