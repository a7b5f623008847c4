/* tests/unit/test_cuda_fp8.c - 8-bit matrices match precision/format.h byte for byte. */
#include "config.h"

#include "kernels/cuda/cuda_launch.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_cuda.h"

static const size_t gib = (size_t)1 << 30;
static const enum format formats[] = { FORMAT_FP32, FORMAT_FP16, FORMAT_BF16 };
static const enum format narrow[] = { FORMAT_FP8_E4M3, FORMAT_FP8_E5M2 };

enum { GUARD = 64 };

/* What is written: the matrix, its transpose, or both. */
enum { PLAIN = 1, TURNED = 2, BOTH = PLAIN | TURNED };

/* Return the bytes (malloc'ed, each part followed by a guard) and scale of a matrix in GPU
 * memory. */
static uint8_t *quantize_by(struct backend *be, struct tensor x, enum format format,
                            int parts, const float *largest, float *scale)
{
    size_t part = size_round(x.rows * x.cols + GUARD, 16), bytes = 2 * part;
    uint8_t *out = malloc(bytes), *block = unit_cuda_block(be, bytes);
    float *place = unit_cuda_block(be, sizeof(float));
    struct cuda_quantize op = {
        .x = x, .scale = place, .format = format, .largest = largest
    };

    if (parts & PLAIN)
        op.out = block;
    if (parts & TURNED)
        op.turned = block + part;
    memset(out, 0x5a, bytes);
    be->ops->upload(be, block, out, bytes);
    assert_int_equal(launch_quantize(&cuda_backend_of(be)->launch, &op), cudaSuccess);
    be->ops->download(be, out, block, bytes);
    be->ops->download(be, scale, place, sizeof(*scale));
    unit_cuda_sync(be);
    for (size_t i = 0; i < bytes; i++)
        if (i % part >= x.rows * x.cols || !(parts & (i < part ? PLAIN : TURNED)))
            assert_int_equal(out[i], 0x5a);
    be->ops->free(be, block);
    be->ops->free(be, place);
    return out;
}

static uint8_t *quantize(struct backend *be, struct tensor x, enum format format,
                         int parts, float *scale)
{
    return quantize_by(be, x, format, parts, NULL, scale);
}

static uint8_t byte_of(enum format format, float x)
{
    return format == FORMAT_FP8_E4M3 ? format_to_e4m3(x) : format_to_e5m2(x);
}

static void compare(struct backend *be, struct tensor x, enum format format, int parts)
{
    float *values = unit_cuda_read(be, x), largest = 0, factor, scale;
    uint8_t *bytes = quantize(be, x, format, parts, &scale);
    const uint8_t *turned = bytes + size_round(x.rows * x.cols + GUARD, 16);

    for (size_t i = 0; i < x.rows * x.cols; i++)
        largest = fmaxf(largest, fabsf(values[i / x.cols * x.stride + i % x.cols]));
    factor = (float)format_info(format)->max / largest;
    if (isinf(factor))
        factor = 1;
    assert_true(scale == 1 / factor);
    for (size_t i = 0; i < x.rows; i++)
        for (size_t j = 0; j < x.cols; j++) {
            uint8_t wanted = byte_of(format, values[i * x.stride + j] * factor);

            if (parts & PLAIN)
                assert_int_equal(bytes[i * x.cols + j], wanted);
            if (parts & TURNED)
                assert_int_equal(turned[j * x.rows + i], wanted);
        }
    free(values);
    free(bytes);
}

/* Whole and partial tiles and groups, rows with gaps, unaligned rows. */
static void test_fp8_rounds_every_shape(void **state)
{
    static const size_t shapes[][3] = {
        { 1, 1, 1 },       { 3, 17, 17 },  { 64, 64, 64 },    { 65, 63, 63 },
        { 70, 128, 144 },  { 13, 37, 40 }, { 130, 200, 200 }, { 40, 300, 301 },
        { 1, 5000, 5000 }, { 257, 8, 8 },
    };
    struct backend *be = unit_cuda_alone(75, gib);

    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (int kind = 0; kind < 12; kind++) {
                struct tensor x = unit_cuda_matrix(be, formats[f], shapes[i][0] + 1,
                                                   shapes[i][1], shapes[i][2], 7);

                x.rows--;
                if (kind & 2)
                    x.data = (char *)x.data + format_info(x.format)->bytes;
                compare(be, x, narrow[kind & 1], PLAIN + kind / 4);
                be->ops->free(be, (char *)x.data -
                                      (kind & 2 ? format_info(x.format)->bytes : 0));
            }
    be->ops->close(be);
}

/* A factor of 1, and values around each rounding boundary. */
static void test_fp8_rounds_like_the_format_conversions(void **state)
{
    struct backend *be = unit_cuda_alone(75, gib);

    (void)state;
    for (size_t f = 0; f < TS_COUNT(narrow); f++) {
        enum { NUMBERS = 256 * 5 };
        float values[NUMBERS], max = (float)format_info(narrow[f])->max;
        struct tensor x =
            tensor_of(unit_cuda_block(be, sizeof(values)), FORMAT_FP32, 1, NUMBERS);

        for (int i = 0; i < 256; i++) {
            float (*from)(uint8_t) = f ? format_from_e5m2 : format_from_e4m3;
            float at = from((uint8_t)i), next = from((uint8_t)(i + 1));
            float middle = (at + next) / 2;
            float around[] = { at, middle, nextafterf(middle, at),
                               nextafterf(middle, next), nextafterf(at, 0) };

            for (int k = 0; k < 5; k++)
                values[5 * i + k] = fabsf(around[k]) <= max ? around[k] : 0;
        }
        be->ops->upload(be, x.data, values, sizeof(values));
        compare(be, x, narrow[f], PLAIN);
    }
    be->ops->close(be);
}

/* NaN stays NaN, inf becomes NaN, and a matrix of zeros or values near zero causes no
 * division by zero. */
static void test_fp8_propagates_nan_and_inf(void **state)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY, 0, 1e-40f };
    struct backend *be = unit_cuda_alone(75, gib);

    (void)state;
    for (size_t f = 0; f < TS_COUNT(narrow); f++)
        for (size_t k = 0; k < TS_COUNT(odd); k++) {
            float values[100] = { 0 }, scale;
            struct tensor x =
                tensor_of(unit_cuda_block(be, sizeof(values)), FORMAT_FP32, 10, 10);
            uint8_t *bytes;

            values[3] = k < 3 ? 2 : 0;
            values[42] = odd[k];
            be->ops->upload(be, x.data, values, sizeof(values));
            bytes = quantize(be, x, narrow[f], k & 1 ? TURNED : PLAIN, &scale);
            for (size_t i = 0; i < 100; i++) {
                size_t turned = size_round(100 + GUARD, 16) + i % 10 * 10 + i / 10;
                size_t at = k & 1 ? turned : i;
                float got = f ? format_from_e5m2(bytes[at]) : format_from_e4m3(bytes[at]);

                assert_true(k < 3 && i == 42   ? isnan(got)
                            : k == 0 && i == 3 ? got == (float)format_info(narrow[f])->max
                                               : got == 0);
            }
            if (k >= 3)
                assert_true(scale == 1);
            free(bytes);
        }
    be->ops->close(be);
}

/* Return the largest magnitude that is no NaN. */
static float largest_of(struct backend *be, struct tensor x)
{
    float *values = unit_cuda_read(be, x), largest = 0;

    for (size_t i = 0; i < x.rows; i++)
        for (size_t j = 0; j < x.cols; j++)
            largest = fmaxf(largest, fabsf(values[i * x.stride + j]));
    free(values);
    return largest;
}

/* The known maximum is that of x, and gives the same bits as one that is searched for. */
static void compare_known(struct backend *be, struct tensor x, const float *largest,
                          float wanted)
{
    size_t bytes = 2 * size_round(x.rows * x.cols + GUARD, 16);
    float known, scales[2];
    uint8_t *out[2];

    be->ops->download(be, &known, largest, sizeof(known));
    unit_cuda_sync(be);
    assert_true(known == wanted);
    out[0] = quantize_by(be, x, FORMAT_FP8_E5M2, BOTH, largest, &scales[0]);
    out[1] = quantize(be, x, FORMAT_FP8_E5M2, BOTH, &scales[1]);
    assert_memory_equal(out[0], out[1], bytes);
    assert_true(scales[0] == scales[1]);
    free(out[0]);
    free(out[1]);
}

/* The activations report the largest value that they have written, whatever was there. */
static void test_fp8_activations_measure_what_they_write(void **state)
{
    /* many values in rows that are not whole words would have the bytes that the emulator
     * takes for uninitialized */
    static const size_t shapes[][2] = { { 1, 1 }, { 3, 17 }, { 40, 64 }, { 8, 1000 } };
    struct backend *be = unit_cuda_alone(75, gib);
    float *largest = unit_cuda_block(be, sizeof(*largest));
    const float before = 1e30f;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            size_t rows = shapes[i][0], cols = shapes[i][1];
            struct tensor both =
                unit_cuda_matrix(be, formats[f], rows, 2 * cols, 2 * cols, 3);
            struct tensor gate = tensor_columns(both, 0, cols);
            struct tensor up = tensor_columns(both, cols, cols);
            struct tensor out = unit_cuda_matrix(be, formats[f], rows, cols, cols, 4);

            be->ops->upload(be, largest, &before, sizeof(before));
            if (i == 2) /* a NaN, in any format */
                be->ops->upload(be, gate.data, "\xff\xff\xff\xff", 4);
            be->ops->swiglu(be,
                            &(struct op_swiglu) {
                                .out = out, .gate = gate, .up = up, .largest = largest });
            compare_known(be, out, largest, largest_of(be, out));
            be->ops->swiglu_backward(be,
                                     &(struct op_swiglu_backward) { .dgate = gate,
                                                                    .dup = up,
                                                                    .dout = out,
                                                                    .gate = gate,
                                                                    .up = up,
                                                                    .largest = largest });
            compare_known(be, both, largest, largest_of(be, both));
        }
    be->ops->close(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fp8_rounds_every_shape),
        cmocka_unit_test(test_fp8_rounds_like_the_format_conversions),
        cmocka_unit_test(test_fp8_propagates_nan_and_inf),
        cmocka_unit_test(test_fp8_activations_measure_what_they_write),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
