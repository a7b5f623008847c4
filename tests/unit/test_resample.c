/* tests/unit/test_resample.c - compares with torchaudio (tests/golden/resample.json, made
 * by resample.py). */
#include "config.h"

#include "train/media/resample.h"

#include <math.h>

#include "base/json.h"
#include "tests/unit/unit.h"
#include "tests/unit/unit_sound.h"

enum { LIMIT = 1 << 20 };

static int64_t integer(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

static void check_case(const json_t *one)
{
    const json_t *at = json_object_get(one, "at");
    const json_t *samples = json_object_get(one, "samples");
    struct audio in = { .count = (size_t)integer(one, "count"),
                        .rate = (uint32_t)integer(one, "from") };
    uint32_t to = (uint32_t)integer(one, "to");
    struct audio out = { 0 };
    struct error err = { 0 };

    in.samples = unit_noise(in.count, 1);
    if (!resample(&in, to, &out, &err))
        fail_msg("%s", err.text);
    assert_int_equal(out.count, integer(one, "made"));
    assert_int_equal(resample_count(in.count, in.rate, to), out.count);
    assert_int_equal(out.rate, to);
    for (size_t i = 0; i < json_array_size(at); i++) {
        size_t k = (size_t)json_integer_value(json_array_get(at, i));
        double expected = json_number_value(json_array_get(samples, i));

        /* sums of float in another order */
        if (!(fabs((double)out.samples[k] - expected) <= 1e-6))
            fail_msg("%u to %u: sample %zu is %.9g, not %.9g", in.rate, to, k,
                     (double)out.samples[k], expected);
    }
    free(in.samples);
    free(out.samples);
}

static void test_resample_is_that_of_torchaudio(void **state)
{
    char *file = unit_source("tests/golden/resample.json");
    struct error err = { 0 };
    json_t *root = json_read_file(file, LIMIT, &err);
    const json_t *cases = json_object_get(root, "cases");

    (void)state;
    if (!root)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(cases), 25);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i));
    json_decref(root);
    free(file);
}

static void test_resample_counts_without_overflow(void **state)
{
    (void)state;
    assert_true(resample_count(0, 8000, 16000) == 0);
    assert_true(resample_count(1, 384000, 16000) == 1);
    assert_true(resample_count(UINT64_MAX, 48000, 16000) == UINT64_MAX / 3);
    assert_true(resample_count(UINT64_MAX, 8000, 16000) == UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_resample_is_that_of_torchaudio),
        cmocka_unit_test(test_resample_counts_without_overflow),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
