/* tests/unit/test_eta.c - seconds per step from the log of a run. */
#include "config.h"

#include "runner/job/eta.h"

#include <math.h>

#include "tests/unit/unit.h"

static bool eta_of(const char *metrics, struct duration *out)
{
    return eta_read(metrics, strlen(metrics), out);
}

static void near(double is, double expected)
{
    if (!(fabs(is - expected) <= 1e-9 * expected))
        fail_msg("%g, expected %g", is, expected);
}

/* 10 steps of 100 tokens at 50 per second are 2 s each, then 4 s. */
static void test_eta_omits_the_first_interval(void **state)
{
    struct duration step;

    (void)state;
    assert_true(eta_of("{\"step\":10,\"tokens\":1000,\"tokens_per_second\":1}\n"
                       "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":50}\n"
                       "{\"step\":20,\"eval_loss\":2.5}\n"
                       "{\"step\":30,\"tokens\":3000,\"tokens_per_second\":25}\n",
                       &step));
    near(step.low, 2);
    near(step.expected, 3);
    near(step.high, 4);
}

static void test_eta_requires_two_logged_steps(void **state)
{
    struct duration step;

    (void)state;
    assert_false(eta_of("", &step));
    assert_false(
        eta_of("{\"step\":10,\"tokens\":1000,\"tokens_per_second\":1}\n", &step));
}

/* Malformed lines of a truncated file or one of another program are skipped. */
static void test_eta_skips_malformed_lines(void **state)
{
    struct duration step;

    (void)state;
    assert_true(eta_of("\n[]\nnull\nno json\n"
                       "{\"step\":\"x\",\"tokens\":[],\"tokens_per_second\":{}}\n"
                       "{\"step\":10,\"tokens\":1000,\"tokens_per_second\":50}\n"
                       "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":0}\n"
                       "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":50}\n"
                       "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":50}\n"
                       "{\"step\":30,\"tokens\":3000,\"tokens_per_sec",
                       &step));
    near(step.expected, 2);
    /* token counts that decrease give no time */
    assert_false(eta_of("{\"step\":10,\"tokens\":1000,\"tokens_per_second\":50}\n"
                        "{\"step\":20,\"tokens\":10,\"tokens_per_second\":50}\n",
                        &step));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eta_omits_the_first_interval),
        cmocka_unit_test(test_eta_requires_two_logged_steps),
        cmocka_unit_test(test_eta_skips_malformed_lines),
    };

    return cmocka_run_group_tests_name("eta", tests, NULL, NULL);
}
