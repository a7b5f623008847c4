/* tests/unit/test_nearest.c - distances of words with wrong, missing, extra and swapped
 * letters. */
#include "config.h"

#include "base/nearest.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_nearest_counts_changes(void **state)
{
    static const struct {
        const char *a, *b;
        size_t distance;
    } cases[] = {
        { "max_steps", "max_steps", 0 },
        { "max_stpes", "max_steps", 1 },
        { "max_step", "max_steps", 1 },
        { "max_stepss", "max_steps", 1 },
        { "mux_steps", "max_steps", 1 },
        { "MAX_STEPS", "max_steps", 0 },
        { "mx_stpes", "max_steps", 2 },
        { "min_stops", "max_steps", 3 },
        { "", "ab", 2 },
        { "", "abc", 3 },
        { "save_steps", "max_steps", 3 },
        { "m\xc3\xa4x_st\xc3\xabps", "max_steps", 2 },
        { "max_steps\xe2\x80\x8b", "max_steps", 1 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        assert_int_equal(nearest_distance(cases[i].a, cases[i].b, 2), cases[i].distance);
}

static void test_nearest_stops_at_long_words(void **state)
{
    char *word = memory_alloc(4097);

    (void)state;
    memset(word, 'a', 4096);
    assert_int_equal(nearest_distance(word, "max_steps", 2), 3);
    assert_int_equal(nearest_distance("max_steps", word, 2), 3);
    free(word);
}

static void test_nearest_folds_spelling(void **state)
{
    (void)state;
    assert_true(nearest_is_same_name("--learning-rate", "learning_rate"));
    assert_true(nearest_is_same_name("Num Train Epochs", "num_train_epochs"));
    assert_true(nearest_is_same_name("loraRank", "lora_rank"));
    assert_false(nearest_is_same_name("lora_ranks", "lora_rank"));
    assert_false(nearest_is_same_name("", "lora_rank"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest_counts_changes),
        cmocka_unit_test(test_nearest_stops_at_long_words),
        cmocka_unit_test(test_nearest_folds_spelling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
