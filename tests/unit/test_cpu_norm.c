/* tests/unit/test_cpu_norm.c - RMSNorm, its gradients and sums of squares follow the
 * formula. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(rmsnorm)
OPERATION(rmsnorm_backward)
OPERATION(square_sum)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
/* Rows that fit a warp, that fit a block, and longer ones. */
static const size_t sizes[][2] = { { 1, 1 },    { 3, 17 },   { 17, 576 },  { 257, 100 },
                                   { 3, 2048 }, { 1, 8200 }, { 1, 16392 }, { 2, 20000 } };

/* One size and format, for the operation and for the reference. */
struct norm_case {
    struct operand x, delta, weight, sum, out, rstd, dout, dx, dcopy, dweight;
    double *real[5]; /* sum, out, rstd, dx, dweight */
    struct reference_norm forward;
    struct reference_norm_backward backward;
};

/* The offset is 1 with bf16, as in Gemma. */
static void case_open(struct norm_case *c, enum format format, size_t rows, size_t cols)
{
    double offset = format == FORMAT_BF16 ? 1 : 0;

    c->x = operand_random(FORMAT_FP32, rows, cols, 3, 1);
    c->delta = operand_random(format, rows, cols, 1, 2);
    c->weight = operand_random(format, 1, cols, 1, 3);
    c->dout = operand_random(format, rows, cols, 1, 4);
    c->sum = operand_filled(FORMAT_FP32, rows, cols, 7);
    c->out = operand_filled(format, rows, cols, 7);
    c->rstd = operand_filled(FORMAT_FP32, 1, rows, 7);
    c->dx = operand_random(FORMAT_FP32, rows, cols, 1, 5);
    c->dcopy = operand_filled(format, rows, cols, 7);
    c->dweight = operand_random(FORMAT_FP32, 1, cols, 1, 6);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(rows * cols, sizeof(double));
    c->forward = (struct reference_norm) {
        .rows = rows,
        .cols = cols,
        .eps = 1e-5,
        .offset = offset,
        .x = c->x.real,
        .delta = c->delta.real,
        .weight = c->weight.real,
        .sum = c->real[0],
        .out = c->real[1],
        .rstd = c->real[2],
    };
    memcpy(c->real[3], c->dx.real, rows * cols * sizeof(double));
    memcpy(c->real[4], c->dweight.real, cols * sizeof(double));
    c->backward = (struct reference_norm_backward) {
        .rows = rows,
        .cols = cols,
        .eps = 1e-5,
        .offset = offset,
        .x = c->x.real,
        .weight = c->weight.real,
        .dout = c->dout.real,
        .dx = c->real[3],
        .dweight = c->real[4],
    };
}

static void case_close(struct norm_case *c)
{
    struct operand *operands[] = {
        &c->x,    &c->delta, &c->weight, &c->sum,   &c->out,
        &c->rstd, &c->dout,  &c->dx,     &c->dcopy, &c->dweight
    };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

static void try_forward(struct machines *machines, struct norm_case *c)
{
    struct op_rmsnorm op = { .out = c->out.tensor,
                             .sum = c->sum.tensor,
                             .rstd = c->rstd.tensor,
                             .x = c->x.tensor,
                             .delta = c->delta.tensor,
                             .weight = c->weight.tensor,
                             .eps = 1e-5f,
                             .offset = (float)c->forward.offset };

    reference_norm(&c->forward);
    machines_try(machines, run_rmsnorm, &op,
                 (struct outcome[]) { { &c->sum, c->real[0], 0, 0 },
                                      { &c->out, c->real[1], 8, 0 },
                                      { &c->rstd, c->real[2], 8, 0 } },
                 3);
    c->forward.delta = NULL;
    op.delta = op.sum = (struct tensor) { 0 };
    reference_norm(&c->forward);
    machines_try(machines, run_rmsnorm, &op,
                 (struct outcome[]) { { &c->out, c->real[1], 8, 0 },
                                      { &c->rstd, c->real[2], 8, 0 } },
                 2);
}

static void test_norm_follows_the_formula(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct norm_case c;

            case_open(&c, formats[f], sizes[i][0], sizes[i][1]);
            try_forward(*state, &c);
            case_close(&c);
        }
}

/* The residual stream may be updated in place, or without delta. */
static void test_norm_works_in_place_and_without_delta(void **state)
{
    struct norm_case c;
    struct op_rmsnorm op;

    case_open(&c, FORMAT_BF16, 17, 33);
    reference_norm(&c.forward);
    op = (struct op_rmsnorm) { .sum = c.x.tensor,
                               .x = c.x.tensor,
                               .delta = c.delta.tensor };
    machines_try(*state, run_rmsnorm, &op,
                 (struct outcome[]) { { &c.x, c.real[0], 0, 0 } }, 1);
    case_close(&c);
}

static void try_backward(struct machines *machines, struct norm_case *c,
                         enum format format)
{
    struct op_rmsnorm_backward op = { .dx = c->dx.tensor,
                                      .dcopy = c->dcopy.tensor,
                                      .dweight = c->dweight.tensor,
                                      .dout = c->dout.tensor,
                                      .x = c->x.tensor,
                                      .weight = c->weight.tensor,
                                      .rstd = c->rstd.tensor,
                                      .offset = (float)c->backward.offset };
    double copied = format == FORMAT_FP32 ? 0 : 1; /* rounded twice */

    reference_norm(&c->forward); /* rstd of x without delta */
    memcpy(c->rstd.real, c->real[2], c->rstd.numbers * sizeof(double));
    operand_write(&c->rstd);
    reference_norm_backward(&c->backward);
    machines_try(machines, run_rmsnorm_backward, &op,
                 (struct outcome[]) { { &c->dx, c->real[3], 8, 0 },
                                      { &c->dcopy, c->real[3], 8 + copied, 0 },
                                      { &c->dweight, c->real[4], 16, 0 } },
                 3);
    op.dweight = op.dcopy = (struct tensor) { 0 };
    machines_try(machines, run_rmsnorm_backward, &op,
                 (struct outcome[]) { { &c->dx, c->real[3], 8, 0 } }, 1);
}

static void test_norm_backward_matches_the_reference(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct norm_case c;

            case_open(&c, formats[f], sizes[i][0], sizes[i][1]);
            c.forward.delta = NULL;
            try_backward(*state, &c, formats[f]);
            case_close(&c);
        }
}

static double loss(void *context)
{
    struct norm_case *c = context;
    double sum = 0;

    reference_norm(&c->forward);
    for (size_t i = 0; i < c->forward.rows * c->forward.cols; i++)
        sum += c->forward.out[i] * c->dout.real[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    struct norm_case c;

    (void)state;
    case_open(&c, FORMAT_FP32, 3, 11);
    c.forward.delta = NULL;
    c.forward.offset = c.backward.offset = 1;
    memset(c.real[3], 0, 33 * sizeof(double));
    memset(c.real[4], 0, 11 * sizeof(double));
    reference_norm_backward(&c.backward);
    assert_true(reference_slope_error(loss, &c, c.x.real, 33, c.real[3]) < 1e-6);
    assert_true(reference_slope_error(loss, &c, c.weight.real, 11, c.real[4]) < 1e-6);
    case_close(&c);
}

static double square_sum(struct backend *be, struct tensor x)
{
    double *sum = machines_memory(sizeof(*sum)), found;

    machine_run(be, run_square_sum, &(struct op_square_sum) { .x = x, .sum = sum });
    found = *sum;
    machines_memory_free(sum);
    return found;
}

static void test_square_sum_is_accurate_and_reproducible(void **state)
{
    static const size_t shapes[][2] = {
        { 1, 1 }, { 3, 17 }, { 257, 100 }, { 1, 100003 }, { 2, 33000 }
    };
    struct machines *machines = *state;

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++) {
            struct operand x =
                operand_random(formats[f], shapes[i][0], shapes[i][1], 1, i);
            double wanted = 0, first = square_sum(machines->backends[0], x.tensor);

            for (size_t k = 0; k < x.numbers; k++)
                wanted += x.real[k] * x.real[k];
            for (size_t m = 0; m < machines->count; m++) {
                double sum = square_sum(machines->backends[m], x.tensor);

                assert_true(fabs(sum - wanted) <= 4 * 0x1p-23 * wanted);
                assert_true(m >= machines->alike || sum == first);
            }
            operand_clear(&x);
        }
}

/* More pieces than tasks: 1 << 24 elements and some; 16777219 ones. */
static void test_square_sum_handles_many_elements(void **state)
{
    struct machines *machines = *state;
    size_t numbers = ((size_t)1 << 24) + 3;
    uint16_t *ones;

    if (machines->slow)
        skip();
    ones = machines_memory(numbers * sizeof(*ones));
    for (size_t i = 0; i < numbers; i++)
        ones[i] = 0x3f80;
    for (size_t m = 0; m < machines->alike; m++)
        assert_true(
            square_sum(machines->backends[m], tensor_of(ones, FORMAT_BF16, 1, numbers)) ==
            (double)numbers);
    machines_memory_free(ones);
}

static void test_square_sum_propagates_nan_and_inf(void **state)
{
    static const float broken[] = { NAN, INFINITY, -INFINITY, 2e19f };
    struct machines *machines = *state;
    struct operand x = operand_random(FORMAT_FP32, 3, 5000, 1, 1);

    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            memcpy(x.block, x.initial, x.bytes);
            ((float *)x.tensor.data)[2 * x.tensor.stride + 4999] = broken[i];
            assert_false(isfinite(square_sum(machines->backends[m], x.tensor)));
        }
    operand_clear(&x);
}

static void test_norm_propagates_nan_and_inf(void **state)
{
    static const float broken[] = { NAN, INFINITY };
    struct machines *machines = *state;
    struct norm_case c;

    case_open(&c, FORMAT_FP32, 3, 40);
    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            struct backend *be = machines->backends[m];

            ((float *)c.x.tensor.data)[c.x.tensor.stride + 39] = broken[i];
            machine_run(be, run_rmsnorm,
                        &(struct op_rmsnorm) { .out = c.out.tensor,
                                               .rstd = c.rstd.tensor,
                                               .x = c.x.tensor,
                                               .weight = c.weight.tensor,
                                               .eps = 1 });
            operand_read(&c.out);
            assert_true(isfinite(c.out.real[0]) && isfinite(c.out.real[119]));
            assert_true(isnan(c.out.real[79]));
        }
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_norm_follows_the_formula),
        cmocka_unit_test(test_norm_works_in_place_and_without_delta),
        cmocka_unit_test(test_norm_backward_matches_the_reference),
        cmocka_unit_test(test_norm_propagates_nan_and_inf),
        cmocka_unit_test(test_square_sum_is_accurate_and_reproducible),
        cmocka_unit_test(test_square_sum_handles_many_elements),
        cmocka_unit_test(test_square_sum_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
