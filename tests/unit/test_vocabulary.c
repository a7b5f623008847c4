/* tests/unit/test_vocabulary.c - strings to ids and back, through growth. */
#include "config.h"

#include "train/tokenizer/vocabulary.h"

#include "tests/unit/unit.h"

static void test_vocabulary_finds_what_was_added(void **state)
{
    struct vocabulary *vocabulary =
        vocabulary_new(20000, 4); /* fewer expected than added */
    char name[16];
    size_t len;

    (void)state;
    for (uint32_t i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "token %u", i);
        assert_true(vocabulary_add(vocabulary, name, strlen(name), 2 * i));
    }
    assert_int_equal(vocabulary_size(vocabulary), 19999);
    for (uint32_t i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "token %u", i);
        assert_int_equal(vocabulary_find(vocabulary, name, strlen(name)), 2 * i);
        assert_memory_equal(vocabulary_string(vocabulary, 2 * i, &len), name,
                            strlen(name));
        assert_int_equal(len, strlen(name));
        assert_null(vocabulary_string(vocabulary, 2 * i + 1, &len));
    }
    assert_int_equal(vocabulary_find(vocabulary, "token", 5), -1);
    assert_int_equal(vocabulary_find(vocabulary, "", 0), -1);
    assert_null(vocabulary_string(vocabulary, 50000, &len));
    vocabulary_free(vocabulary);
}

static void test_vocabulary_accepts_any_bytes(void **state)
{
    struct vocabulary *vocabulary = vocabulary_new(8, 8);
    size_t len;

    (void)state;
    assert_true(vocabulary_add(vocabulary, "", 0, 0));
    assert_true(vocabulary_add(vocabulary, "\0", 1, 1));
    assert_true(vocabulary_add(vocabulary, "\0\0", 2, 2));
    assert_true(vocabulary_add(vocabulary, "12345678", 8, 3));
    assert_true(vocabulary_add(vocabulary, "12345678\0", 9, 4));
    assert_int_equal(vocabulary_find(vocabulary, "\0", 1), 1);
    assert_int_equal(vocabulary_find(vocabulary, "\0\0", 2), 2);
    assert_int_equal(vocabulary_find(vocabulary, "", 0), 0);
    assert_int_equal(vocabulary_find(vocabulary, "12345678", 8), 3);
    assert_non_null(vocabulary_string(vocabulary, 0, &len));
    assert_int_equal(len, 0);
    vocabulary_free(vocabulary);
}

static void test_vocabulary_refuses_duplicates(void **state)
{
    struct vocabulary *vocabulary = vocabulary_new(3, 3);

    (void)state;
    assert_true(vocabulary_add(vocabulary, "a", 1, 0));
    assert_false(vocabulary_add(vocabulary, "a", 1, 1)); /* the string */
    assert_false(vocabulary_add(vocabulary, "b", 1, 0)); /* the id */
    assert_false(vocabulary_add(vocabulary, "b", 1, 3)); /* past the end */
    assert_true(vocabulary_add(vocabulary, "b", 1, 2));
    assert_int_equal(vocabulary_size(vocabulary), 3);
    vocabulary_free(vocabulary);
    vocabulary_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary_finds_what_was_added),
        cmocka_unit_test(test_vocabulary_accepts_any_bytes),
        cmocka_unit_test(test_vocabulary_refuses_duplicates),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
