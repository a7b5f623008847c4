/* tests/unit/test_steps.c - the progress line that passes step counts between the two
 * programs. */
#include "config.h"

#include "tests/unit/unit.h"

#include "runner/job/steps.h"

static void test_steps_round_trip(void **state)
{
    struct steps was = { 117, 351, 1234567, 936, 2048, 8, 12345678, 999,
                         77,  500, 16,      3,   4,    5, 6,        2 },
                 is = { 0 };
    struct text line;

    (void)state;
    text_init(&line, 0);
    steps_write(&was, &line);
    assert_true(steps_read(line.data, &is));
    assert_memory_equal(&was, &is, sizeof(was));
    text_clear(&line);
}

static void test_steps_refuse_other_lines(void **state)
{
    struct steps steps;

    (void)state;
    assert_false(steps_read("", &steps));
    assert_false(steps_read("steps\t1\t2\t3\t4\t5\t6\t7\t8\n", &steps));
    assert_false(steps_read("step\t1\t2\t3\t4\t5\t6\t7\t8\n", &steps));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_round_trip),
        cmocka_unit_test(test_steps_refuse_other_lines),
    };

    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
