/* tests/unit/test_cpu_xielu.c - the activation with learned slopes follows its formula, and so
 * do its gradients. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(xielu)
OPERATION(xielu_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 576 }, { 5, 701 }, { 1030, 24 }
};
/* alpha_p, alpha_n, beta, eps: as they are initialized, and others, far from them; eps is no
 * value of 16 bits, where the slope would have two sides */
static const double settings[][4] = { { 0.2031, -1.05, 0.5, -1e-6 },
                                      { 3, -4, 0.25, -0.1251 },
                                      { -30, 30, 1, 0 } };

/* The output, by the formula. */
static double xielu_at(const double by[4], double x)
{
    double p = log1p(exp(by[0])), n = by[2] + log1p(exp(by[1]));

    return x > 0 ? p * x * x + by[2] * x : n * (exp(fmin(x, by[3])) - 1 - x) + by[2] * x;
}

/* By a central difference; at 0, where the slope has two sides, that of the left one. */
static double slope_at(const double by[4], double x)
{
    if (x == 0)
        return -log1p(exp(by[1]));
    return (xielu_at(by, x + 1e-7) - xielu_at(by, x - 1e-7)) / 2e-7;
}

/* How much the output changes with alpha_p (0), or alpha_n (1). */
static double change_at(const double by[4], size_t which, double x)
{
    double more[4], less[4];

    memcpy(more, by, sizeof(more));
    memcpy(less, by, sizeof(less));
    more[which] += 1e-4;
    less[which] -= 1e-4;
    return (xielu_at(more, x) - xielu_at(less, x)) / 2e-4;
}

struct rows {
    struct operand scalars[4], x, dout, out, dx, dalpha[2];
    double by[4]; /* as the operands have them */
    double *value, *slope, sums[2];
};

static struct xielu scalars_of(const struct rows *r)
{
    return (struct xielu) { r->scalars[0].tensor, r->scalars[1].tensor,
                            r->scalars[2].tensor, r->scalars[3].tensor };
}

static void rows_open(struct rows *r, const double by[4], enum format format,
                      const size_t size[2])
{
    const double far[] = { 0, -20, 9, -0.5, 0 };

    for (size_t i = 0; i < 4; i++) { /* parameters may have 16 bits, like x */
        r->scalars[i] = operand_filled(i < 2 ? format : FORMAT_FP32, 1, 1, by[i]);
        r->by[i] = r->scalars[i].real[0];
    }
    r->x = operand_random(format, size[0], size[1], 2, 1);
    r->dout = operand_random(format, size[0], size[1], 1, 3);
    for (size_t i = 0; i < r->x.numbers / 5 && i < TS_COUNT(far); i++)
        r->x.real[5 * i] = far[i];
    operand_write(&r->x);
    r->out = operand_filled(format, size[0], size[1], 7);
    r->dx = operand_filled(format, size[0], size[1], 7);
    r->value = calloc(r->x.numbers, sizeof(double));
    r->slope = calloc(r->x.numbers, sizeof(double));
    for (size_t i = 0; i < 2; i++) {
        r->dalpha[i] = operand_filled(FORMAT_FP32, 1, 1, 3);
        r->sums[i] = 3;
    }
    for (size_t i = 0; i < r->x.numbers; i++) {
        double x = r->x.real[i], g = r->dout.real[i];

        r->value[i] = xielu_at(r->by, x);
        r->slope[i] = g * slope_at(r->by, x);
        r->sums[0] += g * change_at(r->by, 0, x);
        r->sums[1] += g * change_at(r->by, 1, x);
    }
}

static void rows_close(struct rows *r)
{
    struct operand *all[] = { &r->x, &r->dout, &r->out, &r->dx };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    for (size_t i = 0; i < 4; i++)
        operand_clear(&r->scalars[i]);
    for (size_t i = 0; i < 2; i++)
        operand_clear(&r->dalpha[i]);
    free(r->value);
    free(r->slope);
}

/* Sums have the rounding of as many terms, so tolerate some of their largest value. */
static void try_rows(struct machines *machines, struct rows *r)
{
    const double most = (double)r->x.numbers;
    const struct op_xielu op = { r->out.tensor, r->x.tensor, scalars_of(r) };
    struct op_xielu_backward back = {
        .dx = r->dx.tensor,
        .out = r->out.tensor,
        .dout = r->dout.tensor,
        .x = r->x.tensor,
        .dalpha_p = r->dalpha[0].tensor,
        .dalpha_n = r->dalpha[1].tensor,
        .by = scalars_of(r),
    };

    machines_try(machines, run_xielu, &op,
                 (struct outcome[]) { { &r->out, r->value, 8, 0 } }, 1);
    machines_try(machines, run_xielu_backward, &back,
                 (struct outcome[]) { { &r->dx, r->slope, 8, 0 },
                                      { &r->out, r->value, 8, 0 },
                                      { &r->dalpha[0], &r->sums[0], 8, most },
                                      { &r->dalpha[1], &r->sums[1], 8, most } },
                 4);
    /* in place, without the output and the gradients of the parameters */
    back.dx = back.x;
    back.out = back.dalpha_p = back.dalpha_n = (struct tensor) { 0 };
    machines_try(machines, run_xielu_backward, &back,
                 (struct outcome[]) { { &r->x, r->slope, 8, 0 } }, 1);
}

static void test_slopes_are_learned(void **state)
{
    for (size_t s = 0; s < TS_COUNT(settings); s++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t i = 0; i < TS_COUNT(sizes); i++) {
                struct rows r;

                rows_open(&r, settings[s], formats[f], sizes[i]);
                try_rows(*state, &r);
                rows_close(&r);
            }
}

/* Near 0, the output is beta x to all digits, and the gradient of alpha_n half of x^2. */
static void test_digits_near_zero_stay(void **state)
{
    const double by[4] = { 0.2031, -1.05, 0, 0 };
    const size_t size[2] = { 1, 8 };
    struct rows r;

    rows_open(&r, by, FORMAT_FP32, size);
    for (size_t i = 0; i < 8; i++) {
        double x = -pow(10, -(double)i / 2 - 0.1);

        r.x.real[i] = x;
        operand_write(&r.x);
        operand_read(&r.x);
        x = r.x.real[i];
        r.value[i] = log1p(exp(r.by[1])) * (expm1(x) - x);
        if (x > -0.01) /* of which the difference has no digits */
            r.value[i] = log1p(exp(r.by[1])) * x * x * (0.5 + x / 6 + x * x / 24);
    }
    for (size_t i = 0; i < 8; i++) {
        const double *wanted = &r.value[i];
        struct operand x = operand_filled(FORMAT_FP32, 1, 1, r.x.real[i]);
        struct operand out = operand_filled(FORMAT_FP32, 1, 1, 7);

        machines_try(*state, run_xielu,
                     &(struct op_xielu) { out.tensor, x.tensor, scalars_of(&r) },
                     (struct outcome[]) { { &out, wanted, 8, 0 } }, 1);
        operand_clear(&x);
        operand_clear(&out);
    }
    rows_close(&r);
}

static void test_nan_stays(void **state)
{
    struct machines *machines = *state;
    const size_t size[2] = { 2, 5 };
    struct rows r;

    rows_open(&r, settings[0], FORMAT_FP32, size);
    r.x.real[3] = NAN;
    operand_write(&r.x);
    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_xielu,
                    &(struct op_xielu) { r.out.tensor, r.x.tensor, scalars_of(&r) });
        machine_run(machines->backends[m], run_xielu_backward,
                    &(struct op_xielu_backward) { .dx = r.dx.tensor,
                                                  .dout = r.dout.tensor,
                                                  .x = r.x.tensor,
                                                  .dalpha_n = r.dalpha[1].tensor,
                                                  .by = scalars_of(&r) });
        operand_read(&r.out);
        operand_read(&r.dx);
        operand_read(&r.dalpha[1]);
        assert_true(isnan(r.out.real[3]) && isnan(r.dx.real[3]));
        assert_true(isnan(r.dalpha[1].real[0]));
        assert_false(isnan(r.out.real[4]));
    }
    rows_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slopes_are_learned),
        cmocka_unit_test(test_digits_near_zero_stay),
        cmocka_unit_test(test_nan_stays),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
