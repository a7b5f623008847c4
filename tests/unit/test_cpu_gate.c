/* tests/unit/test_cpu_gate.c - a learned gate follows its formula, and so do its gradients. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(gate)
OPERATION(gate_backward)

/* out and dx, x, dout, gate */
static const enum format formats[][4] = {
    { FORMAT_FP32, FORMAT_FP32, FORMAT_FP32, FORMAT_FP32 },
    { FORMAT_BF16, FORMAT_BF16, FORMAT_FP32, FORMAT_FP32 },
    { FORMAT_FP16, FORMAT_FP16, FORMAT_FP16, FORMAT_FP16 },
    { FORMAT_BF16, FORMAT_FP32, FORMAT_BF16, FORMAT_BF16 },
};
static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 576 }, { 5, 701 }, { 1030, 24 }
};
static const double gates[] = { 0, 0.6, -2.5 };

struct rows {
    struct operand gate, x, dout, out, dx, dgate;
    int32_t *seen;
    double *value, *slope, sum, size; /* size: of the terms of the sum */
};

/* Every third row is not seen, and holds what must not count. */
static void hide_rows(struct rows *r)
{
    size_t rows = r->x.tensor.rows, cols = r->x.tensor.cols;

    r->seen = machines_memory(rows * sizeof(*r->seen));
    for (size_t row = 0; row < rows; row++) {
        r->seen[row] = row % 3 != 1;
        for (size_t i = 0; i < cols && !r->seen[row]; i++) {
            r->x.real[row * cols + i] = INFINITY;
            r->dout.real[row * cols + i] = NAN;
        }
    }
}

static void rows_open(struct rows *r, double gate, const enum format format[4],
                      const size_t size[2], bool hides)
{
    double factor;

    r->gate = operand_filled(format[3], 1, 1, gate);
    r->x = operand_random(format[1], size[0], size[1], 2, 1);
    r->dout = operand_random(format[2], size[0], size[1], 1, 3);
    r->out = operand_filled(format[0], size[0], size[1], 7);
    r->dx = operand_filled(format[0], size[0], size[1], 7);
    r->dgate = operand_filled(FORMAT_FP32, 1, 1, 3);
    r->seen = NULL;
    if (hides)
        hide_rows(r);
    operand_write(&r->x);
    operand_write(&r->dout);
    r->value = calloc(r->x.numbers, sizeof(double));
    r->slope = calloc(r->x.numbers, sizeof(double));
    factor = tanh(r->gate.real[0]);
    r->sum = 3;
    r->size = 3;
    for (size_t i = 0; i < r->x.numbers; i++) {
        double term = (1 - factor * factor) * r->dout.real[i] * r->x.real[i];

        if (r->seen && !r->seen[i / size[1]])
            continue;
        r->value[i] = factor * r->x.real[i];
        r->slope[i] = factor * r->dout.real[i];
        r->sum += term;
        r->size += fabs(term);
    }
}

static void rows_close(struct rows *r)
{
    struct operand *all[] = { &r->gate, &r->x, &r->dout, &r->out, &r->dx, &r->dgate };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    machines_memory_free(r->seen);
    free(r->value);
    free(r->slope);
}

static void try_rows(struct machines *machines, struct rows *r)
{
    struct op_gate op = { r->out.tensor, r->x.tensor, r->gate.tensor, r->seen };
    struct op_gate_backward back = { .dx = r->dx.tensor,
                                     .dgate = r->dgate.tensor,
                                     .dout = r->dout.tensor,
                                     .x = r->x.tensor,
                                     .gate = r->gate.tensor,
                                     .seen = r->seen };

    machines_try(machines, run_gate, &op,
                 (struct outcome[]) { { &r->out, r->value, 4, 0 } }, 1);
    machines_try(machines, run_gate_backward, &back,
                 (struct outcome[]) { { &r->dx, r->slope, 4, 0 },
                                      { &r->dgate, &r->sum, 4, r->size } },
                 2);
    /* in place, the gate frozen */
    op.out = op.x;
    machines_try(machines, run_gate, &op,
                 (struct outcome[]) { { &r->x, r->value, 4, 0 } }, 1);
    back.dx = back.dout;
    back.x = back.dgate = (struct tensor) { 0 };
    machines_try(machines, run_gate_backward, &back,
                 (struct outcome[]) { { &r->dout, r->slope, 4, 0 } }, 1);
}

static void try_all(struct machines *machines, bool hides)
{
    for (size_t g = 0; g < TS_COUNT(gates); g++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t i = 0; i < TS_COUNT(sizes); i++) {
                struct rows r;

                rows_open(&r, gates[g], formats[f], sizes[i], hides);
                try_rows(machines, &r);
                rows_close(&r);
            }
}

static void test_gate_follows_the_formula(void **state)
{
    try_all(*state, false);
}

static void test_gate_leaves_out_rows_that_are_not_seen(void **state)
{
    try_all(*state, true);
}

static void test_nan_stays(void **state)
{
    static const size_t size[] = { 3, 5 };
    struct machines *machines = *state;
    struct rows r;

    rows_open(&r, 0.5, formats[0], size, false);
    r.x.real[3] = NAN;
    operand_write(&r.x);
    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_gate,
                    &(struct op_gate) { r.out.tensor, r.x.tensor, r.gate.tensor, NULL });
        machine_run(machines->backends[m], run_gate_backward,
                    &(struct op_gate_backward) { .dx = r.dx.tensor,
                                                 .dgate = r.dgate.tensor,
                                                 .dout = r.dout.tensor,
                                                 .x = r.x.tensor,
                                                 .gate = r.gate.tensor });
        operand_read(&r.out);
        operand_read(&r.dgate);
        assert_true(isnan(r.out.real[3]) && isnan(r.dgate.real[0]));
        assert_false(isnan(r.out.real[4]));
    }
    rows_close(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gate_follows_the_formula),
        cmocka_unit_test(test_gate_leaves_out_rows_that_are_not_seen),
        cmocka_unit_test(test_nan_stays),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
