/* tests/unit/test_fourier.c - power spectra are those of the definition, for every length
 * up to a bound. */
#include "config.h"

#include "train/media/fourier.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_sound.h"

static double power_of(const float *x, size_t length, size_t k)
{
    double re = 0, im = 0;

    for (size_t j = 0; j < length; j++) {
        double angle = 2 * M_PI * (double)(j * k % length) / (double)length;

        re += x[j] * cos(angle);
        im -= x[j] * sin(angle);
    }
    return re * re + im * im;
}

static void check_length(size_t length)
{
    struct fourier *fourier = fourier_new(length);
    float *sound = unit_noise(length * FOURIER_LANES, 1);
    fourier_lanes *x = memory_resize(NULL, length, sizeof(*x));
    fourier_lanes *power = memory_resize(NULL, length / 2 + 1, sizeof(*power));
    fourier_lanes *scratch =
        memory_resize(NULL, fourier_scratch(fourier), sizeof(*scratch));

    for (size_t i = 0; i < length * FOURIER_LANES; i++)
        x[i % length][i / length] = (double)sound[i];
    fourier_power(fourier, x, power, scratch);
    for (size_t lane = 0; lane < FOURIER_LANES; lane++)
        for (size_t k = 0; k <= length / 2; k++) {
            double expected = power_of(sound + lane * length, length, k);

            if (!(fabs(power[k][lane] - expected) <= 1e-11 * (double)length))
                fail_msg("length %zu, lane %zu: power %zu is %.17g, not %.17g", length,
                         lane, k, power[k][lane], expected);
        }
    free(x);
    free(power);
    free(scratch);
    free(sound);
    fourier_free(fourier);
}

static void test_fourier_is_the_definition(void **state)
{
    size_t lengths = 0;

    (void)state;
    for (size_t length = 0; length <= 130; length++)
        if (fourier_fits(length)) {
            check_length(length);
            lengths++;
        }
    assert_int_equal(lengths, 26);
    check_length(400);
    check_length(512);
    check_length(2250);
}

static void test_fourier_refuses_lengths(void **state)
{
    static const size_t wrong[] = {
        0, 1, 2, 3, 14, 25, 401, 2 * FOURIER_MAX, FOURIER_MAX + 2, SIZE_MAX
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(wrong); i++)
        assert_false(fourier_fits(wrong[i]));
    assert_true(fourier_fits(FOURIER_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fourier_is_the_definition),
        cmocka_unit_test(test_fourier_refuses_lengths),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
