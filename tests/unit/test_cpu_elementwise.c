/* tests/unit/test_cpu_elementwise.c - sums, multiples, copies, conversions, zeros and dropout. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/random.h"
#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(add)
OPERATION(scale)
OPERATION(convert)
OPERATION(zero)
OPERATION(dropout)
OPERATION(noise)
OPERATION(jitter)
OPERATION(sum_rows)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
static const size_t sizes[][2] = { { 1, 1 },     { 3, 17 },   { 17, 576 }, { 5, 701 },
                                   { 257, 100 }, { 3, 1000 }, { 2, 20000 } };

static void try_add(struct machines *machines, size_t mix, const size_t size[2])
{
    struct operand a = operand_random(formats[mix % 3], size[0], size[1], 1, 1);
    struct operand b = operand_random(formats[mix / 3 % 3], size[0], size[1], 1, 2);
    struct operand out = operand_filled(formats[mix / 9], size[0], size[1], 7);
    struct operand *sum = a.tensor.format == out.tensor.format ? &a : &out;
    double *wanted = calloc(a.numbers, sizeof(double));

    for (size_t i = 0; i < a.numbers; i++)
        wanted[i] = a.real[i] + b.real[i];
    machines_try(machines, run_add, &(struct op_add) { out.tensor, a.tensor, b.tensor },
                 (struct outcome[]) { { &out, wanted, 1, 0 } }, 1);
    machines_try(machines, run_add, &(struct op_add) { sum->tensor, a.tensor, b.tensor },
                 (struct outcome[]) { { sum, wanted, 1, 0 } }, 1); /* in place */
    operand_clear(&a);
    operand_clear(&b);
    operand_clear(&out);
    free(wanted);
}

static void test_add_mixes_formats(void **state)
{
    const struct machines *machines = *state;

    for (size_t mix = 0; mix < 27; mix++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            if (!machines->slow || mix % 4 == 0 || sizes[i][0] * sizes[i][1] < 10000)
                try_add(*state, mix, sizes[i]);
}

static void try_scale(struct machines *machines, size_t mix, const size_t size[2])
{
    struct operand x = operand_random(formats[mix % 3], size[0], size[1], 1, 1);
    struct operand out = operand_filled(formats[mix / 3], size[0], size[1], 7);
    struct operand by = operand_random(FORMAT_FP32, 1, 1, 1, 2);
    double *wanted = calloc(x.numbers, sizeof(double));

    for (size_t i = 0; i < x.numbers; i++)
        wanted[i] = (double)0.22f * x.real[i] * by.real[0];
    machines_try(machines, run_scale,
                 &(struct op_scale) { out.tensor, x.tensor, 0.22f, by.tensor },
                 (struct outcome[]) { { &out, wanted, 2, 0 } }, 1);
    by.tensor.data = NULL;
    for (size_t i = 0; i < x.numbers; i++)
        wanted[i] = (double)0.22f * x.real[i];
    machines_try(machines, run_scale,
                 &(struct op_scale) { out.tensor, x.tensor, 0.22f, by.tensor },
                 (struct outcome[]) { { &out, wanted, 1, 0 } }, 1);
    machines_try(machines, run_scale,
                 &(struct op_scale) { x.tensor, x.tensor, 0.22f, by.tensor },
                 (struct outcome[]) { { &x, wanted, 1, 0 } }, 1); /* in place */
    operand_clear(&by);
    operand_clear(&x);
    operand_clear(&out);
    free(wanted);
}

static void test_scale_mixes_formats(void **state)
{
    for (size_t mix = 0; mix < 9; mix++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_scale(*state, mix, sizes[i]);
}

static void try_noise(struct machines *machines, const size_t size[2], uint64_t rows)
{
    struct operand x = operand_random(FORMAT_FP32, size[0], size[1], 1, 1);
    uint64_t *draw = machines_memory(2 * sizeof(*draw));
    float *magnitude = machines_memory(sizeof(*magnitude));
    double *wanted = calloc(x.numbers, sizeof(double));

    draw[0] = 5;
    draw[1] = rows;
    *magnitude = 0.25f;
    for (size_t i = 0; i < x.numbers; i++) {
        double u = random_uniform(11, RANDOM_NOISE, 0, 5 * rows * size[1] + i);

        wanted[i] = x.real[i] + 3 * 0.25 * (2 * u - 1);
    }
    machines_try(machines, run_noise,
                 &(struct op_noise) { .x = x.tensor,
                                      .factor = 3,
                                      .seed = 11,
                                      .magnitude = magnitude,
                                      .draw = draw,
                                      .rows = draw + 1 },
                 (struct outcome[]) { { &x, wanted, 2, 0 } }, 1);
    operand_clear(&x);
    machines_memory_free(draw);
    machines_memory_free(magnitude);
    free(wanted);
}

static void try_jitter(struct machines *machines, enum format format,
                       const size_t size[2], uint64_t rows, bool twice)
{
    struct operand x = operand_random(format, size[0], size[1], 1, 1);
    uint64_t *draw = machines_memory(2 * sizeof(*draw));
    double *wanted = calloc(x.numbers, sizeof(double));

    draw[0] = 5;
    draw[1] = rows;
    for (size_t i = 0; i < x.numbers; i++) {
        uint64_t index = 2 * (5 * rows * size[1] + i);
        double u = random_uniform(11, RANDOM_NOISE, 3, index);
        double v = random_uniform(11, RANDOM_NOISE, 3, index + 1);

        wanted[i] = x.real[i] * (1 + 0.25 * (2 * u - 1));
        wanted[i] *= twice ? 1 + 0.25 * (2 * v - 1) : 1;
    }
    machines_try(machines, run_jitter,
                 &(struct op_jitter) { .x = x.tensor,
                                       .twice = twice,
                                       .size = 0.25f,
                                       .seed = 11,
                                       .stream = 3,
                                       .draw = draw,
                                       .rows = draw + 1 },
                 (struct outcome[]) { { &x, wanted, 2, 0 } }, 1);
    operand_clear(&x);
    machines_memory_free(draw);
    free(wanted);
}

static void test_jitter_is_uniform_by_position(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            try_jitter(*state, formats[f], sizes[i], sizes[i][0], true);
            try_jitter(*state, formats[f], sizes[i], 1, i % 2 == 0);
            try_jitter(*state, formats[f], sizes[i], sizes[i][0], false);
        }
}

static void test_noise_is_uniform_by_position(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        try_noise(*state, sizes[i], sizes[i][0]);
        try_noise(*state, sizes[i], 1);
    }
}

/* Copy the bits of a NaN where one is expected. */
static void take_nans(void *numbers, const void *wanted, enum format format, size_t count)
{
    size_t bytes = format_info(format)->bytes;

    for (size_t i = 0; i < count; i++) {
        char *at = (char *)numbers + i * bytes;
        const char *to = (const char *)wanted + i * bytes;
        float is, was;

        format_convert(&is, FORMAT_FP32, at, format, 1);
        format_convert(&was, FORMAT_FP32, to, format, 1);
        if (isnan(is) && isnan(was))
            memcpy(at, to, bytes);
    }
}

/* Each 16-bit pattern to the other formats, and patterns across fp32 to 16 bits.  A GPU's
 * instructions produce one NaN per format, whatever the input NaN. */
static void test_convert_is_exact_for_every_pattern(void **state)
{
    enum { PATTERNS = 1 << 16, EXTRA = 7 };
    struct machines *machines = *state;
    uint32_t *from = machines_memory((PATTERNS + EXTRA) * sizeof(*from));
    uint32_t *to = machines_memory((PATTERNS + EXTRA) * sizeof(*to));
    uint32_t *wanted = calloc(PATTERNS + EXTRA, sizeof(*wanted));

    for (size_t mix = 0; mix < 9; mix++) {
        enum format in = formats[mix % 3], out = formats[mix / 3];
        size_t bytes = format_info(out)->bytes * (PATTERNS + EXTRA);

        for (uint32_t i = 0; i < PATTERNS + EXTRA; i++)
            if (in == FORMAT_FP32)
                from[i] = i * 0x10001 + i * i;
            else
                ((uint16_t *)from)[i] = (uint16_t)i;
        format_convert(wanted, out, from, in, PATTERNS + EXTRA);
        for (size_t m = 0; m < machines->count; m++) {
            struct backend *be = machines->backends[m];

            memset(to, 0x5a, (PATTERNS + EXTRA) * sizeof(*to));
            machine_run(
                be, run_convert,
                &(struct op_convert) { tensor_of(to, out, 1, PATTERNS + EXTRA),
                                       tensor_of(from, in, 1, PATTERNS + EXTRA) });
            if (be->ops->kind == DEVICE_CUDA && in != out)
                take_nans(to, wanted, out, PATTERNS + EXTRA);
            assert_memory_equal(to, wanted, bytes);
        }
    }
    machines_memory_free(from);
    machines_memory_free(to);
    free(wanted);
}

static void test_convert_and_zero_stay_in_their_columns(void **state)
{
    for (size_t mix = 0; mix < 9; mix++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct operand x =
                operand_random(formats[mix % 3], sizes[i][0], sizes[i][1], 1, 1);
            struct operand out =
                operand_filled(formats[mix / 3], sizes[i][0], sizes[i][1], 7);
            double *zeros = calloc(x.numbers, sizeof(double));

            machines_try(*state, run_convert,
                         &(struct op_convert) { out.tensor, x.tensor },
                         (struct outcome[]) { { &out, x.real, 0, 0 } }, 1);
            machines_try(*state, run_zero, &(struct op_zero) { out.tensor },
                         (struct outcome[]) { { &out, zeros, 0, 0 } }, 1);
            operand_clear(&x);
            operand_clear(&out);
            free(zeros);
        }
}

static void test_sum_rows_adds_every_row(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct operand x = operand_random(formats[f], sizes[i][0], sizes[i][1], 1, 1);
            struct operand out = operand_random(FORMAT_FP32, 1, sizes[i][1], 1, 2);
            double *wanted = calloc(out.numbers, sizeof(double));

            memcpy(wanted, out.real, out.numbers * sizeof(double));
            for (size_t k = 0; k < x.numbers; k++)
                wanted[k % sizes[i][1]] += x.real[k];
            machines_try(*state, run_sum_rows,
                         &(struct op_sum_rows) { out.tensor, x.tensor },
                         (struct outcome[]) { { &out, wanted, 8, 0 } }, 1);
            operand_clear(&x);
            operand_clear(&out);
            free(wanted);
        }
}

static struct op_dropout dropout_of(const struct operand *out, const struct operand *x,
                                    uint64_t step)
{
    return (struct op_dropout) { .out = out->tensor,
                                 .x = x->tensor,
                                 .p = 0.3f,
                                 .seed = 1 << 20,
                                 .step = step,
                                 .stream = 9 };
}

/* By position and step: the values of base/random.h, whatever the strides are. */
static void test_dropout_depends_only_on_position(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct operand x = operand_random(formats[f], sizes[i][0], sizes[i][1], 1, 1);
            struct operand out = operand_filled(formats[f], sizes[i][0], sizes[i][1], 7);
            double *wanted = calloc(x.numbers, sizeof(double));
            struct op_dropout op = dropout_of(&out, &x, 3);

            for (size_t k = 0; k < x.numbers; k++)
                if (random_uniform(1 << 20, RANDOM_DROPOUT, 9, 3 * x.numbers + k) >=
                    (double)0.3f)
                    wanted[k] = x.real[k] / (1 - (double)0.3f);
            machines_try(*state, run_dropout, &op,
                         (struct outcome[]) { { &out, wanted, 2, 0 } }, 1);
            op.out = x.tensor; /* in place */
            machines_try(*state, run_dropout, &op,
                         (struct outcome[]) { { &x, wanted, 2, 0 } }, 1);
            operand_clear(&x);
            operand_clear(&out);
            free(wanted);
        }
}

/* The part of the step in backend memory is added to the other one. */
static void test_dropout_adds_its_draw_to_the_step(void **state)
{
    struct machines *machines = *state;
    struct operand x = operand_random(FORMAT_BF16, 3, 701, 1, 1);
    struct operand out = operand_filled(FORMAT_BF16, 3, 701, 7);
    struct operand told = operand_filled(FORMAT_BF16, 3, 701, 7);
    uint64_t *draw = machines_memory(sizeof(*draw));
    struct op_dropout plain = dropout_of(&out, &x, ((uint64_t)1 << 33) + 5);
    struct op_dropout drawn = dropout_of(&told, &x, 5);

    *draw = (uint64_t)1 << 33;
    drawn.draw = draw;
    machines_try(machines, run_dropout, &plain, &(struct outcome) { .operand = &out }, 1);
    machines_try(machines, run_dropout, &drawn, &(struct outcome) { .operand = &told },
                 1);
    assert_memory_equal(out.block, told.block, out.bytes);
    operand_clear(&x);
    operand_clear(&out);
    operand_clear(&told);
    machines_memory_free(draw);
}

/* Padding rows do not change the draws of the rows before them. */
static void test_dropout_ignores_padding_rows(void **state)
{
    enum { ROWS = 5, MORE = 8, COLS = 37 };
    struct operand x = operand_random(FORMAT_FP32, MORE, COLS, 1, 1);
    struct operand out = operand_filled(FORMAT_FP32, MORE, COLS, 7);
    double *wanted = calloc(x.numbers, sizeof(double));
    uint64_t *rows = machines_memory(sizeof(*rows));
    struct op_dropout op = dropout_of(&out, &x, 3);

    *rows = ROWS;
    op.rows = rows;
    for (size_t k = 0; k < x.numbers; k++)
        if (random_uniform(1 << 20, RANDOM_DROPOUT, 9, 3 * ROWS * COLS + k) >=
            (double)0.3f)
            wanted[k] = x.real[k] / (1 - (double)0.3f);
    machines_try(*state, run_dropout, &op, (struct outcome[]) { { &out, wanted, 2, 0 } },
                 1);
    operand_clear(&x);
    operand_clear(&out);
    machines_memory_free(rows);
    free(wanted);
}

/* Start at any element, including inside a block of four draws. */
static void test_dropout_begins_inside_a_block(void **state)
{
    enum { NUMBERS = 1003 };
    struct machines *machines = *state;
    float *x = machines_memory(2 * NUMBERS * sizeof(*x)), *out = x + NUMBERS + 1;

    for (size_t m = 0; m < machines->count; m++)
        for (uint64_t step = 0; step < 4; step++) {
            struct op_dropout op = { .out = tensor_of(out, FORMAT_FP32, 1, NUMBERS - 1),
                                     .x = tensor_of(x, FORMAT_FP32, 1, NUMBERS - 1),
                                     .p = 0.5f,
                                     .step = step };

            op.out.cols = op.x.cols = NUMBERS - 1 - step % 2;
            for (size_t i = 0; i < NUMBERS; i++)
                x[i] = 1;
            machine_run(machines->backends[m], run_dropout, &op);
            for (size_t i = 0; i < op.x.cols; i++)
                assert_true(out[i] == 2 * (random_uniform(0, RANDOM_DROPOUT, 0,
                                                          step * op.x.cols + i) >= 0.5));
        }
    machines_memory_free(x);
}

static size_t dropped(const struct operand *out)
{
    size_t count = 0;

    for (size_t i = 0; i < out->numbers; i++)
        count += out->real[i] == 0;
    return count;
}

/* 100000 draws of 0.3: 5 standard deviations are 725. */
static void test_dropout_drops_its_share_and_redraws_each_step(void **state)
{
    struct machines *machines = *state;
    struct backend *be = machines->backends[0];
    struct operand x = operand_filled(FORMAT_FP32, 100, 1000, 1);
    struct operand one = operand_filled(FORMAT_FP32, 100, 1000, 7);
    struct operand two = operand_filled(FORMAT_FP32, 100, 1000, 7);
    struct op_dropout first = dropout_of(&one, &x, 0), second = dropout_of(&two, &x, 1);
    size_t both = 0;

    machine_run(be, run_dropout, &first);
    machine_run(be, run_dropout, &second);
    operand_read(&one);
    operand_read(&two);
    assert_in_range(dropped(&one), 30000 - 725, 30000 + 725);
    assert_in_range(dropped(&two), 30000 - 725, 30000 + 725);
    for (size_t i = 0; i < one.numbers; i++)
        both += one.real[i] == 0 && two.real[i] == 0;
    assert_in_range(both, 9000 - 453, 9000 + 453);
    first.p = 0;
    machine_run(be, run_dropout, &first);
    operand_read(&one);
    assert_int_equal(dropped(&one), 0);
    operand_clear(&x);
    operand_clear(&one);
    operand_clear(&two);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_add_mixes_formats),
        cmocka_unit_test(test_scale_mixes_formats),
        cmocka_unit_test(test_noise_is_uniform_by_position),
        cmocka_unit_test(test_jitter_is_uniform_by_position),
        cmocka_unit_test(test_convert_is_exact_for_every_pattern),
        cmocka_unit_test(test_convert_and_zero_stay_in_their_columns),
        cmocka_unit_test(test_sum_rows_adds_every_row),
        cmocka_unit_test(test_dropout_depends_only_on_position),
        cmocka_unit_test(test_dropout_adds_its_draw_to_the_step),
        cmocka_unit_test(test_dropout_ignores_padding_rows),
        cmocka_unit_test(test_dropout_begins_inside_a_block),
        cmocka_unit_test(test_dropout_drops_its_share_and_redraws_each_step),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
