/* tests/unit/test_cpu_layernorm.c - LayerNorm and its gradients follow the formula. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(layernorm)
OPERATION(layernorm_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
/* Rows that fit a warp, that fit a block, and longer ones. */
static const size_t sizes[][2] = { { 1, 1 },    { 3, 17 },   { 17, 768 },  { 257, 100 },
                                   { 3, 2048 }, { 1, 8200 }, { 1, 16392 }, { 2, 20000 } };

/* One size and format, for the operation and for the reference. */
struct layernorm_case {
    struct operand x, delta, weight, bias, sum, out, stats, dout, dx, dcopy, dweight,
        dbias;
    double *real[6]; /* sum, out, stats, dx, dweight, dbias */
    struct reference_layernorm forward;
    struct reference_layernorm_backward backward;
};

static void operands_open(struct layernorm_case *c, enum format format, size_t rows,
                          size_t cols)
{
    c->x = operand_random(FORMAT_FP32, rows, cols, 3, 1);
    c->delta = operand_random(format, rows, cols, 1, 2);
    c->weight = operand_random(format, 1, cols, 1, 3);
    c->bias = operand_random(format, 1, cols, 1, 7);
    c->dout = operand_random(format, rows, cols, 1, 4);
    c->sum = operand_filled(FORMAT_FP32, rows, cols, 7);
    c->out = operand_filled(format, rows, cols, 7);
    c->stats = operand_filled(FORMAT_FP32, 2, rows, 7);
    c->dx = operand_random(FORMAT_FP32, rows, cols, 1, 5);
    c->dcopy = operand_filled(format, rows, cols, 7);
    c->dweight = operand_random(FORMAT_FP32, 1, cols, 1, 6);
    c->dbias = operand_random(FORMAT_FP32, 1, cols, 1, 8);
}

static void case_open(struct layernorm_case *c, enum format format, size_t rows,
                      size_t cols)
{
    operands_open(c, format, rows, cols);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(rows * (cols + 1), sizeof(double));
    memcpy(c->real[3], c->dx.real, rows * cols * sizeof(double));
    memcpy(c->real[4], c->dweight.real, cols * sizeof(double));
    memcpy(c->real[5], c->dbias.real, cols * sizeof(double));
    c->forward = (struct reference_layernorm) {
        .rows = rows,
        .cols = cols,
        .eps = 1e-5,
        .x = c->x.real,
        .delta = c->delta.real,
        .weight = c->weight.real,
        .bias = c->bias.real,
        .sum = c->real[0],
        .out = c->real[1],
        .stats = c->real[2],
    };
    c->backward = (struct reference_layernorm_backward) {
        .rows = rows,
        .cols = cols,
        .eps = 1e-5,
        .x = c->x.real,
        .weight = c->weight.real,
        .dout = c->dout.real,
        .dx = c->real[3],
        .dweight = c->real[4],
        .dbias = c->real[5],
    };
}

static void case_close(struct layernorm_case *c)
{
    struct operand *operands[] = { &c->x,   &c->delta, &c->weight,  &c->bias,
                                   &c->sum, &c->out,   &c->stats,   &c->dout,
                                   &c->dx,  &c->dcopy, &c->dweight, &c->dbias };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

/* Let weights be distances from 1. */
static void case_offset(struct layernorm_case *c)
{
    c->forward.offset = c->backward.offset = 1;
}

static struct op_layernorm forward_of(const struct layernorm_case *c)
{
    return (struct op_layernorm) { .out = c->out.tensor,
                                   .sum = c->sum.tensor,
                                   .stats = c->stats.tensor,
                                   .x = c->x.tensor,
                                   .delta = c->delta.tensor,
                                   .weight = c->weight.tensor,
                                   .bias = c->bias.tensor,
                                   .eps = 1e-5f,
                                   .offset = (float)c->forward.offset };
}

static void try_forward(struct machines *machines, struct layernorm_case *c)
{
    struct op_layernorm op = forward_of(c);

    reference_layernorm(&c->forward);
    machines_try(machines, run_layernorm, &op,
                 (struct outcome[]) { { &c->sum, c->real[0], 0, 0 },
                                      { &c->out, c->real[1], 8, 0 },
                                      { &c->stats, c->real[2], 8, 0 } },
                 3);
    c->forward.delta = c->forward.bias = NULL;
    op.delta = op.sum = op.bias = (struct tensor) { 0 };
    reference_layernorm(&c->forward);
    machines_try(machines, run_layernorm, &op,
                 (struct outcome[]) { { &c->out, c->real[1], 8, 0 },
                                      { &c->stats, c->real[2], 8, 0 } },
                 2);
}

static void test_layernorm_follows_the_formula(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct layernorm_case c;

            case_open(&c, formats[f], sizes[i][0], sizes[i][1]);
            if ((f + i) % 2)
                case_offset(&c);
            try_forward(*state, &c);
            case_close(&c);
        }
}

/* The residual stream may be updated in place, or without delta. */
static void test_layernorm_works_in_place_and_without_delta(void **state)
{
    struct layernorm_case c;
    struct op_layernorm op;

    case_open(&c, FORMAT_BF16, 17, 33);
    reference_layernorm(&c.forward);
    op = forward_of(&c);
    op.sum = c.x.tensor;
    machines_try(
        *state, run_layernorm, &op,
        (struct outcome[]) { { &c.x, c.real[0], 0, 0 }, { &c.out, c.real[1], 8, 0 } }, 2);
    case_close(&c);
    case_open(&c, FORMAT_BF16, 17, 33);
    reference_layernorm(&c.forward);
    op = (struct op_layernorm) { .sum = c.x.tensor,
                                 .x = c.x.tensor,
                                 .delta = c.delta.tensor };
    machines_try(*state, run_layernorm, &op,
                 (struct outcome[]) { { &c.x, c.real[0], 0, 0 } }, 1);
    case_close(&c);
}

/* Without a residual, as after the patches of CLIP: the output replaces x. */
static void test_layernorm_overwrites_its_input(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct layernorm_case c;
        struct op_layernorm op;

        case_open(&c, FORMAT_FP32, sizes[i][0], sizes[i][1]);
        c.forward.delta = NULL;
        reference_layernorm(&c.forward);
        op = forward_of(&c);
        op.delta = op.sum = (struct tensor) { 0 };
        op.out = c.x.tensor;
        machines_try(*state, run_layernorm, &op,
                     (struct outcome[]) { { &c.x, c.real[1], 8, 0 } }, 1);
        case_close(&c);
    }
}

/* A mean of 1000 deviations: E[x^2] - E[x]^2 would have no correct digits left.
 * Distances from the mean may be off by the mean's own rounding, 1000 * 2^-24. */
static void test_layernorm_is_accurate_far_from_zero(void **state)
{
    struct layernorm_case c;
    struct op_layernorm op;

    case_open(&c, FORMAT_FP32, 3, 768);
    for (size_t i = 0; i < c.x.numbers; i++)
        c.x.real[i] = 1000 + c.x.real[i] / 3;
    operand_write(&c.x);
    c.forward.delta = NULL;
    reference_layernorm(&c.forward);
    op = forward_of(&c);
    op.delta = op.sum = (struct tensor) { 0 };
    machines_try(*state, run_layernorm, &op,
                 (struct outcome[]) { { &c.out, c.real[1], 1000, 0 } }, 1);
    case_close(&c);
}

/* The largest term that nearly cancels in dx: with one column all of it does. */
static double largest_step(const struct layernorm_case *c)
{
    double largest = 0;

    for (size_t i = 0; i < c->dout.numbers; i++)
        largest =
            fmax(largest, fabs(c->dout.real[i] *
                               (c->forward.offset + c->weight.real[i % c->forward.cols]) *
                               c->stats.real[c->forward.rows + i / c->forward.cols]));
    return largest;
}

static void try_backward(struct machines *machines, struct layernorm_case *c,
                         enum format format)
{
    struct op_layernorm_backward op = { .dx = c->dx.tensor,
                                        .dcopy = c->dcopy.tensor,
                                        .dweight = c->dweight.tensor,
                                        .dbias = c->dbias.tensor,
                                        .dout = c->dout.tensor,
                                        .x = c->x.tensor,
                                        .weight = c->weight.tensor,
                                        .stats = c->stats.tensor,
                                        .offset = (float)c->backward.offset };
    double copied = format == FORMAT_FP32 ? 0 : 1; /* rounded twice */
    double least;

    reference_layernorm(&c->forward); /* stats of x without delta */
    memcpy(c->stats.real, c->real[2], c->stats.numbers * sizeof(double));
    operand_write(&c->stats);
    least = largest_step(c);
    reference_layernorm_backward(&c->backward);
    machines_try(machines, run_layernorm_backward, &op,
                 (struct outcome[]) { { &c->dx, c->real[3], 8, least },
                                      { &c->dcopy, c->real[3], 8 + copied, least },
                                      { &c->dweight, c->real[4], 16, 0 },
                                      { &c->dbias, c->real[5], 16, 0 } },
                 4);
    op.dweight = op.dcopy = (struct tensor) { 0 };
    machines_try(machines, run_layernorm_backward, &op,
                 (struct outcome[]) { { &c->dx, c->real[3], 8, least },
                                      { &c->dbias, c->real[5], 16, 0 } },
                 2);
    op.dbias = op.dweight;
    machines_try(machines, run_layernorm_backward, &op,
                 (struct outcome[]) { { &c->dx, c->real[3], 8, least } }, 1);
}

static void test_layernorm_backward_matches_the_reference(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct layernorm_case c;

            case_open(&c, formats[f], sizes[i][0], sizes[i][1]);
            c.forward.delta = NULL;
            if ((f + i) % 2)
                case_offset(&c);
            try_backward(*state, &c, formats[f]);
            case_close(&c);
        }
}

static double loss(void *context)
{
    struct layernorm_case *c = context;
    double sum = 0;

    reference_layernorm(&c->forward);
    for (size_t i = 0; i < c->forward.rows * c->forward.cols; i++)
        sum += c->forward.out[i] * c->dout.real[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    struct layernorm_case c;

    (void)state;
    case_open(&c, FORMAT_FP32, 3, 11);
    case_offset(&c);
    c.forward.delta = NULL;
    memset(c.real[3], 0, 33 * sizeof(double));
    memset(c.real[4], 0, 11 * sizeof(double));
    memset(c.real[5], 0, 11 * sizeof(double));
    reference_layernorm_backward(&c.backward);
    assert_true(reference_slope_error(loss, &c, c.x.real, 33, c.real[3]) < 1e-6);
    assert_true(reference_slope_error(loss, &c, c.weight.real, 11, c.real[4]) < 1e-6);
    assert_true(reference_slope_error(loss, &c, c.bias.real, 11, c.real[5]) < 1e-6);
    case_close(&c);
}

static void test_layernorm_propagates_nan_and_inf(void **state)
{
    static const float broken[] = { NAN, INFINITY };
    struct machines *machines = *state;
    struct layernorm_case c;
    struct op_layernorm op;

    case_open(&c, FORMAT_FP32, 3, 40);
    op = forward_of(&c);
    op.delta = op.sum = (struct tensor) { 0 };
    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            ((float *)c.x.tensor.data)[c.x.tensor.stride + 39] = broken[i];
            machine_run(machines->backends[m], run_layernorm, &op);
            operand_read(&c.out);
            assert_true(isfinite(c.out.real[0]) && isfinite(c.out.real[119]));
            assert_true(isnan(c.out.real[40]) && isnan(c.out.real[79]));
        }
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_layernorm_follows_the_formula),
        cmocka_unit_test(test_layernorm_works_in_place_and_without_delta),
        cmocka_unit_test(test_layernorm_overwrites_its_input),
        cmocka_unit_test(test_layernorm_is_accurate_far_from_zero),
        cmocka_unit_test(test_layernorm_backward_matches_the_reference),
        cmocka_unit_test(test_layernorm_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
