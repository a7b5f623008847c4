/* tests/unit/test_cpu_media.c - rows are set into others, averaged, filtered and unfolded as the
 * formulas say, and each gradient is the transpose of its forward pass. */
#include "config.h"

#include "kernels/backend.h"

#include "base/random.h"
#include "base/size.h"
#include "kernels/unfold.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(place_rows)
OPERATION(place_rows_backward)
OPERATION(pool_rows)
OPERATION(pool_rows_backward)
OPERATION(unfold)
OPERATION(unfold_backward)
OPERATION(filter_rows)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

static double *reals(size_t count)
{
    return calloc(count ? count : 1, sizeof(double));
}

static double dot(const double *a, const double *b, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

/* ---- Rows set into others ---- */

/* rows of x, rows to place, columns */
static const size_t place_sizes[][3] = {
    { 1, 1, 1 },    { 7, 3, 5 },      { 40, 40, 16 },
    { 50, 13, 67 }, { 300, 250, 96 }, { 9, 4, 20000 }
};

/* Distinct rows in no order; every fifth is none. */
static int32_t *places_of(size_t rows, size_t count)
{
    int32_t *at = machines_memory(count * sizeof(*at));
    size_t step = rows % 7 ? 7 : 11;

    for (size_t i = 0; i < count; i++)
        at[i] = i % 5 == 3 ? -(int32_t)i : (int32_t)(i * step % rows);
    return at;
}

static void check_place(void *machines, const size_t size[3], enum format format,
                        bool add)
{
    size_t rows = size[0], count = size[1], cols = size[2];
    struct operand x = operand_random(FORMAT_FP32, rows, cols, 1, 1);
    struct operand from = operand_random(format, count, cols, 2, 2);
    struct op_place_rows op = { x.tensor, from.tensor, places_of(rows, count), add };
    double *wanted = reals(x.numbers);

    memcpy(wanted, x.real, x.numbers * sizeof(double));
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; op.at[i] >= 0 && c < cols; c++)
            wanted[(size_t)op.at[i] * cols + c] =
                from.real[i * cols + c] + (add ? x.real[(size_t)op.at[i] * cols + c] : 0);
    machines_try(machines, run_place_rows, &op, &(struct outcome) { &x, wanted, 0, 0 },
                 1);
    machines_memory_free((void *)op.at);
    operand_clear(&x);
    operand_clear(&from);
    free(wanted);
}

static void test_rows_are_placed(void **state)
{
    for (size_t i = 0; i < TS_COUNT(place_sizes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            check_place(*state, place_sizes[i], formats[f], false);
            check_place(*state, place_sizes[i], formats[f], true);
        }
}

static void check_place_backward(void *machines, const size_t size[3], enum format format,
                                 bool add)
{
    size_t rows = size[0], count = size[1], cols = size[2];
    struct operand dx = operand_random(FORMAT_FP32, rows, cols, 1, 1);
    struct operand drows = operand_filled(format, count, cols, 7);
    struct op_place_rows_backward op = {
        .dx = dx.tensor, .at = places_of(rows, count), .count = count, .add = add
    };
    double *wanted = reals(dx.numbers), *wanted_rows = reals(drows.numbers);

    memcpy(wanted, dx.real, dx.numbers * sizeof(double));
    for (size_t i = 0; i < count; i++)
        for (size_t c = 0; op.at[i] >= 0 && c < cols; c++) {
            wanted_rows[i * cols + c] = dx.real[(size_t)op.at[i] * cols + c];
            if (!add)
                wanted[(size_t)op.at[i] * cols + c] = 0;
        }
    machines_try(machines, run_place_rows_backward, &op,
                 &(struct outcome) { &dx, wanted, 0, 0 }, 1);
    op.drows = drows.tensor;
    machines_try(
        machines, run_place_rows_backward, &op,
        (struct outcome[]) { { &dx, wanted, 0, 0 }, { &drows, wanted_rows, 0, 0 } }, 2);
    machines_memory_free((void *)op.at);
    operand_clear(&dx);
    operand_clear(&drows);
    free(wanted);
    free(wanted_rows);
}

static void test_gradients_of_placed_rows(void **state)
{
    for (size_t i = 0; i < TS_COUNT(place_sizes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            check_place_backward(*state, place_sizes[i], formats[f], false);
            check_place_backward(*state, place_sizes[i], formats[f], true);
        }
}

/* ---- Means ---- */

/* rows, columns, rows of a group; some leave rows over */
static const size_t pool_sizes[][3] = { { 1, 3, 1 },   { 2, 16, 2 },  { 9, 5, 2 },
                                        { 13, 40, 4 }, { 35, 67, 3 }, { 64, 48, 16 },
                                        { 700, 8, 2 }, { 5, 9000, 2 } };

static void check_pool(void *machines, const size_t size[3], enum format of_x,
                       enum format of_out)
{
    size_t rows = size[0], cols = size[1], group = size[2], count = rows / group;
    struct operand x = operand_random(of_x, rows, cols, 1, 1);
    struct operand out = operand_filled(of_out, count, cols, 7);
    struct operand dx = operand_filled(of_x, rows, cols, 7);
    struct operand dout = operand_random(of_out, count, cols, 1, 2);
    double *mean = reals(out.numbers), *share = reals(dx.numbers);
    struct op_pool_rows op = { out.tensor, x.tensor, group };
    struct op_pool_rows_backward back = { dx.tensor, dout.tensor, group };

    for (size_t i = 0; i < count * group; i++)
        for (size_t c = 0; c < cols; c++) {
            size_t at = i / group * cols + c;

            mean[at] += x.real[i * cols + c] / (double)group;
            share[i * cols + c] = dout.real[at] / (double)group;
        }
    assert_float_equal(dot(mean, dout.real, out.numbers), dot(share, x.real, x.numbers),
                       1e-9);
    machines_try(machines, run_pool_rows, &op, &(struct outcome) { &out, mean, 2, 0 }, 1);
    machines_try(machines, run_pool_rows_backward, &back,
                 &(struct outcome) { &dx, share, 1, 1 }, 1);
    operand_clear(&x);
    operand_clear(&out);
    operand_clear(&dx);
    operand_clear(&dout);
    free(mean);
    free(share);
}

static void test_rows_are_averaged(void **state)
{
    for (size_t i = 0; i < TS_COUNT(pool_sizes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            check_pool(*state, pool_sizes[i], formats[f], FORMAT_FP32);
            check_pool(*state, pool_sizes[i], FORMAT_FP32, formats[f]);
            check_pool(*state, pool_sizes[i], formats[f], formats[f]);
        }
}

static void test_rows_of_no_group(void **state)
{
    struct operand dx = operand_filled(FORMAT_BF16, 1, 20, 7);
    struct operand dout = operand_filled(FORMAT_FP32, 1, 20, 7);
    struct op_pool_rows_backward op = { dx.tensor, dout.tensor, 2 };
    const double wanted[20] = { 0 };

    op.dout.rows = 0;
    machines_try(*state, run_pool_rows_backward, &op,
                 &(struct outcome) { &dx, wanted, 0, 0 }, 1);
    operand_clear(&dx);
    operand_clear(&dout);
}

/* ---- Convolutions ---- */

static const int32_t lengths[] = { 0, 5, 1, 14, 0, 2, 3, 40 };

/* Kernels of Whisper, of one row, and others; columns of x. */
static const struct unfold_case {
    struct unfold_line line;
    size_t cols;
} unfold_cases[] = {
    { { 3, 1, 1 }, 7 },   { { 3, 2, 1 }, 7 },    { { 3, 1, 1 }, 80 },
    { { 3, 2, 1 }, 130 }, { { 1, 1, 0 }, 20 },   { { 5, 3, 2 }, 33 },
    { { 4, 4, 0 }, 16 },  { { 2, 3, 0 }, 5 },    { { 9, 1, 4 }, 64 },
    { { 64, 8, 40 }, 3 }, { { 3, 2, 1 }, 1280 },
};

struct convolution {
    const struct unfold_case *of;
    int32_t offsets[TS_COUNT(lengths) + 1], *taps, *uses;
    size_t rows, outputs, most;
    double *x, *out; /* out of x, by the definition of a convolution */
};

/* Compute what the kernel reads at each step of each sequence, from its definition. */
static void unfold_plainly(const struct convolution *v)
{
    const struct unfold_line *line = &v->of->line;
    size_t cols = v->of->cols, row = 0;

    for (size_t s = 0; s < TS_COUNT(lengths); s++)
        for (int64_t t = -(int64_t)line->padding;
             lengths[s] > 0 &&
             t + (int64_t)line->size <= lengths[s] + (int64_t)line->padding;
             t += (int64_t)line->stride, row++)
            for (size_t c = 0; c < cols; c++)
                for (size_t k = 0; k < line->size; k++) {
                    int64_t at = t + (int64_t)k;

                    v->out[(row * cols + c) * line->size + k] =
                        at < 0 || at >= lengths[s]
                            ? 0
                            : v->x[(size_t)(v->offsets[s] + at) * cols + c];
                }
    assert_int_equal(row, v->outputs);
}

static void convolution_open(struct convolution *v, const struct unfold_case *of)
{
    size_t count;

    *v = (struct convolution) { .of = of, .most = unfold_most(&of->line) };
    for (size_t s = 0; s < TS_COUNT(lengths); s++) {
        v->offsets[s + 1] = v->offsets[s] + lengths[s];
        v->outputs += unfold_rows(&of->line, (size_t)lengths[s]);
    }
    v->rows = (size_t)v->offsets[TS_COUNT(lengths)];
    count = v->outputs * of->line.size;
    v->taps = machines_memory(count * sizeof(*v->taps));
    v->uses = machines_memory(v->rows * v->most * sizeof(*v->uses));
    unfold_taps(&of->line, v->offsets, TS_COUNT(lengths), v->taps);
    unfold_uses(v->taps, count, v->rows, v->most, v->uses);
    v->out = reals(count * of->cols);
}

static void convolution_close(struct convolution *v)
{
    machines_memory_free(v->taps);
    machines_memory_free(v->uses);
    free(v->out);
}

static void check_unfold(void *machines, struct convolution *v, enum format of_x,
                         enum format of_out)
{
    size_t size = v->of->line.size, cols = v->of->cols;
    struct operand x = operand_random(of_x, v->rows, cols, 1, 1);
    struct operand out = operand_filled(of_out, v->outputs, cols * size, 7);
    struct op_unfold op = { out.tensor, x.tensor, v->taps, size };

    v->x = x.real;
    unfold_plainly(v);
    machines_try(machines, run_unfold, &op, &(struct outcome) { &out, v->out, 0, 0 }, 1);
    operand_clear(&x);
    operand_clear(&out);
}

static void test_rows_are_unfolded(void **state)
{
    for (size_t i = 0; i < TS_COUNT(unfold_cases); i++) {
        struct convolution v;

        convolution_open(&v, &unfold_cases[i]);
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            check_unfold(*state, &v, formats[f], formats[f]);
            check_unfold(*state, &v, FORMAT_FP32, formats[f]);
            check_unfold(*state, &v, formats[f], FORMAT_FP32);
        }
        convolution_close(&v);
    }
}

/* The transpose: unit vectors of the output, unfolded, are where an element of x is read. */
static void check_fold(void *machines, struct convolution *v, enum format of_x,
                       enum format of_out)
{
    size_t size = v->of->line.size, cols = v->of->cols;
    struct operand dx = operand_filled(of_x, v->rows, cols, 7);
    struct operand dout = operand_random(of_out, v->outputs, cols * size, 1, 2);
    struct op_unfold_backward op = { .dx = dx.tensor,
                                     .dout = dout.tensor,
                                     .uses = v->uses,
                                     .size = size,
                                     .most = v->most };
    double *wanted = reals(dx.numbers), *x = reals(dx.numbers);

    for (size_t i = 0; i < dx.numbers; i++)
        x[i] = (double)(i + 1); /* finds the element of x that each output is */
    v->x = x;
    unfold_plainly(v);
    for (size_t i = 0; i < dout.numbers; i++)
        if (v->out[i] > 0)
            wanted[(size_t)v->out[i] - 1] += dout.real[i];
    machines_try(machines, run_unfold_backward, &op,
                 &(struct outcome) { &dx, wanted, 4, 1 }, 1);
    operand_clear(&dx);
    operand_clear(&dout);
    free(wanted);
    free(x);
}

static void test_gradients_of_unfolded_rows(void **state)
{
    for (size_t i = 0; i < TS_COUNT(unfold_cases); i++) {
        struct convolution v;

        convolution_open(&v, &unfold_cases[i]);
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            check_fold(*state, &v, formats[f], formats[f]);
            check_fold(*state, &v, FORMAT_FP32, formats[f]);
            check_fold(*state, &v, formats[f], FORMAT_FP32);
        }
        convolution_close(&v);
    }
}

/* ---- Filters ---- */

/* rows of x, rows of the output, columns, taps */
static const size_t filter_sizes[][4] = { { 1, 1, 1, 1 },
                                          { 9, 5, 3, 9 },
                                          { 40, 21, 67, 9 },
                                          { 30, 30, 96, 3 },
                                          { 6, 4, 9000, 2 } };

/* Each output is compared with the sum of the sizes of its terms. */
static void check_filter(void *machines, const size_t size[4], enum format of_x,
                         enum format of_out, bool biased)
{
    size_t rows = size[0], count = size[1], cols = size[2], taps = size[3];
    struct operand x = operand_random(of_x, rows, cols, 1, 1);
    struct operand weight = operand_random(FORMAT_FP32, taps, cols, 1, 2);
    struct operand bias = operand_random(FORMAT_FP32, 1, cols, 1, 3);
    struct operand out = operand_filled(of_out, count, cols, 7);
    int32_t *at = machines_memory(count * taps * sizeof(*at));
    struct op_filter_rows op = { .out = out.tensor,
                                 .x = x.tensor,
                                 .weight = weight.tensor,
                                 .taps = at,
                                 .size = taps };
    double *wanted = reals(out.numbers);

    for (size_t i = 0; i < count * taps; i++)
        at[i] = i % 5 == 3 ? -1 : (int32_t)(i * 7 % rows);
    if (biased)
        op.bias = bias.tensor;
    for (size_t i = 0; i < out.numbers; i++) {
        size_t m = i / cols, c = i % cols;

        wanted[i] = biased ? bias.real[c] : 0;
        for (size_t k = 0; k < taps; k++)
            if (at[m * taps + k] >= 0)
                wanted[i] += weight.real[k * cols + c] *
                             x.real[(size_t)at[m * taps + k] * cols + c];
    }
    machines_try(machines, run_filter_rows, &op,
                 &(struct outcome) { &out, wanted, 16, (double)(taps + 1) }, 1);
    machines_memory_free(at);
    operand_clear(&x);
    operand_clear(&weight);
    operand_clear(&bias);
    operand_clear(&out);
    free(wanted);
}

static void test_rows_are_filtered(void **state)
{
    for (size_t i = 0; i < TS_COUNT(filter_sizes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            check_filter(*state, filter_sizes[i], formats[f], formats[f], true);
            check_filter(*state, filter_sizes[i], FORMAT_FP32, formats[f], i % 2);
            check_filter(*state, filter_sizes[i], formats[f], FORMAT_FP32, false);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_placed),
        cmocka_unit_test(test_gradients_of_placed_rows),
        cmocka_unit_test(test_rows_are_averaged),
        cmocka_unit_test(test_rows_of_no_group),
        cmocka_unit_test(test_rows_are_unfolded),
        cmocka_unit_test(test_gradients_of_unfolded_rows),
        cmocka_unit_test(test_rows_are_filtered),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
