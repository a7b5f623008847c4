/* tests/unit/test_scaler.c - the loss scale over time. */
#include "config.h"

#include "tests/unit/unit.h"

#include "precision/scaler.h"

static struct scaler scaler_new(enum scaling scaling, double scale)
{
    struct precision precision = { .scaling = scaling, .loss_scale = scale };
    struct scaler scaler;

    scaler_init(&scaler, &precision);
    return scaler;
}

static void test_scaler_grows_after_2000_good_steps(void **state)
{
    struct scaler scaler = scaler_new(SCALING_DYNAMIC, SCALER_START);
    struct error err = { 0 };

    (void)state;
    for (int i = 0; i < 1999; i++)
        assert_true(scaler_update(&scaler, true, &err));
    assert_true(scaler.scale == 65536);
    assert_true(scaler_update(&scaler, true, &err));
    assert_true(scaler.scale == 131072);
    assert_int_equal(scaler.good, 0);
}

/* As in torch: an overflow halves the scale and restarts the count of good steps. */
static void test_scaler_backs_off_and_skips(void **state)
{
    struct scaler scaler = scaler_new(SCALING_DYNAMIC, SCALER_START);
    struct error err = { 0 };

    (void)state;
    for (int i = 0; i < 1500; i++)
        scaler_update(&scaler, true, &err);
    assert_false(scaler_update(&scaler, false, &err));
    assert_true(scaler.scale == 32768);
    for (int i = 0; i < 1999; i++)
        scaler_update(&scaler, true, &err);
    assert_true(scaler.scale == 32768);
    scaler_update(&scaler, true, &err);
    assert_true(scaler.scale == 65536);
    assert_int_equal(scaler.skipped, 1);
    assert_int_equal(err.code, ERROR_NONE);
}

static void test_scaler_has_a_floor_and_ends_with_a_diagnosis(void **state)
{
    struct scaler scaler = scaler_new(SCALING_DYNAMIC, SCALER_START);
    struct error err = { 0 };

    (void)state;
    for (int i = 0; i < SCALER_MAX_SKIPPED - 1; i++)
        assert_false(scaler_update(&scaler, false, &err));
    assert_true(scaler.scale == 1);
    assert_int_equal(err.code, ERROR_NONE);
    assert_false(scaler_update(&scaler, false, &err));
    assert_int_equal(err.code, ERROR_DIVERGED);
    assert_non_null(strstr(err.text, "bf16"));
}

static void test_scaler_good_step_resets_the_skipped_count(void **state)
{
    struct scaler scaler = scaler_new(SCALING_DYNAMIC, SCALER_START);
    struct error err = { 0 };

    (void)state;
    for (int i = 0; i < 200; i++)
        scaler_update(&scaler, i % 40 == 39, &err);
    assert_int_equal(err.code, ERROR_NONE);
}

static void test_scaler_static_stays_and_none_is_one(void **state)
{
    struct scaler fixed = scaler_new(SCALING_STATIC, 128);
    struct scaler none = scaler_new(SCALING_NONE, 65536);
    struct error err = { 0 };

    (void)state;
    for (int i = 0; i < 4000; i++)
        scaler_update(&fixed, i != 7, &err);
    assert_true(fixed.scale == 128);
    assert_int_equal(fixed.skipped, 1);
    assert_true(none.scale == 1);
    assert_false(scaler_update(&none, false, &err)); /* bf16 and fp32 skip too */
    assert_true(none.scale == 1);
}

/* The rule may be applied elsewhere and the message written later. */
static void test_scaler_reports_noted_steps_later(void **state)
{
    struct scaler now = scaler_new(SCALING_DYNAMIC, SCALER_START), late = now;
    struct error err = { 0 }, told = { 0 };

    (void)state;
    for (int i = 0; i < SCALER_MAX_SKIPPED + 3; i++) {
        scaler_update(&now, false, &err);
        scaler_record(&late, false);
        assert_memory_equal(&now, &late, sizeof(now));
        assert_int_equal(scaler_diagnose(&late, &told), i + 1 < SCALER_MAX_SKIPPED);
    }
    assert_string_equal(err.text, told.text);
    assert_int_equal(told.code, ERROR_DIVERGED);
    scaler_record(&late, true);
    assert_true(scaler_diagnose(&late, &told));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scaler_grows_after_2000_good_steps),
        cmocka_unit_test(test_scaler_backs_off_and_skips),
        cmocka_unit_test(test_scaler_has_a_floor_and_ends_with_a_diagnosis),
        cmocka_unit_test(test_scaler_good_step_resets_the_skipped_count),
        cmocka_unit_test(test_scaler_static_stays_and_none_is_one),
        cmocka_unit_test(test_scaler_reports_noted_steps_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
