/* tests/unit/test_chart.c - axes with readable ticks, and curves that lose no spike. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "base/random.h"
#include "runner/page/chart.h"

static void check_scale(enum chart_kind kind, double low, double high, const char *labels)
{
    struct chart_scale scale;
    struct text all;

    text_init(&all, 0);
    chart_scale(&scale, kind, low, high);
    for (size_t i = 0; i < scale.tick_count; i++)
        text_addf(&all, "%s%s", i > 0 ? " " : "", scale.labels[i]);
    assert_string_equal(all.data, labels);
    assert_true(scale.low <= low && scale.high >= high && scale.low < scale.high);
    text_clear(&all);
}

static void test_chart_axes_have_round_ticks(void **state)
{
    (void)state;
    check_scale(CHART_LINEAR, 0.49, 4.2, "0 1 2 3 4 5");
    check_scale(CHART_LINEAR, 0.91, 0.97, "0.90 0.92 0.94 0.96 0.98");
    check_scale(CHART_LINEAR, 0, 2e-5, "0 5.0e-6 1.0e-5 1.5e-5 2.0e-5");
    check_scale(CHART_LINEAR, 0, 42000, "0 10k 20k 30k 40k 50k");
    check_scale(CHART_LINEAR, 3, 3, "1 2 3 4 5");
    check_scale(CHART_LINEAR, 0, 0, "-1.0 -0.5 0.0 0.5 1.0");
    check_scale(CHART_LINEAR, -2, 3, "-2 -1 0 1 2 3");
    check_scale(CHART_STEPS, 0, 300, "0 50 100 150 200 250 300");
    check_scale(CHART_STEPS, 0, 1, "0 1");
    check_scale(CHART_STEPS, 0, 100000, "0 20k 40k 60k 80k 100k");
    check_scale(CHART_AUTO, 0.4, 800, "1 10 100");
    check_scale(CHART_AUTO, 0.1, 12, "0.1 0.2 0.5 1 2 5 10");
    check_scale(CHART_AUTO, 1e-8, 1e4, "1e-8 1e-6 1e-4 0.01 1 100 10000");
    check_scale(CHART_AUTO, 2, 90, "0 20 40 60 80 100");
    check_scale(CHART_POWERS, 65536, 65536, "131072 65536 32768");
    check_scale(CHART_POWERS, 1, 65536, "65536 4096 256 16 1");
}

/* For any values: few ticks, all on the axis, and positions between 0 and 1. */
static void test_chart_axes_of_any_values(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        double low =
            pow(10, 600 * random_uniform(7, RANDOM_INIT, 0, i) - 300) * (i % 2 ? -1 : 1);
        double high =
            low + fabs(low) * pow(10, 20 * random_uniform(7, RANDOM_INIT, 1, i) - 15);
        struct chart_scale scale;

        chart_scale(&scale, (enum chart_kind)(i / 2 % 4), low, high);
        assert_true(scale.tick_count <= CHART_TICKS);
        assert_true(scale.low < scale.high);
        for (size_t t = 0; t < scale.tick_count; t++)
            assert_true(isfinite(scale.ticks[t]) && strlen(scale.labels[t]) > 0);
        for (double value = low; value <= high; value = value < high ? high : INFINITY) {
            double place = chart_position(&scale, value);

            assert_true(place >= 0 && place <= 1);
        }
    }
}

enum { MANY = 100000 };

static void test_chart_thinned_keeps_every_spike(void **state)
{
    double *x = memory_alloc(2 * MANY * sizeof(*x)), *y = x + MANY;
    struct chart_series series = { .x = x, .y = y, .count = MANY };
    size_t count, *kept, seen[4] = { 0 };

    (void)state;
    for (int i = 0; i < MANY; i++) {
        x[i] = i + 1;
        y[i] = 1 + 1e-6 * i;
    }
    y[777] = 50;
    y[5000] = -3;
    y[31337] = NAN;
    y[99999] = INFINITY;
    kept = chart_downsample(&series, 0, MANY, &count);
    assert_true(count <= 3 * CHART_COLUMNS);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            assert_true(kept[i] > kept[i - 1]);
        seen[0] += kept[i] == 777;
        seen[1] += kept[i] == 5000;
        seen[2] += kept[i] == 31337;
        seen[3] += kept[i] == 99999;
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(seen[i], 1);
    free(kept);
    free(x);
}

static char *draw(const double *x, const double *y, size_t count)
{
    struct chart_series series = { "training", "train", x, y, count, false };
    struct chart chart = { .id = "loss",
                           .title = "Loss",
                           .unit = "",
                           .kind = CHART_AUTO,
                           .series = &series,
                           .series_count = 1,
                           .x_high = 10,
                           .mean = true };
    struct text out;

    text_init(&out, 0);
    assert_true(chart_add(&chart, &out));
    return text_detach(&out, NULL);
}

static void test_chart_describes_itself(void **state)
{
    static const double x[] = { 1, 2, 3, 10 }, y[] = { 4, 1, NAN, 2.5 };
    char *drawn = draw(x, y, 4);

    (void)state;
    assert_non_null(strstr(
        drawn, "<desc id=\"loss-d\">training: 4 at step 1, 2.5 at step 10, lowest 1 "
               "at step 2, highest 4 at step 1, not finite at 1 of 4 points. </desc>"));
    assert_non_null(strstr(drawn, "role=\"img\" aria-labeledby=\"loss-t loss-d\""));
    assert_non_null(strstr(drawn, "not finite</span>"));
    /* the line is broken at the NaN, which has a mark at its position */
    assert_non_null(strstr(drawn, "M300.00 0.00h0"));
    assert_null(strstr(drawn, "nan"));
    free(drawn);
}

static void test_chart_without_points_is_empty(void **state)
{
    static const double x[] = { 1 }, y[] = { NAN };
    char *drawn = draw(x, y, 0);

    (void)state;
    assert_string_equal(drawn, "");
    free(drawn);
    drawn = draw(x, y, 1);
    assert_non_null(strstr(drawn, "<svg"));
    assert_null(strstr(drawn, "nan"));
    free(drawn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chart_axes_have_round_ticks),
        cmocka_unit_test(test_chart_axes_of_any_values),
        cmocka_unit_test(test_chart_thinned_keeps_every_spike),
        cmocka_unit_test(test_chart_describes_itself),
        cmocka_unit_test(test_chart_without_points_is_empty),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
