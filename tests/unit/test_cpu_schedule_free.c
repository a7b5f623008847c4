/* tests/unit/test_cpu_schedule_free.c - schedule-free AdamW is that of its package; weights
 * are exchanged with their average. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_optimizers.h"

OPERATION(schedule_free)
OPERATION(exchange)

enum { ROWS = 20, COLS = 15 };

struct average_case {
    struct operand w, grad, z, x, v, copy;
    struct op_schedule_free op;
};

static void average_open(struct average_case *c, size_t count)
{
    *c = (struct average_case) {
        .w = operand_filled(FORMAT_FP32, 1, count, 0),
        .grad = operand_filled(FORMAT_FP32, 1, count, 0),
        .z = operand_filled(FORMAT_FP32, 1, count, 0),
        .x = operand_filled(FORMAT_FP32, 1, count, 0),
        .v = operand_filled(FORMAT_FP32, 1, count, 0),
        .copy = operand_filled(FORMAT_BF16, 1, count, 0),
    };
    c->op = (struct op_schedule_free) {
        .w = c->w.tensor,
        .grad = c->grad.tensor,
        .z = c->z.tensor,
        .x = c->x.tensor,
        .v = c->v.tensor,
        .copy = c->copy.tensor,
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-3,
        .decay = 0.1,
        .lr = 1,
        .grad_scale = 1,
    };
    golden_fill(&c->w, 100);
    golden_fill(&c->z, 100);
    golden_fill(&c->x, 100);
}

static void average_close(struct average_case *c)
{
    struct operand *all[] = { &c->w, &c->grad, &c->z, &c->x, &c->v, &c->copy };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
}

static double at(const json_t *list, int i)
{
    return json_number_value(json_array_get(list, (size_t)i));
}

/* Numbers of the step give rate, scale and share. */
static void average_run(struct average_case *c, struct backend *be, const json_t *golden)
{
    struct step_scalars *numbers = machines_memory(sizeof(*numbers));

    c->op.numbers = numbers;
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        golden_fill(&c->grad, (uint64_t)step + 1);
        for (size_t i = 0; i < c->grad.numbers; i++)
            c->grad.real[i] *= 4;
        operand_write(&c->grad);
        *numbers = (struct step_scalars) {
            .learning_rate = at(json_object_get(golden, "rates"), step),
            .average_share = at(json_object_get(golden, "shares"), step),
            .factor = 0.25,
            .step = step + 1,
            .finite = 1,
        };
        machine_run(be, run_schedule_free, &c->op);
    }
    operand_read(&c->w);
    operand_read(&c->z);
    operand_read(&c->x);
    operand_read(&c->v);
    operand_read(&c->copy);
    memcpy(c->x.initial, c->x.block, c->x.bytes);
    numbers->finite = 0;
    machine_run(be, run_schedule_free, &c->op);
    assert_memory_equal(c->x.block, c->x.initial, c->x.bytes);
    c->op.numbers = NULL;
    machines_memory_free(numbers);
}

static void test_schedule_free_steps_are_those_of_its_package(void **state)
{
    struct machines *machines = *state;
    json_t *golden = golden_case("schedule_free");

    for (size_t k = 0; k < machines->count; k++) {
        struct average_case c;

        average_open(&c, ROWS * COLS);
        average_run(&c, machines->backends[k], golden);
        golden_near(json_object_get(golden, "y"), c.w.real, 1, 16);
        golden_near(json_object_get(golden, "z"), c.z.real, 1, 16);
        golden_near(json_object_get(golden, "x"), c.x.real, 1, 16);
        golden_near(json_object_get(golden, "v"), c.v.real, 1, 16);
        for (size_t i = 0; i < c.w.numbers; i++)
            assert_true(fabs(c.copy.real[i] - c.w.real[i]) <= 0x1p-8 * fabs(c.w.real[i]));
        average_close(&c);
    }
    json_decref(golden);
}

/* Elements that neither vectors nor tasks divide evenly. */
static void test_exchange_swaps_all_elements(void **state)
{
    struct machines *machines = *state;

    for (size_t k = 0; k < machines->count; k++) {
        size_t count = machines->slow ? 1001 : 100003;
        struct average_case c;
        struct op_exchange op;

        average_open(&c, count);
        golden_fill(&c.z, 7);
        op = (struct op_exchange) { c.w.tensor, c.z.tensor };
        memcpy(c.w.initial, c.w.block, c.w.bytes);
        memcpy(c.z.initial, c.z.block, c.z.bytes);
        machine_run(machines->backends[k], run_exchange, &op);
        assert_memory_equal(c.w.block, c.z.initial, c.w.bytes);
        assert_memory_equal(c.z.block, c.w.initial, c.w.bytes);
        average_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule_free_steps_are_those_of_its_package),
        cmocka_unit_test(test_exchange_swaps_all_elements),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
