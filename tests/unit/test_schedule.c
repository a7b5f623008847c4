/* tests/unit/test_schedule.c - factors computed by hand and by
 * transformers/optimization.py. */
#include "config.h"

#include "train/schedule.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"
#include "train/model/optimizer_table.h"
#include "train/plateau.h"

/* Ten steps of warm-up and a hundred in total, unless a row has other values. */
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
    /* (1 - 0.1) (1/2)^2 + 0.1; constant after the last step */
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
    /* restarts at 10, 40 and 70; the end is 0 */
    { { .schedule = SCHEDULE_COSINE_WITH_RESTARTS,
        .warmup_steps = 10,
        .schedule_num_cycles = 3 },
      { { 5, 0.5 }, { 10, 1 }, { 25, 0.5 }, { 40, 1 }, { 60, 0.25 }, { 100, 0 } } },
    { { .schedule = SCHEDULE_COSINE_WITH_RESTARTS },
      { { 0, 1 }, { 50, 0.5 }, { 100, 0 }, { 200, 0 }, { 0, 1 }, { 0, 1 } } },
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
    { { .schedule = SCHEDULE_INVERSE_SQRT, .warmup_steps = 10 },
      { { 0, 0 }, { 5, 0.5 }, { 10, 1 }, { 40, 0.5 }, { 90, 1.0 / 3 }, { 160, 0.25 } } },
    { { .schedule = SCHEDULE_INVERSE_SQRT }, /* of 10000 */
      { { 0, 1 }, { 30000, 0.5 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } } },
};

static void test_schedule_factors(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        for (size_t j = 0; j < TS_COUNT(rows[i].at); j++) {
            double is = schedule_factor(&rows[i].plan, rows[i].at[j].step, 100);

            if (fabs(is - rows[i].at[j].factor) > 1e-12)
                fail_msg("%s, step %d: %.15g, expected %.15g",
                         schedule_name(rows[i].plan.schedule), (int)rows[i].at[j].step,
                         is, rows[i].at[j].factor);
        }
}

static enum schedule_kind kind_of(const char *name)
{
    int kind = SCHEDULE_LINEAR;

    while (strcmp(schedule_name((enum schedule_kind)kind), name) != 0)
        kind++;
    return (enum schedule_kind)kind;
}

static double argument(const json_t *one, const char *name)
{
    return json_number_value(json_object_get(json_object_get(one, "arguments"), name));
}

/* Return the index of an argument's value in a list that ends with NULL; 0 without the
 * argument. */
static int word(const json_t *one, const char *name, const char *const *words)
{
    const json_t *given = json_object_get(json_object_get(one, "arguments"), name);
    int at = 0;

    while (given && strcmp(words[at], json_string_value(given)) != 0)
        at++;
    return at;
}

static double warmup_lr_rate(const json_t *one)
{
    const json_t *given =
        json_object_get(json_object_get(one, "arguments"), "warmup_lr_rate");

    return given ? json_number_value(given) : -1;
}

static void check_case(const json_t *golden, const json_t *one)
{
    static const char *const decays[] = { "cosine", "linear", "1-sqrt", NULL };
    static const char *const warmups[] = { "linear", "cosine", "1-sqrt", NULL };
    const char *name = json_string_value(json_object_get(one, "name"));
    const json_t *factors = json_object_get(one, "factors");
    int64_t total = json_integer_value(json_object_get(golden, "steps"));
    struct plan plan = {
        .schedule = kind_of(name),
        .warmup_steps = json_number_value(json_object_get(golden, "warmup")),
        .learning_rate = json_number_value(json_object_get(golden, "rate")),
        .schedule_power = argument(one, "power"),
        .schedule_lr_end = argument(one, "lr_end"),
        .schedule_num_cycles = argument(one, "num_cycles"),
        .schedule_min_lr = argument(one, "min_lr"),
        .schedule_min_lr_rate =
            argument(one, "min_lr_rate") + argument(one, "min_lr_ratio"),
        .schedule_decay_steps = (int64_t)argument(one, "num_decay_steps"),
        .schedule_stable_steps = (int64_t)argument(one, "num_stable_steps"),
        .schedule_decay = (enum schedule_decay)word(one, "decay_type", decays),
        .schedule_warmup = (enum schedule_warmup)word(one, "warmup_type", warmups),
        .schedule_timescale = (int64_t)argument(one, "timescale"),
        .schedule_warmup_lr_rate = warmup_lr_rate(one),
    };

    for (size_t i = 0; i < json_array_size(factors); i++) {
        double is = schedule_factor(&plan, (int64_t)i, total);
        double expected = json_number_value(json_array_get(factors, i));

        if (fabs(is - expected) > 1e-11)
            fail_msg("%s, step %zu: %.15g, transformers has %.15g", name, i, is,
                     expected);
    }
}

static void test_schedule_matches_transformers(void **state)
{
    char *name = unit_source("tests/golden/schedule.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, 1 << 20, &err);
    const json_t *cases = json_object_get(golden, "cases");

    (void)state;
    if (!golden)
        fail_msg("%s", err.text);
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(golden, json_array_get(cases, i));
    json_decref(golden);
    free(name);
}

static double argument_or(const json_t *one, const char *name, double other)
{
    return json_object_get(json_object_get(one, "arguments"), name) ? argument(one, name)
                                                                    : other;
}

/* A golden rate is a double that torch computed in the same order, so all bits agree. */
static void check_plateau(const json_t *one, size_t not_a_number)
{
    static const char *const modes[] = { "min", "max", NULL };
    static const char *const thresholds[] = { "rel", "abs", NULL };
    const json_t *metrics = json_object_get(one, "metrics");
    const json_t *rates = json_object_get(one, "rates");
    const struct plan plan = {
        .learning_rate = 1e-3,
        .schedule_min_lr = argument(one, "min_lr"),
        .plateau = { .mode = (enum plateau_mode)word(one, "mode", modes),
                     .threshold_mode =
                         (enum threshold_mode)word(one, "threshold_mode", thresholds),
                     .factor = argument_or(one, "factor", 0.1),
                     .threshold = argument_or(one, "threshold", 1e-4),
                     .eps = argument_or(one, "eps", 1e-8),
                     .patience = (int64_t)argument_or(one, "patience", 10),
                     .cooldown = (int64_t)argument(one, "cooldown") },
    };
    struct plateau plateau;

    plateau_init(&plateau, &plan);
    assert_int_equal(json_array_size(metrics), json_array_size(rates));
    for (size_t i = 0; i < json_array_size(metrics); i++) {
        double metric = json_number_value(json_array_get(metrics, i));
        double rate = json_number_value(json_array_get(rates, i));

        plateau_add(&plateau, &plan, i == not_a_number ? NAN : metric);
        if (plateau.rate < rate || plateau.rate > rate)
            fail_msg("evaluation %zu: %.17g, torch has %.17g", i, plateau.rate, rate);
    }
}

static void test_schedule_plateau_matches_torch(void **state)
{
    char *name = unit_source("tests/golden/schedule.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, 1 << 20, &err);
    const json_t *cases = json_object_get(golden, "plateau");
    const json_t *not_a_number = json_object_get(golden, "not_a_number");

    (void)state;
    if (!golden)
        fail_msg("%s", err.text);
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_plateau(json_array_get(cases, i), (size_t)json_integer_value(not_a_number));
    json_decref(golden);
    free(name);
}

static void test_schedule_warmup_by_number_and_share(void **state)
{
    static const struct {
        double steps, ratio;
        int64_t expected;
    } cases[] = {
        { 0, 0, 0 },    { 7, 0, 7 }, { 0.05, 0, 6 },
        { 7, 0.1, 11 }, { 1, 0, 1 }, { 0, 0.999, 101 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = { .warmup_steps = cases[i].steps,
                             .warmup_ratio = cases[i].ratio };

        assert_int_equal(schedule_warmup(&plan, 101), cases[i].expected);
    }
}

static void test_schedule_without_steps_is_finite(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        assert_true(isfinite(schedule_factor(&rows[i].plan, 0, 0)));
}

/* The steps of tests/golden/optimizers.py have other rates, but the same warm-up. */
static void test_schedule_averages_as_schedulefree_does(void **state)
{
    static const double shares[] = { 1, 4.0 / 5, 9.0 / 14, 9.0 / 23 };
    struct plan plan = { .schedule = SCHEDULE_CONSTANT,
                         .learning_rate = 1e-3,
                         .warmup_steps = 3,
                         .optimizer = optimizer_find("schedule_free_adamw") };
    struct schedule_average average = { 0 };

    (void)state;
    assert_true(fabs(schedule_factor(&plan, 0, 9) - 1.0 / 3) < 1e-12);
    assert_true(fabs(schedule_factor(&plan, 2, 9) - 1) < 1e-12);
    for (int again = 0; again < 2;
         again++) /* after a skipped step, from an earlier one */
        for (int64_t i = 0; i < (int64_t)TS_COUNT(shares); i++)
            assert_true(fabs(schedule_average_share(&average, &plan, i, 9) - shares[i]) <
                        1e-12);
    assert_true(fabs(schedule_average_share(&average, &plan, 3, 9) - shares[3]) < 1e-12);
    /* a schedule that starts with 0, and one that decreases */
    plan.schedule = SCHEDULE_LINEAR;
    average = (struct schedule_average) { 0 };
    assert_true(schedule_average_share(&average, &plan, 0, 9) == 0);
    assert_true(schedule_average_share(&average, &plan, 1, 9) == 1);
    plan.warmup_steps = 0;
    average = (struct schedule_average) { 0 };
    assert_true(fabs(schedule_average_share(&average, &plan, 4, 9) - 0.2) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_factors),
        cmocka_unit_test(test_schedule_matches_transformers),
        cmocka_unit_test(test_schedule_plateau_matches_torch),
        cmocka_unit_test(test_schedule_warmup_by_number_and_share),
        cmocka_unit_test(test_schedule_averages_as_schedulefree_does),
        cmocka_unit_test(test_schedule_without_steps_is_finite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
