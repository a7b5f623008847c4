/* tests/unit/test_schedule.c - factors worked out by hand from
 * transformers/optimization.py. */
#include "config.h"

#include "train/schedule.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

/* Ten steps of warm-up and a hundred in all, unless a row says otherwise. */
static const struct {
    struct plan plan;
    struct {
        int64_t step;
        double factor;
    } at[6];
} rows[] = {
    { { .schedule = SCHEDULE_LINEAR, .warmup_steps = 10 },
      { { 0, 0 }, { 5, 0.5 }, { 10, 1 }, { 55, 0.5 }, { 100, 0 }, { 200, 0 } } },
    { { .schedule = SCHEDULE_COSINE, .warmup_steps = 10 },
      { { 1, 0.1 }, { 10, 1 }, { 40, 0.75 }, { 55, 0.5 }, { 70, 0.25 }, { 100, 0 } } },
    { { .schedule = SCHEDULE_COSINE, .schedule_num_cycles = 1 },
      { { 0, 1 }, { 25, 0.5 }, { 50, 0 }, { 75, 0.5 }, { 100, 1 }, { 100, 1 } } },
    { { .schedule = SCHEDULE_CONSTANT, .warmup_steps = 10 },
      { { 0, 1 }, { 5, 1 }, { 10, 1 }, { 55, 1 }, { 100, 1 }, { 200, 1 } } },
    { { .schedule = SCHEDULE_CONSTANT_WITH_WARMUP, .warmup_steps = 10 },
      { { 0, 0 }, { 9, 0.9 }, { 10, 1 }, { 55, 1 }, { 100, 1 }, { 200, 1 } } },
    /* (1 - 0.1) (1/2)^2 + 0.1; the end stays past the last step */
    { { .schedule = SCHEDULE_POLYNOMIAL,
        .warmup_steps = 10,
        .learning_rate = 1e-3,
        .schedule_lr_end = 1e-4,
        .schedule_power = 2 },
      { { 0, 0 }, { 10, 1 }, { 55, 0.325 }, { 100, 0.1 }, { 101, 0.1 }, { 5, 0.5 } } },
    /* cosine x 0.8 + 0.2 */
    { { .schedule = SCHEDULE_COSINE_WITH_MIN_LR,
        .warmup_steps = 10,
        .learning_rate = 1e-3,
        .schedule_min_lr = 2e-4 },
      { { 5, 0.5 }, { 10, 1 }, { 40, 0.8 }, { 55, 0.6 }, { 70, 0.4 }, { 100, 0.2 } } },
    { { .schedule = SCHEDULE_COSINE_WITH_MIN_LR, .schedule_min_lr_rate = 0.5 },
      { { 0, 1 }, { 50, 0.75 }, { 100, 0.5 }, { 0, 1 }, { 0, 1 }, { 0, 1 } } },
    { { .schedule = SCHEDULE_WARMUP_STABLE_DECAY,
        .warmup_steps = 10,
        .schedule_decay_steps = 40 },
      { { 5, 0.5 }, { 10, 1 }, { 59, 1 }, { 60, 1 }, { 80, 0.5 }, { 100, 0 } } },
    { { .schedule = SCHEDULE_WARMUP_STABLE_DECAY,
        .warmup_steps = 10,
        .schedule_stable_steps = 20,
        .schedule_decay_steps = 20,
        .schedule_min_lr_rate = 0.1 },
      { { 5, 0.55 }, { 29, 1 }, { 40, 0.55 }, { 50, 0.1 }, { 99, 0.1 }, { 0, 0.1 } } },
};

static void test_schedule_factors(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        for (size_t j = 0; j < TS_COUNT(rows[i].at); j++) {
            double is = schedule_factor(&rows[i].plan, rows[i].at[j].step, 100);

            if (fabs(is - rows[i].at[j].factor) > 1e-12)
                fail_msg("%s, step %d: %.15g, wanted %.15g",
                         schedule_name(rows[i].plan.schedule), (int)rows[i].at[j].step,
                         is, rows[i].at[j].factor);
        }
}

static void test_schedule_warmup_by_number_and_share(void **state)
{
    static const struct {
        double steps, ratio;
        int64_t wanted;
    } cases[] = {
        { 0, 0, 0 },    { 7, 0, 7 }, { 0.05, 0, 6 },
        { 7, 0.1, 11 }, { 1, 0, 1 }, { 0, 0.999, 101 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = { .warmup_steps = cases[i].steps,
                             .warmup_ratio = cases[i].ratio };

        assert_int_equal(schedule_warmup(&plan, 101), cases[i].wanted);
    }
}

static void test_schedule_of_no_steps_is_finite(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        assert_true(isfinite(schedule_factor(&rows[i].plan, 0, 0)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_factors),
        cmocka_unit_test(test_schedule_warmup_by_number_and_share),
        cmocka_unit_test(test_schedule_of_no_steps_is_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
