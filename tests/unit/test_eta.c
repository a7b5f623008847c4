/* tests/unit/test_eta.c - seconds per step from the log of a run. */
#include "config.h"

#include "runner/job/eta.h"

#include <math.h>

#include "tests/unit/unit.h"

static bool pace_of(const char *metrics, struct duration *out)
{
    return eta_read(metrics, strlen(metrics), out);
}

static void near(double is, double wanted)
{
    if (!(fabs(is - wanted) <= 1e-9 * wanted))
        fail_msg("%g, wanted %g", is, wanted);
}

/* 10 steps of 100 tokens at 50 per second are 2 s each, then 4 s. */
static void test_pace_leaves_out_the_first_interval(void **state)
{
    struct duration pace;

    (void)state;
    assert_true(pace_of("{\"step\":10,\"tokens\":1000,\"tokens_per_second\":1}\n"
                        "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":50}\n"
                        "{\"step\":20,\"eval_loss\":2.5}\n"
                        "{\"step\":30,\"tokens\":3000,\"tokens_per_second\":25}\n",
                        &pace));
    near(pace.low, 2);
    near(pace.expected, 3);
    near(pace.high, 4);
}

static void test_pace_needs_two_logged_steps(void **state)
{
    struct duration pace;

    (void)state;
    assert_false(pace_of("", &pace));
    assert_false(
        pace_of("{\"step\":10,\"tokens\":1000,\"tokens_per_second\":1}\n", &pace));
}

/* A truncated or foreign file: bad lines are skipped, never used. */
static void test_pace_reads_broken_files(void **state)
{
    struct duration pace;

    (void)state;
    assert_true(pace_of("\n[]\nnull\nno json\n"
                        "{\"step\":\"x\",\"tokens\":[],\"tokens_per_second\":{}}\n"
                        "{\"step\":10,\"tokens\":1000,\"tokens_per_second\":50}\n"
                        "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":0}\n"
                        "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":50}\n"
                        "{\"step\":20,\"tokens\":2000,\"tokens_per_second\":50}\n"
                        "{\"step\":30,\"tokens\":3000,\"tokens_per_sec",
                        &pace));
    near(pace.expected, 2);
    /* token counts that decrease give no time */
    assert_false(pace_of("{\"step\":10,\"tokens\":1000,\"tokens_per_second\":50}\n"
                         "{\"step\":20,\"tokens\":10,\"tokens_per_second\":50}\n",
                         &pace));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pace_leaves_out_the_first_interval),
        cmocka_unit_test(test_pace_needs_two_logged_steps),
        cmocka_unit_test(test_pace_reads_broken_files),
    };

    return cmocka_run_group_tests_name("pace", tests, NULL, NULL);
}
