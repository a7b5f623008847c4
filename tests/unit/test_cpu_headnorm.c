/* tests/unit/test_cpu_headnorm.c - RMSNorm of each head and its gradients follow the
 * formula, in place and in wider rows. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(headnorm)
OPERATION(headnorm_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

struct shape {
    size_t rows, heads, size;
};

/* Heads of common sizes, of unusual ones, longer than a warp's lanes hold, and many
 * rows. */
static const struct shape shapes[] = { { 1, 1, 1 },    { 3, 2, 8 },    { 17, 9, 64 },
                                       { 5, 3, 128 },  { 3, 4, 256 },  { 7, 5, 80 },
                                       { 9, 3, 33 },   { 257, 3, 96 }, { 3, 2, 300 },
                                       { 1, 1, 2048 }, { 1100, 2, 20 } };

struct headnorm_case {
    struct operand x, weight, out, rstd, dout, dx, dweight;
    double *real[4]; /* out, rstd, dx, dweight */
    struct reference_headnorm reference;
};

static void case_open(struct headnorm_case *c, enum format format, struct shape shape,
                      double offset)
{
    size_t cols = shape.heads * shape.size;

    c->x = operand_random(format, shape.rows, cols, 3, 1);
    c->weight = operand_random(format, 1, shape.size, 1, 2);
    c->dout = operand_random(format, shape.rows, cols, 1, 3);
    c->out = operand_filled(format, shape.rows, cols, 7);
    c->rstd = operand_filled(FORMAT_FP32, shape.rows, shape.heads, 7);
    c->dx = operand_filled(format, shape.rows, cols, 7);
    c->dweight = operand_random(FORMAT_FP32, 1, shape.size, 1, 4);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(shape.rows * cols, sizeof(double));
    memcpy(c->real[3], c->dweight.real, shape.size * sizeof(double));
    c->reference = (struct reference_headnorm) {
        .rows = shape.rows,
        .heads = shape.heads,
        .size = shape.size,
        .eps = 1.0f / 64,
        .offset = offset,
        .x = c->x.real,
        .weight = c->weight.real,
        .dout = c->dout.real,
        .out = c->real[0],
        .rstd = c->real[1],
        .dx = c->real[2],
        .dweight = c->real[3],
    };
    reference_headnorm(&c->reference);
    reference_headnorm_backward(&c->reference);
}

static void case_close(struct headnorm_case *c)
{
    struct operand *operands[] = { &c->x,    &c->weight, &c->out,    &c->rstd,
                                   &c->dout, &c->dx,     &c->dweight };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

static void try_forward(struct machines *machines, struct headnorm_case *c)
{
    struct op_headnorm op = { .out = c->out.tensor,
                              .rstd = c->rstd.tensor,
                              .x = c->x.tensor,
                              .weight = c->weight.tensor,
                              .eps = 1.0f / 64,
                              .offset = (float)c->reference.offset,
                              .heads = c->reference.heads };

    machines_try(machines, run_headnorm, &op,
                 (struct outcome[]) { { &c->out, c->real[0], 8, 0 },
                                      { &c->rstd, c->real[1], 8, 0 } },
                 2);
    op.out = op.x; /* in place */
    machines_try(machines, run_headnorm, &op,
                 (struct outcome[]) { { &c->x, c->real[0], 8, 0 },
                                      { &c->rstd, c->real[1], 8, 0 } },
                 2);
}

/* The largest term that nearly cancels in dx: with one column all of it does. */
static double largest_step(const struct headnorm_case *c)
{
    const struct reference_headnorm *r = &c->reference;
    double largest = 0;

    for (size_t i = 0; i < c->dout.numbers; i++)
        largest = fmax(largest, fabs(r->dout[i] * (r->offset + r->weight[i % r->size]) *
                                     r->rstd[i / r->size]));
    return largest;
}

static void try_backward(struct machines *machines, struct headnorm_case *c)
{
    struct op_headnorm_backward op = { .dx = c->dx.tensor,
                                       .dweight = c->dweight.tensor,
                                       .dout = c->dout.tensor,
                                       .x = c->x.tensor,
                                       .weight = c->weight.tensor,
                                       .rstd = c->rstd.tensor,
                                       .offset = (float)c->reference.offset,
                                       .heads = c->reference.heads };
    double least = largest_step(c);

    memcpy(c->rstd.real, c->real[1], c->rstd.numbers * sizeof(double));
    operand_write(&c->rstd);
    machines_try(machines, run_headnorm_backward, &op,
                 (struct outcome[]) { { &c->dx, c->real[2], 8, least },
                                      { &c->dweight, c->real[3], 16, 0 } },
                 2);
    op.dx = op.dout; /* in place, with frozen weights */
    op.dweight = (struct tensor) { 0 };
    machines_try(machines, run_headnorm_backward, &op,
                 (struct outcome[]) { { &c->dout, c->real[2], 8, least } }, 1);
}

static void try_all(void **state, void try(struct machines *, struct headnorm_case *))
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++) {
            struct headnorm_case c;

            case_open(&c, formats[f], shapes[i], i % 2 ? 1 : 0);
            try(*state, &c);
            case_close(&c);
        }
}

static void test_headnorm_follows_the_formula(void **state)
{
    try_all(state, try_forward);
}

static void test_headnorm_backward_matches_the_reference(void **state)
{
    try_all(state, try_backward);
}

/* Queries in rows that also hold keys and values, as in a model. */
static void test_headnorm_leaves_other_columns_alone(void **state)
{
    static const struct shape shape = { 5, 2, 8 };
    struct headnorm_case c;
    struct operand all;
    double *wanted;

    case_open(&c, FORMAT_FP32, shape, 0);
    all = operand_random(FORMAT_FP32, 5, 32, 1, 9);
    wanted = calloc(all.numbers, sizeof(double));
    for (size_t i = 0; i < c.x.numbers; i++)
        all.real[i / 16 * 32 + 8 + i % 16] = c.x.real[i];
    operand_write(&all);
    memcpy(wanted, all.real, all.numbers * sizeof(double));
    for (size_t i = 0; i < c.x.numbers; i++)
        wanted[i / 16 * 32 + 8 + i % 16] = c.real[0][i];
    machines_try(*state, run_headnorm,
                 &(struct op_headnorm) { .out = tensor_columns(all.tensor, 8, 16),
                                         .rstd = c.rstd.tensor,
                                         .x = tensor_columns(all.tensor, 8, 16),
                                         .weight = c.weight.tensor,
                                         .eps = 1.0f / 64,
                                         .heads = 2 },
                 (struct outcome[]) { { &all, wanted, 8, 0 } }, 1);
    free(wanted);
    operand_clear(&all);
    case_close(&c);
}

static double loss(void *context)
{
    struct headnorm_case *c = context;
    double sum = 0;

    reference_headnorm(&c->reference);
    for (size_t i = 0; i < c->x.numbers; i++)
        sum += c->real[0][i] * c->dout.real[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    static const struct shape shape = { 3, 2, 7 };
    struct headnorm_case c;

    (void)state;
    case_open(&c, FORMAT_FP32, shape, 1);
    memset(c.real[3], 0, shape.size * sizeof(double));
    reference_headnorm_backward(&c.reference);
    assert_true(reference_slope_error(loss, &c, c.x.real, c.x.numbers, c.real[2]) < 1e-6);
    assert_true(reference_slope_error(loss, &c, c.weight.real, shape.size, c.real[3]) <
                1e-6);
    case_close(&c);
}

static void test_headnorm_propagates_nan_and_inf(void **state)
{
    static const struct shape shape = { 3, 2, 20 };
    static const float broken[] = { NAN, INFINITY };
    struct machines *machines = *state;
    struct headnorm_case c;
    struct op_headnorm op;

    case_open(&c, FORMAT_FP32, shape, 0);
    op = (struct op_headnorm) { .out = c.out.tensor,
                                .rstd = c.rstd.tensor,
                                .x = c.x.tensor,
                                .weight = c.weight.tensor,
                                .eps = 1.0f / 64,
                                .heads = 2 };
    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            ((float *)c.x.tensor.data)[c.x.tensor.stride + 19] = broken[i];
            machine_run(machines->backends[m], run_headnorm, &op);
            operand_read(&c.out);
            assert_true(isfinite(c.out.real[39]) && isfinite(c.out.real[60]));
            assert_true(isnan(c.out.real[59]));
        }
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_headnorm_follows_the_formula),
        cmocka_unit_test(test_headnorm_leaves_other_columns_alone),
        cmocka_unit_test(test_headnorm_backward_matches_the_reference),
        cmocka_unit_test(test_headnorm_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
