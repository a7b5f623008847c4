/* tests/unit/test_cpu_optimizers_whole.c - updates of whole matrices match their
 * formulas. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_optimizers.h"
#include "train/model/optimizer_mini.h"
#include "train/model/optimizer_muon.h"
#include "train/model/optimizer_table.h"

/* Emulated GPUs are slow and alike. */
static size_t tried(const struct machines *machines)
{
    return machines->slow ? 1 : machines->count;
}

OPERATION(adafactor)
OPERATION(adam_mini)

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

    for (size_t k = 0; k < tried(machines); k++)
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

    for (size_t k = 0; k < tried(machines); k++) {
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

/* An update by Muon, with everything that it reads. */
struct muon_case {
    struct operand w, grad, m, scratch, copy;
    struct plan plan;
    struct step_scalars *scalars;
    struct optimizer_update update;
};

static void muon_open(struct muon_case *c, size_t rows, size_t cols)
{
    size_t scratch = optimizer_muon_scratch(rows, cols);

    *c = (struct muon_case) {
        .w = operand_filled(FORMAT_FP32, 1, rows * cols, 0),
        .grad = operand_filled(FORMAT_FP32, 1, rows * cols, 0),
        .m = operand_filled(FORMAT_FP32, 1, rows * cols, 0),
        .scratch = operand_padded(FORMAT_FP32, 1, scratch, 0),
        .copy = operand_filled(FORMAT_BF16, 1, rows * cols, 0),
        .plan = { .weight_decay = 0.1 },
        .scalars = machines_memory(sizeof(*c->scalars)),
    };
    golden_fill(&c->w, 100);
}

static void muon_close(struct muon_case *c)
{
    struct operand *all[] = { &c->w, &c->grad, &c->m, &c->scratch, &c->copy };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    machines_memory_free(c->scalars);
}

static void muon_run(struct muon_case *c, struct backend *be, size_t rows, size_t cols)
{
    struct error err = { 0 };

    c->update = (struct optimizer_update) {
        .plan = &c->plan,
        .w = tensor_of(c->w.tensor.data, FORMAT_FP32, rows, cols),
        .grad = tensor_of(c->grad.tensor.data, FORMAT_FP32, rows, cols),
        .copy = tensor_of(c->copy.tensor.data, FORMAT_BF16, rows, cols),
        .moments = { c->m.tensor, { 0 }, c->scratch.tensor },
        .lr_factor = 1,
        .scalars = c->scalars,
    };
    machine_enter(be);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        golden_fill(&c->grad, (uint64_t)step + 1);
        *c->scalars = (struct step_scalars) { .learning_rate = golden_rates[step],
                                              .factor = 1,
                                              .step = step + 1,
                                              .finite = 1 };
        optimizer_muon_update(be, &c->update);
        assert_true(be->ops->sync(be, &err));
    }
    operand_read(&c->w);
    operand_read(&c->m);
    operand_read(&c->copy);
}

static void test_muon_steps_are_those_of_llamafactory(void **state)
{
    struct machines *machines = *state;
    json_t *row = golden_case("muon");

    for (size_t k = 0; k < tried(machines); k++)
        for (int tall = 0; tall < 2; tall++) {
            const json_t *wanted = json_object_get(row, tall ? "tall" : "wide");
            size_t rows = tall ? 40 : 24, cols = tall ? 24 : 40;
            struct muon_case c;

            muon_open(&c, rows, cols);
            muon_run(&c, machines->backends[k], rows, cols);
            golden_near(json_object_get(wanted, "w"), c.w.real, 7, 64);
            golden_near(json_object_get(wanted, "momentum"), c.m.real, 7, 16);
            for (size_t i = 0; i < c.w.numbers; i++)
                assert_true(fabs(c.copy.real[i] - c.w.real[i]) <=
                            0x1p-8 * fabs(c.w.real[i]));
            memcpy(c.w.initial, c.w.block, c.w.bytes);
            memcpy(c.m.initial, c.m.block, c.m.bytes);
            c.scalars->finite = 0;
            optimizer_muon_update(machines->backends[k], &c.update);
            machines->backends[k]->ops->sync(machines->backends[k], NULL);
            assert_memory_equal(c.w.initial, c.w.block, c.w.bytes);
            assert_memory_equal(c.m.initial, c.m.block, c.m.bytes);
            muon_close(&c);
        }
    json_decref(row);
}

/* The rest has the AdamW of that class, whose epsilon is corrected, too. */
static void test_muon_steps_the_rest_as_llamafactory_does(void **state)
{
    struct machines *machines = *state;
    json_t *row = golden_case("muon_rest");

    for (size_t k = 0; k < tried(machines); k++) {
        struct operand v = operand_filled(FORMAT_FP32, 1, 960, 0);
        struct backend *be = machines->backends[k];
        struct error err = { 0 };
        struct muon_case c;

        muon_open(&c, 24, 40);
        c.plan = (struct plan) { .optimizer = optimizer_find("muon"),
                                 .weight_decay = 0.1,
                                 .adam_beta1 = 0.9,
                                 .adam_beta2 = 0.99,
                                 .adam_epsilon = 0.1 };
        c.update = (struct optimizer_update) {
            .plan = &c.plan,
            .w = c.w.tensor,
            .grad = c.grad.tensor,
            .copy = c.copy.tensor,
            .moments = { c.m.tensor, v.tensor },
            .lr_factor = 1,
            .scalars = c.scalars,
        };
        machine_enter(be);
        for (int step = 0; step < GOLDEN_STEPS; step++) {
            golden_fill(&c.grad, (uint64_t)step + 1);
            *c.scalars = (struct step_scalars) { .learning_rate = golden_rates[step],
                                                 .factor = 1,
                                                 .step = step + 1,
                                                 .finite = 1 };
            optimizer_of(&c.plan)->update(be, &c.update);
            assert_true(be->ops->sync(be, &err));
        }
        operand_read(&c.w);
        golden_near(json_object_get(row, "w"), c.w.real, 7, 16);
        muon_close(&c);
        operand_clear(&v);
    }
    json_decref(row);
}

/* Names as in transformers: LLaMA-Factory, train/trainer_utils.py. */
static void test_muon_updates_matrices_of_blocks(void **state)
{
    (void)state;
    assert_true(optimizer_muon_applies("model.layers.0.mlp.up_proj.weight", 2));
    assert_true(optimizer_muon_applies(
        "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 2));
    assert_false(optimizer_muon_applies("model.norm.weight", 1));
    assert_false(optimizer_muon_applies("model.embed_tokens.weight", 2));
    assert_false(optimizer_muon_applies("lm_head.weight", 2));
}

static void check_mini(struct machines *machines, size_t machine, const char *name,
                       const json_t *wanted)
{
    enum { ROWS = 24, COLS = 16, COUNT = ROWS * COLS, HEAD = COLS * COLS / 4 };
    struct backend *be = machines->backends[machine];
    bool is_vector = strstr(name, "norm") || strstr(name, "bias");
    struct operand w = operand_filled(FORMAT_FP32, 1, COUNT, 0);
    struct operand grad = operand_filled(FORMAT_FP32, 1, COUNT, 0);
    struct operand m = operand_filled(FORMAT_FP32, 1, COUNT, 0);
    struct operand v = operand_filled(FORMAT_FP32, 1, COUNT, 0);
    struct operand copy = operand_filled(FORMAT_BF16, 1, COUNT, 0);
    struct op_adam_mini op = {
        .w = w.tensor,
        .grad = grad.tensor,
        .m = m.tensor,
        .v = v.tensor,
        .copy = copy.tensor,
        .block = optimizer_mini_block(name, is_vector ? 1 : 2, COLS, HEAD, COUNT),
        .beta1 = 0.9,
        .beta2 = 0.99,
        .eps = 1e-8,
        .decay = is_vector ? 0 : 0.1,
        .grad_scale = 1,
    };

    assert_int_equal(COUNT / op.block, json_array_size(json_object_get(wanted, "v")));
    golden_fill(&w, 100);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        golden_fill(&grad, (uint64_t)step + 1);
        op.lr = golden_rates[step];
        op.step = step + 1;
        machine_run(be, run_adam_mini, &op);
    }
    operand_read(&w);
    operand_read(&v);
    operand_read(&copy);
    golden_near(json_object_get(wanted, "w"), w.real, 7, 32);
    golden_near(json_object_get(wanted, "v"), v.real, 1, 32);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(fabs(copy.real[i] - w.real[i]) <= 0x1p-8 * fabs(w.real[i]));
    operand_clear(&w);
    operand_clear(&grad);
    operand_clear(&m);
    operand_clear(&v);
    operand_clear(&copy);
}

static void test_adam_mini_steps_are_those_of_its_package(void **state)
{
    struct machines *machines = *state;
    json_t *golden = golden_case("adam_mini"), *wanted;
    const char *name;

    json_object_foreach(golden, name, wanted) for (size_t k = 0; k < tried(machines); k++)
        check_mini(machines, k, name, wanted);
    json_decref(golden);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adafactor_steps_are_those_of_transformers),
        cmocka_unit_test(test_adafactor_steps_are_the_same_with_any_threads),
        cmocka_unit_test(test_muon_steps_are_those_of_llamafactory),
        cmocka_unit_test(test_muon_steps_the_rest_as_llamafactory_does),
        cmocka_unit_test(test_muon_updates_matrices_of_blocks),
        cmocka_unit_test(test_adam_mini_steps_are_those_of_its_package),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
