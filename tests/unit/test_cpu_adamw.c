/* tests/unit/test_cpu_adamw.c - steps of AdamW and of plain descent are torch's. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(adamw)
OPERATION(sgd)

static const size_t sizes[] = { 1, 3, 17, 257, 40003 };

/* Weights, gradient, moments, copy, and the first, third and fourth in double. */
struct adamw_case {
    struct operand w, grad, m, v, copy;
    double *real[3];
    struct op_adamw op;
    struct reference_adamw reference;
};

static void case_open(struct adamw_case *c, enum format format, size_t numbers)
{
    c->w = operand_random(format, 1, numbers, 1, 1);
    c->grad = operand_random(format, 1, numbers, 3, 2);
    c->m = operand_filled(format, 1, numbers, 0);
    c->v = operand_filled(format, 1, numbers, 0);
    c->copy = operand_filled(FORMAT_BF16, 1, numbers, 7);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(numbers, sizeof(double));
    memcpy(c->real[0], c->w.real, numbers * sizeof(double));
    c->op = (struct op_adamw) { .w = c->w.tensor,
                                .grad = c->grad.tensor,
                                .m = c->m.tensor,
                                .v = c->v.tensor,
                                .copy = c->copy.tensor,
                                .lr = 0.01,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .decay = 0.1,
                                .grad_scale = 0.25 };
    c->reference = (struct reference_adamw) {
        .numbers = numbers,
        .grad = c->grad.real,
        .w = c->real[0],
        .m = c->real[1],
        .v = c->real[2],
        .lr = c->op.lr,
        .beta1 = c->op.beta1,
        .beta2 = c->op.beta2,
        .eps = c->op.eps,
        .decay = c->op.decay,
        .grad_scale = c->op.grad_scale,
    };
}

static void case_close(struct adamw_case *c)
{
    struct operand *operands[] = { &c->w, &c->grad, &c->m, &c->v, &c->copy };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

/* Another gradient, and what is there becomes what the next step starts from. */
static void case_next(struct adamw_case *c, int64_t step)
{
    c->op.step = c->reference.step = step;
    for (size_t i = 0; i < c->grad.numbers; i++)
        c->grad.real[i] = c->grad.real[i] * -0.75 + sin((double)(i + (size_t)step));
    operand_write(&c->grad);
    reference_adamw(&c->reference);
    memcpy(c->w.initial, c->w.block, c->w.bytes);
    memcpy(c->m.initial, c->m.block, c->m.bytes);
    memcpy(c->v.initial, c->v.block, c->v.bytes);
}

static void test_adamw_steps_are_the_formula(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct adamw_case c;

        case_open(&c, FORMAT_FP32, sizes[i]);
        for (int64_t step = 1; step <= 5; step++) {
            case_next(&c, step);
            machines_try(*state, run_adamw, &c.op,
                         (struct outcome[]) { { &c.w, c.real[0], 8, 0 },
                                              { &c.m, c.real[1], 8, 0 },
                                              { &c.v, c.real[2], 8, 0 },
                                              { &c.copy, c.real[0], 8, 0 } },
                         4);
        }
        case_close(&c);
    }
}

/* The moments follow from the rounded ones, so each step is held by itself. */
static void test_adamw_of_16_bits_rounds_once(void **state)
{
    static const enum format formats[] = { FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct adamw_case c;

        case_open(&c, formats[f], 257);
        c.op.eps = c.reference.eps = 1e-3;
        for (int64_t step = 1; step <= 3; step++) {
            memcpy(c.real[0], c.w.real, c.w.numbers * sizeof(double));
            memcpy(c.real[1], c.m.real, c.w.numbers * sizeof(double));
            memcpy(c.real[2], c.v.real, c.w.numbers * sizeof(double));
            case_next(&c, step);
            machines_try(*state, run_adamw, &c.op,
                         (struct outcome[]) { { &c.w, c.real[0], 8, 0 },
                                              { &c.m, c.real[1], 8, 0 },
                                              { &c.v, c.real[2], 8, 0 } },
                         3);
        }
        case_close(&c);
    }
}

static void test_adamw_shows_nan_and_inf(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < MACHINES; m++) {
        struct backend *be = machines->backends[m];
        struct adamw_case c;

        case_open(&c, FORMAT_FP32, 17);
        ((float *)c.grad.tensor.data)[3] = NAN;
        ((float *)c.grad.tensor.data)[16] = INFINITY;
        c.op.step = 1;
        be->ops->adamw(be, &c.op);
        operand_read(&c.w);
        assert_true(isnan(c.w.real[3]) && isnan(c.w.real[16]) && isfinite(c.w.real[4]));
        case_close(&c);
    }
}

static void test_sgd_is_the_formula(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct operand w = operand_random(formats[f], 1, sizes[i], 1, 1);
            struct operand grad = operand_random(formats[f], 1, sizes[i], 1, 2);
            struct operand copy = operand_filled(FORMAT_FP16, 1, sizes[i], 7);
            double *wanted = calloc(w.numbers, sizeof(double));
            struct op_sgd op = { .w = w.tensor,
                                 .grad = grad.tensor,
                                 .copy = copy.tensor,
                                 .lr = 0.1,
                                 .decay = 0.2,
                                 .grad_scale = 0.5 };

            for (size_t k = 0; k < w.numbers; k++)
                wanted[k] = w.real[k] - 0.1 * (0.5 * grad.real[k] + 0.2 * w.real[k]);
            machines_try(
                *state, run_sgd, &op,
                (struct outcome[]) { { &w, wanted, 4, 0 }, { &copy, wanted, 4, 0 } }, 2);
            operand_clear(&w);
            operand_clear(&grad);
            operand_clear(&copy);
            free(wanted);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_steps_are_the_formula),
        cmocka_unit_test(test_adamw_of_16_bits_rounds_once),
        cmocka_unit_test(test_adamw_shows_nan_and_inf),
        cmocka_unit_test(test_sgd_is_the_formula),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
