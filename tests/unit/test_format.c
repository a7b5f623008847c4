/* tests/unit/test_format.c - the number formats, held against the compiler's own. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "base/size.h"
#include "precision/format.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Same number, or both NaN. */
static bool same(float a, float b)
{
    return isnan(a) ? isnan(b) : bits_of(a) == bits_of(b);
}

static void test_format_reads_every_fp16(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= 0xffff; i++) {
        uint16_t bits = (uint16_t)i;
        _Float16 half;

        memcpy(&half, &bits, sizeof half);
        assert_true(same(format_from_fp16(bits), (float)half));
        if (!isnan((float)half))
            assert_int_equal(format_to_fp16((float)half), bits);
        else
            assert_true(isnan(format_from_fp16(format_to_fp16(format_from_fp16(bits)))));
    }
}

/* Every upper half of an fp32, with lower halves around each point where rounding turns. */
static void test_format_rounds_to_nearest_even(void **state)
{
    static const uint32_t lower[] = { 0,      1,      0x0fff, 0x1000, 0x1001, 0x2fff, 0x3000,
                                      0x7fff, 0x8000, 0x8001, 0xefff, 0xf000, 0xffff };

    (void)state;
    for (uint32_t upper = 0; upper <= 0xffff; upper++)
        for (size_t i = 0; i < TS_COUNT(lower); i++) {
            float value = float_of(upper << 16 | lower[i]);
            _Float16 half = (_Float16)value;

            assert_true(same(format_from_fp16(format_to_fp16(value)), (float)half));
            float below = float_of(upper << 16), above = float_of((upper + 1) << 16);
            float got = format_from_bf16(format_to_bf16(value));

            if (isnan(value)) {
                assert_true(isnan(got));
            } else if (lower[i] != 0x8000) {
                assert_true(same(got, lower[i] < 0x8000 ? below : above));
            } else {
                assert_true(same(got, upper & 1 ? above : below));
            }
        }
}

static void test_format_overflows_to_inf(void **state)
{
    (void)state;
    assert_true(format_from_fp16(format_to_fp16(65519.996f)) == 65504);
    assert_true(isinf(format_from_fp16(format_to_fp16(65520))));
    assert_true(format_from_fp16(format_to_fp16(-1e9f)) == -INFINITY);
    assert_true(isinf(format_from_bf16(format_to_bf16(3.4e38f))));
    assert_true(format_from_fp16(format_to_fp16(2.9e-8f)) == 0);
    assert_true(format_from_fp16(format_to_fp16(3e-8f)) == 0x1p-24f);
}

/* The numbers of the table are those that the bit patterns have. */
static void test_format_table_is_true(void **state)
{
    (void)state;
    assert_true(format_info(FORMAT_FP16)->max == format_from_fp16(0x7bff));
    assert_true(format_info(FORMAT_FP16)->min_normal == format_from_fp16(0x0400));
    assert_true(format_info(FORMAT_FP16)->min_subnormal == format_from_fp16(1));
    assert_true(format_info(FORMAT_FP16)->epsilon == format_from_fp16(0x3c01) - 1);
    assert_true(format_info(FORMAT_BF16)->max == format_from_bf16(0x7f7f));
    assert_true(format_info(FORMAT_BF16)->min_normal == format_from_bf16(0x0080));
    assert_true(format_info(FORMAT_BF16)->min_subnormal == format_from_bf16(1));
    assert_true(format_info(FORMAT_BF16)->epsilon == format_from_bf16(0x3f81) - 1);
    assert_true(format_info(FORMAT_FP32)->max == (double)__FLT_MAX__);
    assert_true(format_info(FORMAT_FP32)->epsilon == (double)__FLT_EPSILON__);
    for (int i = 0; i < FORMAT_COUNT; i++)
        assert_non_null(format_info((enum format)i)->name);
}

static void test_format_is_found_by_any_name(void **state)
{
    enum format format;

    (void)state;
    assert_true(format_find("bfloat16", &format) && format == FORMAT_BF16);
    assert_true(format_find("F16", &format) && format == FORMAT_FP16);
    assert_true(format_find("fp32", &format) && format == FORMAT_FP32);
    assert_false(format_find("half", &format));
}

static void test_format_converts_arrays(void **state)
{
    float in[] = { 1, -2.5f, 0.1f, INFINITY, -0.0f }, back[5];
    uint16_t half[5], brain[5];

    (void)state;
    format_convert(half, FORMAT_FP16, in, FORMAT_FP32, 5);
    format_convert(brain, FORMAT_BF16, half, FORMAT_FP16, 5);
    format_convert(back, FORMAT_FP32, brain, FORMAT_BF16, 5);
    for (int i = 0; i < 5; i++) {
        float want = format_from_bf16(format_to_bf16(format_from_fp16(format_to_fp16(in[i]))));

        assert_true(same(back[i], want));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format_reads_every_fp16),
        cmocka_unit_test(test_format_rounds_to_nearest_even),
        cmocka_unit_test(test_format_overflows_to_inf),
        cmocka_unit_test(test_format_table_is_true),
        cmocka_unit_test(test_format_is_found_by_any_name),
        cmocka_unit_test(test_format_converts_arrays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
