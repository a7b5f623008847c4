/* tests/unit/test_teacher_plan.c - tests the tokens that a student and its teacher
 * share. */
#include "config.h"

#include "train/teacher/teacher_plan.h"

#include "tests/unit/unit.h"

static void test_teacher_plan_tokens_are_those_of_both(void **state)
{
    struct model_config a = { .vocab_size = 151936 }, b = { .vocab_size = 152064 };
    struct error err = { 0 };
    size_t shared;

    (void)state;
    assert_true(teacher_plan_shared_tokens(&b, &a, 151665, &shared, &err));
    assert_int_equal(shared, 151936);
    assert_true(teacher_plan_shared_tokens(&a, &b, 151665, &shared, &err));
    assert_int_equal(shared, 151936);
    b.vocab_size = 32000;
    assert_false(teacher_plan_shared_tokens(&b, &a, 151665, &shared, &err));
    assert_int_equal(err.code, ERROR_DATA);
    assert_non_null(strstr(err.text, "32000"));
    assert_non_null(strstr(err.text, "151936"));
    assert_non_null(strstr(err.text, "151665"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_teacher_plan_tokens_are_those_of_both),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
