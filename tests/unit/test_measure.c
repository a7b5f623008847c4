/* tests/unit/test_measure.c - every rate of a device is measured, and is positive and
 * finite. */
#include "config.h"

#include "kernels/measure.h"

#include <math.h>

#include "tests/unit/unit.h"

static void test_measure_fills_all_rates(void **state)
{
    static const enum format formats[] = { FORMAT_FP32 };
    static const struct device cpu = { .kind = DEVICE_CPU, .ordinal = -1 };
    struct backend_options with = { .device = &cpu, .threads = 1 };
    struct calibration c = { .device = "cpu", .build = "a test", .date = "2026-11-20" };
    struct error err = { 0 };
    struct backend *be = backend_open(&with, &err);
    json_t *object;

    (void)state;
    assert_non_null(be);
    assert_true(measure_backend(be, formats, 1, &c, &err));
    backend_close(be);
    for (int i = 0; i < CALIBRATION_WIDTHS; i++)
        assert_true(isfinite(c.products[FORMAT_FP32][i]) &&
                    c.products[FORMAT_FP32][i] > 0);
    assert_true(c.products[FORMAT_BF16][0] == 0);
    object = calibration_object(&c); /* as it is stored */
    assert_true(calibration_read(object, "here", &c, &err));
    json_decref(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measure_fills_all_rates),
    };

    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
