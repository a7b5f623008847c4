/* tests/unit/test_cpu_clamped.c - the clamped activation of experts and their biases follow
 * their formulas, and so do their gradients. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(clamped)
OPERATION(clamped_backward)
OPERATION(group_bias)
OPERATION(group_bias_backward)

#define ALPHA 1.702
#define LIMIT 1.51 /* no value of 16 bits, where the slope would have two sides */

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 576 }, { 5, 701 }, { 257, 96 }
};

/* The output, by the formula. */
static double clamped_at(double gate, double up)
{
    double g = fmin(gate, LIMIT), u = fmax(fmin(up, LIMIT), -LIMIT);

    return (u + 1) * g / (1 + exp(-ALPHA * g));
}

static double slope(double up, double down)
{
    return (up - down) / 2e-6;
}

/* operands of some rows and columns, of which many are beyond the limit */
struct rows {
    struct operand gate, up, dout, out, dgate, dup;
    double *wanted[3]; /* out, dgate, dup */
};

static void rows_open(struct rows *r, enum format format, const size_t size[2])
{
    r->gate = operand_random(format, size[0], size[1], 2, 1);
    r->up = operand_random(format, size[0], size[1], 2, 2);
    r->dout = operand_random(format, size[0], size[1], 1, 3);
    r->out = operand_filled(format, size[0], size[1], 7);
    r->dgate = operand_filled(format, size[0], size[1], 7);
    r->dup = operand_filled(format, size[0], size[1], 7);
    for (size_t i = 0; i < 3; i++)
        r->wanted[i] = calloc(r->gate.numbers, sizeof(double));
    for (size_t i = 0; i < r->gate.numbers; i++) {
        double x = r->gate.real[i], y = r->up.real[i], g = r->dout.real[i];

        r->wanted[0][i] = clamped_at(x, y);
        r->wanted[1][i] = g * slope(clamped_at(x + 1e-6, y), clamped_at(x - 1e-6, y));
        r->wanted[2][i] = g * slope(clamped_at(x, y + 1e-6), clamped_at(x, y - 1e-6));
    }
}

static void rows_close(struct rows *r)
{
    struct operand *all[] = { &r->gate, &r->up, &r->dout, &r->out, &r->dgate, &r->dup };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    for (size_t i = 0; i < 3; i++)
        free(r->wanted[i]);
}

static void try_rows(struct machines *machines, struct rows *r)
{
    const struct op_clamped op = { r->out.tensor, r->gate.tensor, r->up.tensor,
                                   (float)ALPHA, (float)LIMIT };
    struct op_clamped_backward back = { r->dgate.tensor, r->dup.tensor,  r->out.tensor,
                                        r->dout.tensor,  r->gate.tensor, r->up.tensor,
                                        (float)ALPHA,    (float)LIMIT };

    machines_try(machines, run_clamped, &op,
                 (struct outcome[]) { { &r->out, r->wanted[0], 8, 0 } }, 1);
    machines_try(machines, run_clamped_backward, &back,
                 (struct outcome[]) { { &r->dgate, r->wanted[1], 8, 0 },
                                      { &r->dup, r->wanted[2], 8, 0 },
                                      { &r->out, r->wanted[0], 8, 0 } },
                 3);
    back.dgate = back.gate; /* in place, and without the output */
    back.dup = back.up;
    back.out = (struct tensor) { 0 };
    machines_try(machines, run_clamped_backward, &back,
                 (struct outcome[]) { { &r->gate, r->wanted[1], 8, 0 },
                                      { &r->up, r->wanted[2], 8, 0 } },
                 2);
}

static void test_activation_is_clamped(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct rows r;

            rows_open(&r, formats[f], sizes[i]);
            try_rows(*state, &r);
            rows_close(&r);
        }
}

static void test_nan_is_not_clamped(void **state)
{
    struct machines *machines = *state;
    struct operand gate = operand_filled(FORMAT_FP32, 1, 2, NAN);
    struct operand up = operand_filled(FORMAT_FP32, 1, 2, 1);
    struct operand out = operand_filled(FORMAT_FP32, 1, 2, 7);

    gate.real[1] = 1;
    up.real[1] = NAN;
    operand_write(&gate);
    operand_write(&up);
    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_clamped,
                    &(struct op_clamped) { out.tensor, gate.tensor, up.tensor,
                                           (float)ALPHA, (float)LIMIT });
        operand_read(&out);
        assert_true(isnan(out.real[0]) && isnan(out.real[1]));
    }
    operand_clear(&gate);
    operand_clear(&up);
    operand_clear(&out);
}

/* ---- Biases ---- */

enum { GROUPS = 6 };

/* Groups of all sizes; some are empty, also the first and the last. */
static void fill_starts(int32_t starts[GROUPS + 1], size_t rows)
{
    const size_t parts[GROUPS + 1] = { 0, 0, 1, 1, 3, 8, 8 };

    for (size_t g = 0; g <= GROUPS; g++)
        starts[g] = (int32_t)(rows * parts[g] / 8);
}

static void try_bias(struct machines *machines, enum format format, const size_t size[2])
{
    struct operand x = operand_random(format, size[0], size[1], 1, 1);
    struct operand bias = operand_random(FORMAT_FP32, GROUPS, size[1], 1, 2);
    struct operand dbias = operand_random(FORMAT_FP32, GROUPS, size[1], 1, 3);
    int32_t *starts = machines_memory((GROUPS + 1) * sizeof(*starts));
    double *wanted = calloc(x.numbers, sizeof(double));
    double *sums = calloc(dbias.numbers, sizeof(double));

    fill_starts(starts, size[0]);
    memcpy(sums, dbias.real, dbias.numbers * sizeof(double));
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t i = (size_t)starts[g] * size[1]; i < (size_t)starts[g + 1] * size[1];
             i++) {
            wanted[i] = x.real[i] + bias.real[g * size[1] + i % size[1]];
            sums[g * size[1] + i % size[1]] += x.real[i];
        }
    machines_try(
        machines, run_group_bias_backward,
        &(struct op_group_bias_backward) { dbias.tensor, x.tensor, starts, GROUPS },
        (struct outcome[]) { { &dbias, sums, 64, 0 } }, 1);
    machines_try(machines, run_group_bias,
                 &(struct op_group_bias) { x.tensor, bias.tensor, starts, GROUPS },
                 (struct outcome[]) { { &x, wanted, 1, 0 } }, 1);
    operand_clear(&x);
    operand_clear(&bias);
    operand_clear(&dbias);
    machines_memory_free(starts);
    free(wanted);
    free(sums);
}

static void test_biases_are_of_groups(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_bias(*state, formats[f], sizes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activation_is_clamped),
        cmocka_unit_test(test_nan_is_not_clamped),
        cmocka_unit_test(test_biases_are_of_groups),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
