/* tests/unit/test_meter.c - the exact text of the progress line. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "runner/output/meter.h"

static void expect(const struct trainer_progress *progress, int64_t made, double seconds,
                   const char *expected)
{
    struct meter_reading reading = { progress, made, seconds };
    struct text out;

    text_init(&out, 0);
    meter_text(&reading, 0, &out);
    assert_string_equal(out.data, expected);
    text_clear(&out);
}

static void test_meter_line_has_the_documented_format(void **state)
{
    (void)state;
    expect(&(struct trainer_progress) { .step = 7,
                                        .total = 117,
                                        .loss = 2.27,
                                        .grad_norm = 1.55,
                                        .tokens_per_second = 8100 },
           7, 14.91,
           "  6%|▋         | 7/117 [00:15<03:54, 2.13s/it, loss=2.27, grad_norm=1.55, "
           "8.1k tok/s]");
    expect(&(struct trainer_progress) { .step = 50,
                                        .total = 50,
                                        .loss = 0.5,
                                        .grad_norm = 0.25,
                                        .tokens_per_second = 950 },
           50, 5,
           "100%|██████████| 50/50 [00:05<00:00, 10.00it/s, loss=0.5, grad_norm=0.25, "
           "950 tok/s]");
}

static void test_meter_shows_nan_and_inf(void **state)
{
    (void)state;
    expect(
        &(struct trainer_progress) {
            .step = 1, .total = 2, .loss = NAN, .grad_norm = INFINITY },
        1, 1, " 50%|█████     | 1/2 [00:01<00:01, 1.00it/s, loss=nan, grad_norm=inf]");
}

static void test_meter_of_an_evaluation_has_no_gradients(void **state)
{
    (void)state;
    expect(
        &(struct trainer_progress) {
            .evaluates = true, .step = 1, .total = 2, .loss = 3.5, .grad_norm = NAN },
        1, 1, " 50%|█████     | 1/2 [00:01<00:01, 1.00it/s, loss=3.5]");
    expect(
        &(struct trainer_progress) {
            .evaluates = true, .step = 2, .total = 2, .loss = NAN, .grad_norm = NAN },
        2, 2, "100%|██████████| 2/2 [00:02<00:00, 1.00it/s]");
}

static void test_meter_counts_speed_from_where_it_resumed(void **state)
{
    struct trainer_progress progress = { .step = 101, .total = 111 };
    struct meter_reading reading = { &progress, 1, 3 };

    (void)state;
    assert_true(meter_seconds_left(&reading) == 30);
    reading.made = 0;
    assert_true(isnan(meter_seconds_left(&reading)));
}

static void test_meter_is_cut_between_characters(void **state)
{
    struct trainer_progress progress = { .step = 1, .total = 1 };
    struct meter_reading reading = { &progress, 1, 1 };
    struct text out;

    (void)state;
    text_init(&out, 0);
    meter_text(&reading, 7, &out);
    assert_string_equal(out.data, "100%|██");
    text_clear(&out);
}

static void test_meter_clock_has_hours_only_when_needed(void **state)
{
    static const struct {
        double seconds;
        const char *shown;
    } times[] = { { 0, "00:00" }, { 234, "03:54" }, { 3723, "1:02:03" },
                  { NAN, "?" },   { -1, "?" },      { 1e12, "?" } };

    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
        struct text out;

        text_init(&out, 0);
        meter_clock(times[i].seconds, &out);
        assert_string_equal(out.data, times[i].shown);
        text_clear(&out);
    }
}

static void test_meter_writes_only_logged_lines_without_a_terminal(void **state)
{
    struct trainer_progress progress = { .step = 1, .total = 2 };
    struct meter meter;
    char *data = NULL;
    size_t len;
    FILE *file = open_memstream(&data, &len);

    (void)state;
    meter_open(&meter, file, false);
    meter_step(&meter, &progress);
    meter_log(&meter, "{'loss': 2.27}\033[2J");
    meter_close(&meter);
    fclose(file);
    assert_string_equal(data, "{'loss': 2.27}\\x1b[2J\n");
    free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_meter_line_has_the_documented_format),
        cmocka_unit_test(test_meter_shows_nan_and_inf),
        cmocka_unit_test(test_meter_of_an_evaluation_has_no_gradients),
        cmocka_unit_test(test_meter_counts_speed_from_where_it_resumed),
        cmocka_unit_test(test_meter_is_cut_between_characters),
        cmocka_unit_test(test_meter_clock_has_hours_only_when_needed),
        cmocka_unit_test(test_meter_writes_only_logged_lines_without_a_terminal),
    };

    return cmocka_run_group_tests_name("meter", tests, NULL, NULL);
}
