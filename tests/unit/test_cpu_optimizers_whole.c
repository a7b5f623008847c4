/* tests/unit/test_cpu_optimizers_whole.c - updates of whole matrices match their
 * formulas. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_optimizers.h"

OPERATION(adafactor)

/* A matrix has moments of rows and columns, a vector has one per weight. */
struct factored_case {
    struct operand w, grad, row, col, v, copy;
    struct op_adafactor op;
};

static void factored_open(struct factored_case *c, enum format format, size_t rows,
                          size_t cols)
{
    *c = (struct factored_case) {
        .w = operand_filled(format, 1, rows * cols, 0),
        .grad = operand_filled(FORMAT_FP32, 1, rows * cols, 0),
        .row = operand_filled(FORMAT_FP32, 1, rows, 0),
        .col = operand_filled(FORMAT_FP32, 1, cols, 0),
        .v = operand_filled(FORMAT_FP32, 1, cols, 0),
        .copy = operand_filled(FORMAT_BF16, 1, rows * cols, 0),
    };
    c->op = (struct op_adafactor) {
        .w = tensor_of(c->w.tensor.data, format, rows, cols),
        .grad = tensor_of(c->grad.tensor.data, FORMAT_FP32, rows, cols),
        .copy = tensor_of(c->copy.tensor.data, FORMAT_BF16, rows, cols),
        .decay = 0.1,
        .grad_scale = 1,
    };
    if (rows > 1) {
        c->op.row = c->row.tensor;
        c->op.col = c->col.tensor;
    } else {
        c->op.v = c->v.tensor;
    }
}

static void factored_close(struct factored_case *c)
{
    struct operand *all[] = { &c->w, &c->grad, &c->row, &c->col, &c->v, &c->copy };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
}

static void factored_run(struct factored_case *c, struct backend *be)
{
    golden_fill(&c->w, 100);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        golden_fill(&c->grad, (uint64_t)step + 1);
        c->op.lr = golden_rates[step];
        c->op.step = step + 1;
        machine_run(be, run_adafactor, &c->op);
    }
    operand_read(&c->w);
    operand_read(&c->row);
    operand_read(&c->col);
    operand_read(&c->v);
    operand_read(&c->copy);
}

static void test_adafactor_steps_are_those_of_transformers(void **state)
{
    struct machines *machines = *state;
    json_t *row = golden_case("adafactor");

    for (size_t k = 0; k < machines->count; k++)
        for (size_t rows = 1; rows <= 70; rows += 69) {
            const json_t *wanted = json_object_get(row, rows > 1 ? "matrix" : "vector");
            struct factored_case c;

            factored_open(&c, FORMAT_FP32, rows, 90);
            factored_run(&c, machines->backends[k]);
            golden_near(json_object_get(wanted, "w"), c.w.real, 7, 32);
            golden_near(json_object_get(wanted, "exp_avg_sq"), c.v.real, 1, 32);
            golden_near(json_object_get(wanted, "exp_avg_sq_row"), c.row.real, 1, 32);
            golden_near(json_object_get(wanted, "exp_avg_sq_col"), c.col.real, 1, 32);
            for (size_t i = 0; i < c.w.numbers; i++)
                assert_true(fabs(c.copy.real[i] - c.w.real[i]) <=
                            0x1p-8 * fabs(c.w.real[i]));
            factored_close(&c);
        }
    json_decref(row);
}

/* Rows that tasks divide, and formats; a step that is skipped. */
static void test_adafactor_steps_are_the_same_with_any_threads(void **state)
{
    struct machines *machines = *state;
    struct step_scalars *numbers = machines_memory(sizeof(*numbers));

    for (size_t k = 0; k < machines->count; k++) {
        size_t rows = machines->slow ? 37 : 467;
        struct factored_case a, b;

        factored_open(&a, FORMAT_BF16, rows, 70);
        factored_open(&b, FORMAT_BF16, rows, 70);
        a.op.stochastic = b.op.stochastic = true;
        a.op.first = b.op.first = 128;
        factored_run(&a, machines->backends[0]);
        factored_run(&b, machines->backends[k]);
        if (k < machines->alike) {
            assert_memory_equal(a.w.block, b.w.block, a.w.bytes);
            assert_memory_equal(a.col.block, b.col.block, a.col.bytes);
        }
        memcpy(a.w.block, b.w.block, a.w.bytes);
        *numbers = (struct step_scalars) { .learning_rate = 1, .factor = 1, .step = 3 };
        b.op.numbers = numbers;
        machine_run(machines->backends[k], run_adafactor, &b.op);
        assert_memory_equal(a.w.block, b.w.block, a.w.bytes);
        factored_close(&a);
        factored_close(&b);
    }
    machines_memory_free(numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adafactor_steps_are_those_of_transformers),
        cmocka_unit_test(test_adafactor_steps_are_the_same_with_any_threads),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
