/* tests/unit/test_rope.c - compares frequencies with values computed by hand. */
#include "config.h"

#include "train/model/shapes.h"

#include <math.h>

#include "tests/unit/unit.h"

static void near(double is, double expected)
{
    if (!(fabs(is - expected) <= 1e-12 * fabs(expected)))
        fail_msg("%.17g, expected %.17g", is, expected);
}

static void test_rope_frequencies(void **state)
{
    const struct rope plain = { .theta = 10000 };
    const struct rope linear = { .kind = ROPE_LINEAR, .theta = 10000, .factor = 4 };

    (void)state;
    near(rope_frequency(&plain, 8, 0), 1);
    near(rope_frequency(&plain, 8, 1), 0.1);
    near(rope_frequency(&plain, 8, 3), 0.001);
    near(rope_frequency(&linear, 8, 1), 0.025);
}

/* Original context of 1000 positions: f fits 1000 f / 2 pi times into it.  Fewer than 1
 * time: divided; more than 4 times: unchanged; 2 times: a third of the way, 2/3 f / 8 +
 * 1/3 f. */
static void test_rope_llama3_bands(void **state)
{
    struct rope rope = { .kind = ROPE_LLAMA3,
                         .factor = 8,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_positions = 1000 };
    double two_times = 2 * 2 * M_PI / 1000;

    (void)state;
    rope.theta = 1 / (two_times * two_times); /* its square root, at 1 of head size 4 */
    near(rope_frequency(&rope, 4, 0), 1);
    near(rope_frequency(&rope, 4, 1), two_times * (2.0 / 3 / 8 + 1.0 / 3));
    rope.theta = 1e10;
    near(rope_frequency(&rope, 4, 1), 1e-5 / 8);
}

static void test_rope_table_rows(void **state)
{
    const struct rope rope = { .theta = 100 };
    float table[3 * 4];

    (void)state;
    rope_fill(&rope, 4, table, 3);
    near(table[0], 1);
    near(table[2], 0);
    assert_float_equal(table[8], cos(2), 1e-7);
    assert_float_equal(table[9], cos(0.2), 1e-7);
    assert_float_equal(table[10], sin(2), 1e-7);
    assert_float_equal(table[11], sin(0.2), 1e-7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_frequencies),
        cmocka_unit_test(test_rope_llama3_bands),
        cmocka_unit_test(test_rope_table_rows),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
