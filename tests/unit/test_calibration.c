/* tests/unit/test_calibration.c - rates survive a round trip, and invalid texts are
 * refused. */
#include "config.h"

#include "precision/calibration.h"

#include <math.h>

#include "tests/unit/unit.h"

static struct calibration make_calibration(void)
{
    struct calibration c = { .device = "a device",
                             .build = "1.0, of a test",
                             .date = "2026-11-20",
                             .threads = 2,
                             .bytes_per_second = 1e10,
                             .seconds_per_operation = 1e-6 };

    for (int i = 0; i < CALIBRATION_WIDTHS; i++) {
        c.products[FORMAT_FP32][i] = 1e9 * (i + 1);
        c.products[FORMAT_BF16][i] = 4e9 * (i + 1);
    }
    return c;
}

static bool read_back(json_t *object, struct calibration *out)
{
    struct error err = { 0 };
    bool ok = calibration_read(object, "here", out, &err);

    if (!ok) {
        assert_int_equal(err.code, ERROR_DATA);
        assert_non_null(strstr(err.text, "--calibrate"));
    }
    json_decref(object);
    return ok;
}

static void test_calibration_survives_a_round_trip(void **state)
{
    struct calibration was = make_calibration(), is;

    (void)state;
    assert_true(read_back(calibration_object(&was), &is));
    assert_memory_equal(was.products, is.products, sizeof(was.products));
    assert_string_equal(was.device, is.device);
    assert_string_equal(was.build, is.build);
    assert_string_equal(was.date, is.date);
    assert_int_equal(was.threads, is.threads);
    assert_true(was.bytes_per_second == is.bytes_per_second);
    assert_true(was.seconds_per_operation == is.seconds_per_operation);
}

static void test_calibration_refuses_invalid_texts(void **state)
{
    static const char *const keys[] = { "device",
                                        "build",
                                        "date",
                                        "operations_per_second",
                                        "bytes_per_second",
                                        "seconds_per_operation" };
    struct calibration was = make_calibration(), is;
    json_t *object;

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        object = calibration_object(&was);
        json_object_del(object, keys[i]);
        assert_false(read_back(object, &is));
        object = calibration_object(&was);
        json_object_set_new(object, keys[i], json_real(-1));
        assert_false(read_back(object, &is));
    }
    object = calibration_object(&was);
    json_array_remove(
        json_object_get(json_object_get(object, "operations_per_second"), "fp32"), 0);
    assert_false(read_back(object, &is));
    assert_false(read_back(json_array(), &is));
    assert_false(read_back(json_null(), &is));
}

static void assert_rate(double is, double expected)
{
    if (!(fabs(is - expected) <= 1e-9 * expected))
        fail_msg("%g, expected %g", is, expected);
}

static void test_calibration_interpolates_between_measurements(void **state)
{
    struct calibration c = make_calibration();

    (void)state;
    assert_rate(calibration_rate(&c, FORMAT_FP32, 64), 1e9);
    assert_rate(calibration_rate(&c, FORMAT_FP32, 128), 2e9);
    assert_rate(calibration_rate(&c, FORMAT_FP32, 2048), 6e9);
    assert_rate(calibration_rate(&c, FORMAT_FP32, 1e6), 6e9);
    assert_rate(calibration_rate(&c, FORMAT_FP32, 32), 0.5e9);
    assert_rate(calibration_rate(&c, FORMAT_FP32, sqrt(64 * 128)), sqrt(2) * 1e9);
    assert_rate(calibration_rate(&c, FORMAT_BF16, 64), 4e9);
    assert_rate(calibration_rate(&c, FORMAT_FP16, 64), 1e9); /* not measured */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calibration_survives_a_round_trip),
        cmocka_unit_test(test_calibration_refuses_invalid_texts),
        cmocka_unit_test(test_calibration_interpolates_between_measurements),
    };

    return cmocka_run_group_tests_name("calibration", tests, NULL, NULL);
}
