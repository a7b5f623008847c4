/* tests/unit/test_format.c - the number formats, compared with the compiler's. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "base/size.h"
#include "precision/format.h"

static uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* Return whether both are the same number or both NaN. */
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

        memcpy(&half, &bits, sizeof(half));
        assert_true(same(format_from_fp16(bits), (float)half));
        if (!isnan((float)half))
            assert_int_equal(format_to_fp16((float)half), bits);
        else
            assert_true(isnan(format_from_fp16(format_to_fp16(format_from_fp16(bits)))));
    }
}

/* Every upper half of an fp32, with lower halves around each rounding boundary. */
static void test_format_rounds_to_nearest_even(void **state)
{
    static const uint32_t lower[] = { 0,      1,      0x0fff, 0x1000, 0x1001,
                                      0x2fff, 0x3000, 0x7fff, 0x8000, 0x8001,
                                      0xefff, 0xf000, 0xffff };

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

/* An 8-bit format by definition: sign, exponent, mantissa. */
struct byte {
    enum format format;
    int mantissa, bias;
    float (*from)(uint8_t bits);
    uint8_t (*to)(float value);
};

static const struct byte bytes[] = {
    { FORMAT_FP8_E4M3, 3, 7, format_from_e4m3, format_to_e4m3 },
    { FORMAT_FP8_E5M2, 2, 15, format_from_e5m2, format_to_e5m2 },
};

static double byte_value(const struct byte *b, uint8_t bits)
{
    int exponent = (bits & 0x7f) >> b->mantissa, rest = bits & ((1 << b->mantissa) - 1);
    double size = exponent == 0 ? ldexp(rest, 1 - b->bias - b->mantissa)
                                : ldexp(rest + (1 << b->mantissa),
                                        exponent - b->bias - b->mantissa);

    if (b->format == FORMAT_FP8_E4M3 ? (bits & 0x7f) == 0x7f : exponent == 31)
        size = b->format == FORMAT_FP8_E5M2 && rest == 0 ? INFINITY : NAN;
    return bits & 0x80 ? -size : size;
}

static void test_format_reads_every_fp8(void **state)
{
    (void)state;
    for (size_t f = 0; f < TS_COUNT(bytes); f++)
        for (int i = 0; i < 256; i++) {
            float value = bytes[f].from((uint8_t)i);

            assert_true(same(value, (float)byte_value(&bytes[f], (uint8_t)i)));
            if (isnan(value))
                assert_true(isnan(bytes[f].from(bytes[f].to(value))));
            else
                assert_int_equal(bytes[f].to(value), i);
        }
}

/* The midpoint between two neighbors goes to the even one, values next to it to the
 * nearer one; over all of fp32, in strides, order and sign are kept and the nearest value
 * is chosen. */
static void test_format_rounds_fp8_to_nearest_even(void **state)
{
    (void)state;
    for (size_t f = 0; f < TS_COUNT(bytes); f++) {
        const struct byte *b = &bytes[f];

        for (uint8_t i = 0; isfinite(b->from(i + 1)); i++) {
            float below = b->from(i), above = b->from(i + 1),
                  middle = (below + above) / 2;

            assert_int_equal(b->to(middle), i + (i & 1));
            assert_int_equal(b->to(-middle), 0x80 | (i + (i & 1)));
            assert_int_equal(b->to(nextafterf(middle, 0)), i);
            assert_int_equal(b->to(nextafterf(middle, INFINITY)), i + 1);
        }
        for (uint32_t bits = 0; bits < 0x7f800000; bits += 0x3ff7) {
            float value = float_of(bits), got = b->from(b->to(value));
            double most = format_info(b->format)->max;

            if (value <= most)
                assert_true(fabsf(got - value) <=
                            fmaxf(value * (float)format_info(b->format)->epsilon / 2,
                                  (float)format_info(b->format)->min_subnormal / 2));
            assert_int_equal(b->to(-value), 0x80 | b->to(value));
        }
    }
}

static void test_format_fp8_overflows_as_each_format_allows(void **state)
{
    (void)state;
    assert_int_equal(format_to_e4m3(449), 0x7e);
    assert_int_equal(format_to_e4m3(-3e38f), 0xfe);
    assert_true(isnan(format_from_e4m3(format_to_e4m3(INFINITY))));
    assert_true(isnan(format_from_e4m3(format_to_e4m3(-NAN))));
    assert_int_equal(format_to_e5m2(61439), 0x7b);
    assert_int_equal(format_to_e5m2(61440), 0x7c);
    assert_int_equal(format_to_e5m2(-INFINITY), 0xfc);
    assert_true(isnan(format_from_e5m2(format_to_e5m2(float_of(0x7f800001)))));
    for (size_t f = 0; f < TS_COUNT(bytes); f++) {
        const struct format_info *info = format_info(bytes[f].format);

        assert_true(info->max == bytes[f].from(f ? 0x7b : 0x7e));
        assert_true(info->min_subnormal == bytes[f].from(1));
        assert_true(info->min_normal == bytes[f].from((uint8_t)(1 << bytes[f].mantissa)));
        assert_true(info->epsilon == ldexp(1, -bytes[f].mantissa));
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

/* The properties in the table are those of the bit patterns. */
static void test_format_table_matches_the_bit_patterns(void **state)
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
        float want =
            format_from_bf16(format_to_bf16(format_from_fp16(format_to_fp16(in[i]))));

        assert_true(same(back[i], want));
    }
}

/* As tensors of a mapped file do whose header has an odd length. */
static void test_format_converts_from_any_byte(void **state)
{
    static const enum format from[] = { FORMAT_FP16, FORMAT_BF16, FORMAT_FP32 };
    const float in[3] = { 1.5f, -2.0f, 0.25f };
    _Alignas(float) char raw[1 + sizeof(in)];

    (void)state;
    for (size_t f = 0; f < TS_COUNT(from); f++) {
        _Alignas(float) char aligned[sizeof(in)] = { 0 };
        const enum format to = from[f] == FORMAT_FP32 ? FORMAT_BF16 : FORMAT_FP32;
        float back[3] = { 0 };
        uint16_t brain[3] = { 0 };

        format_convert(aligned, from[f], in, FORMAT_FP32, 3);
        memcpy(raw + 1, aligned, sizeof(aligned));
        format_convert(to == FORMAT_FP32 ? (void *)back : brain, to, raw + 1, from[f], 3);
        for (size_t i = 0; i < 3; i++)
            assert_true((to == FORMAT_FP32 ? back[i] : format_from_bf16(brain[i])) ==
                        in[i]);
    }
}

static void test_format_dtype_falls_back_to_our_name(void **state)
{
    (void)state;
    assert_string_equal(format_dtype(FORMAT_BF16), "bfloat16");
    for (enum format f = 0; f < FORMAT_COUNT; f++)
        if (format_info(f)->torch == NULL)
            assert_string_equal(format_dtype(f), format_info(f)->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_format_reads_every_fp16),
        cmocka_unit_test(test_format_rounds_to_nearest_even),
        cmocka_unit_test(test_format_reads_every_fp8),
        cmocka_unit_test(test_format_rounds_fp8_to_nearest_even),
        cmocka_unit_test(test_format_fp8_overflows_as_each_format_allows),
        cmocka_unit_test(test_format_overflows_to_inf),
        cmocka_unit_test(test_format_table_matches_the_bit_patterns),
        cmocka_unit_test(test_format_is_found_by_any_name),
        cmocka_unit_test(test_format_converts_arrays),
        cmocka_unit_test(test_format_converts_from_any_byte),
        cmocka_unit_test(test_format_dtype_falls_back_to_our_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
