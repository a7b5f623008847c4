/* tests/unit/test_cpu_activation.c - SiLU, GELU, its approximations, ReLU, its square and their
 * gradients follow the formulas for every value. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(activation)
OPERATION(activation_backward)

static const enum activation kinds[] = { ACTIVATION_SILU,      ACTIVATION_GELU,
                                         ACTIVATION_GELU_TANH, ACTIVATION_RELU,
                                         ACTIVATION_RELU2,     ACTIVATION_SIGMOID,
                                         ACTIVATION_QUICK_GELU };
static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 1536 }, { 257, 100 }, { 1, 20000 }
};

struct activation_case {
    enum activation kind;
    struct operand x, out, dout, dx;
    double *real[2]; /* out, dx */
};

static void case_open(struct activation_case *c, enum activation kind, enum format format,
                      const size_t size[2])
{
    c->kind = kind;
    c->x = operand_random(format, size[0], size[1], 3, 1);
    c->dout = operand_random(format, size[0], size[1], 1, 3);
    c->out = operand_filled(format, size[0], size[1], 7);
    c->dx = operand_filled(format, size[0], size[1], 7);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(c->x.numbers, sizeof(double));
    for (size_t i = 0; i < c->x.numbers; i++) {
        double slope;

        reference_activation(kind, c->x.real[i], &c->real[0][i], &slope);
        c->real[1][i] = c->dout.real[i] * slope;
    }
}

static void case_close(struct activation_case *c)
{
    operand_clear(&c->x);
    operand_clear(&c->out);
    operand_clear(&c->dout);
    operand_clear(&c->dx);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

static void try_case(struct machines *machines, struct activation_case *c)
{
    struct op_activation op = { c->out.tensor, c->x.tensor, c->kind };
    struct op_activation_backward back = {
        .dx = c->dx.tensor, .dout = c->dout.tensor, .x = c->x.tensor, .kind = c->kind
    };

    machines_try(machines, run_activation, &op,
                 (struct outcome[]) { { &c->out, c->real[0], 4, 0 } }, 1);
    machines_try(machines, run_activation_backward, &back,
                 (struct outcome[]) { { &c->dx, c->real[1], 8, 0 } }, 1);
    back.dx = c->dout.tensor;
    machines_try(machines, run_activation_backward, &back,
                 (struct outcome[]) { { &c->dout, c->real[1], 8, 0 } }, 1);
}

static void test_activation_follows_the_formula(void **state)
{
    for (size_t k = 0; k < TS_COUNT(kinds); k++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t i = 0; i < TS_COUNT(sizes); i++) {
                struct activation_case c;

                case_open(&c, kinds[k], formats[f], sizes[i]);
                try_case(*state, &c);
                case_close(&c);
            }
}

/* In place: the gradient overwrites x, as does the function. */
static void test_activation_works_in_place(void **state)
{
    for (size_t k = 0; k < TS_COUNT(kinds); k++) {
        struct activation_case c;

        case_open(&c, kinds[k], FORMAT_BF16, sizes[3]);
        machines_try(*state, run_activation_backward,
                     &(struct op_activation_backward) { .dx = c.x.tensor,
                                                        .dout = c.dout.tensor,
                                                        .x = c.x.tensor,
                                                        .kind = c.kind },
                     (struct outcome[]) { { &c.x, c.real[1], 8, 0 } }, 1);
        case_close(&c);
        case_open(&c, kinds[k], FORMAT_BF16, sizes[3]);
        machines_try(*state, run_activation,
                     &(struct op_activation) { c.x.tensor, c.x.tensor, c.kind },
                     (struct outcome[]) { { &c.x, c.real[0], 4, 0 } }, 1);
        case_close(&c);
    }
}

/* The backward pass writes the function's value over dout, to the same bits as the
 * function: a run that keeps it equals one that computes it again. */
static void try_output(struct machines *machines, struct activation_case *c)
{
    struct op_activation op = { c->out.tensor, c->x.tensor, c->kind };
    struct op_activation_backward back = { .dx = c->dx.tensor,
                                           .out = c->dout.tensor,
                                           .dout = c->dout.tensor,
                                           .x = c->x.tensor,
                                           .kind = c->kind };

    for (size_t i = 0; i < machines->count; i++) {
        machine_run(machines->backends[i], run_activation, &op);
        memcpy(c->dout.block, c->dout.initial, c->dout.bytes);
        machine_run(machines->backends[i], run_activation_backward, &back);
        operand_read(&c->out);
        operand_read(&c->dout);
        assert_memory_equal(c->dout.real, c->out.real,
                            c->out.numbers * sizeof(c->out.real[0]));
    }
    machines_try(machines, run_activation_backward, &back,
                 (struct outcome[]) { { &c->dout, c->real[0], 4, 0 },
                                      { &c->dx, c->real[1], 8, 0 } },
                 2);
}

static void test_activation_backward_writes_the_output(void **state)
{
    for (size_t k = 0; k < TS_COUNT(kinds); k++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t i = 1; i < 3; i++) {
                struct activation_case c;

                case_open(&c, kinds[k], formats[f], sizes[i]);
                try_output(*state, &c);
                case_close(&c);
            }
}

/* The slope at x by differences of the value checks the reference itself. */
static void test_reference_slope_matches_differences(void **state)
{
    (void)state;
    for (size_t k = 0; k < TS_COUNT(kinds); k++)
        for (double x = -9.013; x < 9; x += 0.11) {
            const double steps[] = { 1, -1, 2, -2 }, shares[] = { 8, -8, -1, 1 };
            double value, slope, unused, sum = 0, step = 1e-3;

            reference_activation(kinds[k], x, &value, &slope);
            for (size_t i = 0; i < TS_COUNT(steps); i++) {
                reference_activation(kinds[k], x + steps[i] * step, &value, &unused);
                sum += shares[i] * value;
            }
            assert_true(fabs(sum / (12 * step) - slope) < 1e-10);
        }
}

/* The accuracy that the head of cpu_activation.h promises, value by value: units of 2^-23
 * of the value. A GPU's exponential has its own error. */
static double units_of(enum activation kind, double x, bool gpu)
{
    double twice = 2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x);
    double units = kind == ACTIVATION_SILU         ? 2
                   : kind == ACTIVATION_GELU       ? 5
                   : kind == ACTIVATION_SIGMOID    ? 3
                   : kind == ACTIVATION_QUICK_GELU ? 2 + 1.702 * fabs(x)
                                                   : 6 + 2 * fabs(twice);

    if (kind == ACTIVATION_RELU || kind == ACTIVATION_RELU2)
        return kind == ACTIVATION_RELU2;
    return units + (gpu ? 3 : 0);
}

static void check_range(enum activation kind, bool gpu, const struct operand *x,
                        const struct operand *out, const struct operand *dx)
{
    for (size_t i = 0; i < x->numbers; i++) {
        double value, slope, at = x->real[i], room;

        reference_activation(kind, at, &value, &slope);
        /* subnormal, or 1 + e^-x beyond fp32 */
        room = units_of(kind, at, gpu) * 0x1p-23 * fabs(value) + 2e-36;
        if (!(fabs(out->real[i] - value) <= room))
            fail_msg("kind %d at %.9g: %.9g, not %.9g: %.3g of the tolerance", (int)kind,
                     at, out->real[i], value, fabs(out->real[i] - value) / room);
        room = ((kind == ACTIVATION_SILU || kind == ACTIVATION_QUICK_GELU ? 10 : 3) +
                (gpu ? 3 : 0)) *
               0x1p-23;
        if (!(fabs(dx->real[i] - slope) <= room))
            fail_msg("slope of kind %d at %.9g: %.9g, not %.9g: %.3g of the tolerance",
                     (int)kind, at, dx->real[i], slope, fabs(dx->real[i] - slope) / room);
    }
}

static void test_activation_is_accurate_over_the_whole_range(void **state)
{
    enum { NUMBERS = 8001 };
    struct machines *machines = *state;
    struct operand x = operand_filled(FORMAT_FP32, 1, NUMBERS, 0);
    struct operand one = operand_filled(FORMAT_FP32, 1, NUMBERS, 1);
    struct operand out = operand_filled(FORMAT_FP32, 1, NUMBERS, 0);
    struct operand dx = operand_filled(FORMAT_FP32, 1, NUMBERS, 0);

    for (size_t i = 0; i < NUMBERS; i++) /* dense near 0, to +-105 */
        x.real[i] = pow(((double)i - NUMBERS / 2) / 849, 3);
    operand_write(&x);
    for (size_t k = 0; k < TS_COUNT(kinds); k++)
        for (size_t m = 0; m < machines->count; m++) {
            struct backend *be = machines->backends[m];

            machine_run(be, run_activation,
                        &(struct op_activation) { out.tensor, x.tensor, kinds[k] });
            machine_run(be, run_activation_backward,
                        &(struct op_activation_backward) { .dx = dx.tensor,
                                                           .dout = one.tensor,
                                                           .x = x.tensor,
                                                           .kind = kinds[k] });
            operand_read(&out);
            operand_read(&dx);
            check_range(kinds[k], be->ops->kind == DEVICE_CUDA, &x, &out, &dx);
        }
    operand_clear(&x);
    operand_clear(&one);
    operand_clear(&out);
    operand_clear(&dx);
}

static void check_extremes(enum activation kind, const float *out, const float *dx)
{
    assert_true(isnan(out[0]) && (isnan(dx[0]) || kind == ACTIVATION_RELU));
    if (kind == ACTIVATION_SIGMOID) {
        assert_true(out[1] == 1 && out[2] == 0 && out[3] == 1 && out[5] == 0);
        assert_true(dx[1] == 0 && dx[2] == 0 && dx[3] == 0 && isnan(dx[6]));
        return;
    }
    assert_true(out[1] == INFINITY);
    assert_true(out[2] == 0 && dx[2] == 0);
    if (kind == ACTIVATION_RELU2)
        assert_true(out[3] == INFINITY && dx[3] == 2e30f);
    else
        assert_true(out[3] == 1e30f && dx[3] == 1);
    assert_true(out[4] == 0);
    assert_true(isnan(out[5]) || out[5] == 0); /* -inf: 0 times it, or the limit */
    assert_true(isnan(dx[6]));                 /* dout is NaN */
}

static void test_activation_propagates_nan_and_inf(void **state)
{
    struct machines *machines = *state;
    static const float numbers[] = { NAN, INFINITY, -1e30f, 1e30f, 0, -INFINITY, 1 },
                       gradients[] = { 1, 1, 1, 1, 1, 1, NAN };
    float *x = machines_memory(sizeof(numbers)), *dout = machines_memory(sizeof(numbers));
    float *out = machines_memory(sizeof(numbers)), *dx = machines_memory(sizeof(numbers));

    memcpy(x, numbers, sizeof(numbers));
    memcpy(dout, gradients, sizeof(gradients));
    for (size_t k = 0; k < TS_COUNT(kinds); k++)
        for (size_t m = 0; m < machines->count; m++) {
            struct backend *be = machines->backends[m];

            machine_run(be, run_activation,
                        &(struct op_activation) { tensor_of(out, FORMAT_FP32, 1, 7),
                                                  tensor_of(x, FORMAT_FP32, 1, 7),
                                                  kinds[k] });
            machine_run(be, run_activation_backward,
                        &(struct op_activation_backward) {
                            .dx = tensor_of(dx, FORMAT_FP32, 1, 7),
                            .dout = tensor_of(dout, FORMAT_FP32, 1, 7),
                            .x = tensor_of(x, FORMAT_FP32, 1, 7),
                            .kind = kinds[k] });
            check_extremes(kinds[k], out, dx);
        }
    machines_memory_free(x);
    machines_memory_free(dout);
    machines_memory_free(out);
    machines_memory_free(dx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_slope_matches_differences),
        cmocka_unit_test(test_activation_follows_the_formula),
        cmocka_unit_test(test_activation_works_in_place),
        cmocka_unit_test(test_activation_backward_writes_the_output),
        cmocka_unit_test(test_activation_is_accurate_over_the_whole_range),
        cmocka_unit_test(test_activation_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
