/* tests/unit/test_cpu_swiglu.c - the gate and its gradients follow the formula for every
 * value. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(swiglu)
OPERATION(swiglu_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
static const enum activation kinds[] = { ACTIVATION_SILU,      ACTIVATION_GELU,
                                         ACTIVATION_GELU_TANH, ACTIVATION_RELU,
                                         ACTIVATION_RELU2,     ACTIVATION_SIGMOID,
                                         ACTIVATION_QUICK_GELU };
static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 1536 }, { 257, 100 }, { 1, 20000 }
};

struct swiglu_case {
    struct operand gate, up, out, dout, dgate, dup;
    double *real[3]; /* out, dgate, dup */
    struct reference_swiglu reference;
};

static void case_open(struct swiglu_case *c, enum activation kind, enum format format,
                      const size_t size[2])
{
    c->gate = operand_random(format, size[0], size[1], 4, 1);
    c->up = operand_random(format, size[0], size[1], 1, 2);
    c->dout = operand_random(format, size[0], size[1], 1, 3);
    c->out = operand_filled(format, size[0], size[1], 7);
    c->dgate = operand_filled(format, size[0], size[1], 7);
    c->dup = operand_filled(format, size[0], size[1], 7);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(size[0] * size[1], sizeof(double));
    c->reference = (struct reference_swiglu) {
        .numbers = size[0] * size[1],
        .kind = kind,
        .gate = c->gate.real,
        .up = c->up.real,
        .dout = c->dout.real,
        .out = c->real[0],
        .dgate = c->real[1],
        .dup = c->real[2],
    };
    reference_swiglu(&c->reference);
}

static void case_close(struct swiglu_case *c)
{
    struct operand *operands[] = {
        &c->gate, &c->up, &c->out, &c->dout, &c->dgate, &c->dup
    };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

static void try_forward(struct machines *machines, struct swiglu_case *c)
{
    struct op_swiglu op = { c->out.tensor, c->gate.tensor, c->up.tensor,
                            c->reference.kind, NULL };

    machines_try(machines, run_swiglu, &op,
                 (struct outcome[]) { { &c->out, c->real[0], 4, 0 } }, 1);
}

static void try_backward(struct machines *machines, struct swiglu_case *c)
{
    struct op_swiglu_backward op = { .dgate = c->dgate.tensor,
                                     .dup = c->dup.tensor,
                                     .dout = c->dout.tensor,
                                     .gate = c->gate.tensor,
                                     .up = c->up.tensor,
                                     .kind = c->reference.kind };

    machines_try(machines, run_swiglu_backward, &op,
                 (struct outcome[]) { { &c->dgate, c->real[1], 8, 0 },
                                      { &c->dup, c->real[2], 8, 0 } },
                 2);
    op.dgate = c->gate.tensor; /* in place */
    op.dup = c->up.tensor;
    machines_try(machines, run_swiglu_backward, &op,
                 (struct outcome[]) { { &c->gate, c->real[1], 8, 0 },
                                      { &c->up, c->real[2], 8, 0 } },
                 2);
}

/* The backward pass writes the forward's output over dout, to the same bits: a run that
 * keeps it equals one that computes it again. */
static void try_output(struct machines *machines, struct swiglu_case *c)
{
    struct op_swiglu forward = { c->out.tensor, c->gate.tensor, c->up.tensor,
                                 c->reference.kind, NULL };
    struct op_swiglu_backward op = { .dgate = c->dgate.tensor,
                                     .dup = c->dup.tensor,
                                     .out = c->dout.tensor,
                                     .dout = c->dout.tensor,
                                     .gate = c->gate.tensor,
                                     .up = c->up.tensor,
                                     .kind = c->reference.kind };

    for (size_t i = 0; i < machines->count; i++) {
        machine_run(machines->backends[i], run_swiglu, &forward);
        memcpy(c->dout.block, c->dout.initial, c->dout.bytes);
        machine_run(machines->backends[i], run_swiglu_backward, &op);
        operand_read(&c->out);
        operand_read(&c->dout);
        assert_memory_equal(c->dout.real, c->out.real,
                            c->out.numbers * sizeof(c->out.real[0]));
    }
    machines_try(machines, run_swiglu_backward, &op,
                 (struct outcome[]) { { &c->dout, c->real[0], 4, 0 },
                                      { &c->dgate, c->real[1], 8, 0 },
                                      { &c->dup, c->real[2], 8, 0 } },
                 3);
}

/* Every size with SiLU, some with the others. */
static void try_all(void **state,
                    void try(struct machines *machines, struct swiglu_case *c))
{
    for (size_t k = 0; k < TS_COUNT(kinds); k++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t i = 0; i < (k == 0 ? TS_COUNT(sizes) : 3); i++) {
                struct swiglu_case c;

                case_open(&c, kinds[k], formats[f], sizes[i]);
                try(*state, &c);
                case_close(&c);
            }
}

static void test_swiglu_follows_the_formula(void **state)
{
    try_all(state, try_forward);
}

static void test_swiglu_backward_matches_the_reference(void **state)
{
    try_all(state, try_backward);
}

static void test_swiglu_backward_writes_the_output(void **state)
{
    try_all(state, try_output);
}

static double loss(void *context)
{
    struct swiglu_case *c = context;
    double sum = 0;

    reference_swiglu(&(struct reference_swiglu) { .numbers = c->reference.numbers,
                                                  .kind = c->reference.kind,
                                                  .gate = c->gate.real,
                                                  .up = c->up.real,
                                                  .out = c->real[0] });
    for (size_t i = 0; i < c->reference.numbers; i++)
        sum += c->real[0][i] * c->dout.real[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    struct swiglu_case c;

    (void)state;
    for (size_t k = 0; k < TS_COUNT(kinds); k++) {
        case_open(&c, kinds[k], FORMAT_FP32, sizes[1]);
        assert_true(reference_slope_error(loss, &c, c.gate.real, c.gate.numbers,
                                          c.real[1]) < 1e-6);
        assert_true(reference_slope_error(loss, &c, c.up.real, c.up.numbers, c.real[2]) <
                    1e-6);
        case_close(&c);
    }
}

/* e^-x from 0 to inf, value by value, to 4 units in the last place. */
static void test_swiglu_is_accurate_over_the_whole_range(void **state)
{
    enum { NUMBERS = 4001 };
    struct machines *machines = *state;
    struct operand gate = operand_filled(FORMAT_FP32, 1, NUMBERS, 0);
    struct operand up = operand_filled(FORMAT_FP32, 1, NUMBERS, 1);
    struct operand out = operand_filled(FORMAT_FP32, 1, NUMBERS, 0);

    for (size_t i = 0; i < NUMBERS; i++)
        gate.real[i] = ((double)i - 2000) / 19;
    operand_write(&gate);
    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];

        machine_run(be, run_swiglu,
                    &(struct op_swiglu) { out.tensor, gate.tensor, up.tensor,
                                          ACTIVATION_SILU, NULL });
        operand_read(&out);
        for (size_t i = 0; i < NUMBERS; i++) {
            double x = gate.real[i], wanted = x / (1 + exp(-x));

            if (x < -87) /* 1 + e^-x may be beyond fp32 */
                assert_true(fabs(out.real[i]) <= 2e-36);
            else
                assert_true(fabs(out.real[i] - wanted) <= 4 * 0x1p-23 * fabs(wanted));
        }
    }
    operand_clear(&gate);
    operand_clear(&up);
    operand_clear(&out);
}

static void test_swiglu_propagates_nan_and_inf(void **state)
{
    struct machines *machines = *state;
    static const float gates[] = { NAN, INFINITY, 1, 1, -1e30f, 1e30f },
                       ups[] = { 1, 1, NAN, INFINITY, 1, 1 };
    float *gate = machines_memory(sizeof(gates)), *up = machines_memory(sizeof(ups));
    float *out = machines_memory(sizeof(gates));

    memcpy(gate, gates, sizeof(gates));
    memcpy(up, ups, sizeof(ups));
    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];

        machine_run(be, run_swiglu,
                    &(struct op_swiglu) { tensor_of(out, FORMAT_FP32, 1, 6),
                                          tensor_of(gate, FORMAT_FP32, 1, 6),
                                          tensor_of(up, FORMAT_FP32, 1, 6),
                                          ACTIVATION_SILU, NULL });
        assert_true(isnan(out[0]) && isnan(out[2]));
        assert_true(isinf(out[1]) && isinf(out[3]));
        assert_true(out[4] == 0 && out[5] == 1e30f);
    }
    machines_memory_free(gate);
    machines_memory_free(up);
    machines_memory_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_swiglu_follows_the_formula),
        cmocka_unit_test(test_swiglu_backward_matches_the_reference),
        cmocka_unit_test(test_swiglu_backward_writes_the_output),
        cmocka_unit_test(test_swiglu_is_accurate_over_the_whole_range),
        cmocka_unit_test(test_swiglu_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
