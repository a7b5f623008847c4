/* tests/unit/test_cpu_optimizers_projected.c - updates by projected gradients are those of
 * galore_torch and apollo_torch. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_optimizers.h"
#include "train/model/optimizer_projected.h"

enum { RANK = 4, INTERVAL = 3, LONG = 40, SHORT = 24 };

/* Emulated GPUs are slow and alike. */
static size_t tried(const struct machines *machines)
{
    return machines->slow ? 1 : machines->count;
}

/* An update of a matrix, with everything that it reads. */
struct projected_case {
    struct operand w, grad, m, v, projection, norm, scratch, copy;
    struct plan plan;
    struct step_scalars *scalars;
    struct optimizer_update update;
    size_t rows, cols;
};

static struct plan plan_of(const char *optimizer, enum projection_side side, bool whole)
{
    struct projection_settings settings = {
        .target = "all",
        .rank = RANK,
        .interval = INTERVAL,
        .scale = strcmp(optimizer, "apollo") == 0 ? 32 : 2,
        .side = side,
        .whole_scale = whole,
        .scale_front = whole,
    };

    return (struct plan) { .optimizer = optimizer_find(optimizer),
                           .galore = settings,
                           .apollo = settings,
                           .weight_decay = 0.1,
                           .adam_beta1 = 0.9,
                           .adam_beta2 = 0.99,
                           .adam_epsilon = 1e-3 };
}

static void projected_open(struct projected_case *c, const struct plan *plan, size_t rows,
                           size_t cols)
{
    struct projection p = optimizer_projection(optimizer_projects(plan), rows, cols);
    size_t scratch = optimizer_projected_scratch(plan, rows, cols);

    *c = (struct projected_case) {
        .w = operand_filled(FORMAT_FP32, 1, rows * cols, 0),
        .grad = operand_filled(FORMAT_FP32, 1, rows * cols, 0),
        .m = operand_filled(FORMAT_FP32, 1, p.rows * p.cols, 0),
        .v = operand_filled(FORMAT_FP32, 1, p.rows * p.cols, 0),
        .projection = operand_filled(FORMAT_FP32, 1, p.elements, 0),
        .norm = operand_filled(FORMAT_FP32, 1, 1, 0),
        .scratch = operand_padded(FORMAT_FP32, 1, scratch, 0),
        .copy = operand_filled(FORMAT_BF16, 1, rows * cols, 0),
        .plan = *plan,
        .scalars = machines_memory(sizeof(*c->scalars)),
        .rows = rows,
        .cols = cols,
    };
    golden_fill(&c->w, 100);
}

static void projected_close(struct projected_case *c)
{
    struct operand *all[] = { &c->w,          &c->grad, &c->m,       &c->v,
                              &c->projection, &c->norm, &c->scratch, &c->copy };

    for (size_t i = 0; i < TS_COUNT(all); i++)
        operand_clear(all[i]);
    machines_memory_free(c->scalars);
}

static void projected_read(struct projected_case *c)
{
    operand_read(&c->w);
    operand_read(&c->m);
    operand_read(&c->v);
    operand_read(&c->copy);
}

/* A projection of the script, which is not of the gradient. */
static void give_projection(struct projected_case *c, int step)
{
    golden_fill(&c->projection, 200 + (uint64_t)step / INTERVAL);
    for (size_t i = 0; i < c->projection.numbers; i++)
        c->projection.real[i] /= 2;
    operand_write(&c->projection);
}

/* The gradients are scaled, as with a loss scale. */
static void projected_step(struct projected_case *c, struct backend *be, int step)
{
    struct error err = { 0 };
    bool norm = optimizer_of(&c->plan)->kinds[MOMENT_4] == MOMENT_NORM;

    c->update = (struct optimizer_update) {
        .plan = &c->plan,
        .w = tensor_of(c->w.tensor.data, FORMAT_FP32, c->rows, c->cols),
        .grad = tensor_of(c->grad.tensor.data, FORMAT_FP32, c->rows, c->cols),
        .copy = tensor_of(c->copy.tensor.data, FORMAT_BF16, c->rows, c->cols),
        .moments = { c->m.tensor, c->v.tensor, c->projection.tensor,
                     norm ? c->norm.tensor : c->scratch.tensor,
                     norm ? c->scratch.tensor : (struct tensor) { 0 } },
        .lr_factor = 1,
        .decay = 0.1,
        .scalars = c->scalars,
    };
    golden_fill(&c->grad, (uint64_t)step + 1);
    for (size_t i = 0; i < c->grad.numbers; i++)
        c->grad.real[i] *= 8;
    operand_write(&c->grad);
    *c->scalars = (struct step_scalars) { .learning_rate = golden_rates[step],
                                          .factor = 0.125,
                                          .step = step + 1,
                                          .finite = 1 };
    optimizer_of(&c->plan)->update(be, &c->update);
    if (!be->ops->sync(be, &err))
        fail_msg("%s", err.text);
}

static void check_case(struct backend *be, const struct plan *plan, bool tall,
                       const json_t *wanted)
{
    struct projected_case c;

    projected_open(&c, plan, tall ? LONG : SHORT, tall ? SHORT : LONG);
    machine_enter(be);
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        if (step % INTERVAL == 0)
            give_projection(&c, step);
        projected_step(&c, be, step);
    }
    projected_read(&c);
    golden_near(json_object_get(wanted, "w"), c.w.real, 7, 64);
    golden_near(json_object_get(wanted, "m"), c.m.real, 3, 64);
    golden_near(json_object_get(wanted, "v"), c.v.real, 3, 64);
    for (size_t i = 0; i < c.w.numbers; i++)
        assert_true(fabs(c.copy.real[i] - c.w.real[i]) <= 0x1p-8 * fabs(c.w.real[i]));

    /* a step with gradients that are not finite changes nothing */
    memcpy(c.w.initial, c.w.block, c.w.bytes);
    memcpy(c.v.initial, c.v.block, c.v.bytes);
    c.scalars->finite = 0;
    optimizer_of(&c.plan)->update(be, &c.update);
    assert_true(be->ops->sync(be, &(struct error) { 0 }));
    assert_memory_equal(c.w.block, c.w.initial, c.w.bytes);
    assert_memory_equal(c.v.block, c.v.initial, c.v.bytes);
    projected_close(&c);
}

static void test_galore_steps_are_those_of_its_package(void **state)
{
    static const struct {
        enum projection_side side;
        const char *name;
    } sides[] = {
        { PROJECTION_STD, "std" },
        { PROJECTION_REVERSE_STD, "reverse_std" },
        { PROJECTION_FULL, "full" },
    };
    struct machines *machines = *state;
    json_t *golden = golden_case("galore");

    for (size_t k = 0; k < tried(machines); k++)
        for (size_t i = 0; i < TS_COUNT(sides); i++)
            for (int tall = 0; tall < 2; tall++) {
                struct plan plan = plan_of("galore", sides[i].side, false);
                char name[32];

                snprintf(name, sizeof(name), "%s %s", tall ? "tall" : "wide",
                         sides[i].name);
                check_case(machines->backends[k], &plan, tall,
                           json_object_get(golden, name));
            }
    json_decref(golden);
}

/* The norm of its gradients jumps, so that it is limited. */
static void test_apollo_steps_are_those_of_its_package(void **state)
{
    struct machines *machines = *state;
    json_t *golden = golden_case("apollo");

    for (size_t k = 0; k < tried(machines); k++)
        for (int whole = 0; whole < 2; whole++)
            for (int tall = 0; tall < 2; tall++) {
                struct plan plan = plan_of("apollo", PROJECTION_STD, whole);
                char name[32];

                snprintf(name, sizeof(name), "%s std %s", tall ? "tall" : "wide",
                         whole ? "tensor" : "channel");
                check_case(machines->backends[k], &plan, tall,
                           json_object_get(golden, name));
            }
    json_decref(golden);
}

/* Sides that LLaMA-Factory names right and left are those of std for one of both shapes. */
static void test_projections_have_the_side_of_their_type(void **state)
{
    const struct projection_settings right = { .rank = RANK, .side = PROJECTION_RIGHT },
                                     left = { .rank = RANK, .side = PROJECTION_LEFT },
                                     high = { .rank = 100, .side = PROJECTION_STD };
    struct projection p = optimizer_projection(&right, SHORT, LONG);

    (void)state;
    assert_true(p.right && !p.left);
    assert_int_equal(p.rows * p.cols, SHORT * RANK);
    assert_int_equal(p.elements, RANK * LONG);
    p = optimizer_projection(&left, LONG, SHORT);
    assert_true(p.left && !p.right);
    assert_int_equal(p.rows * p.cols, RANK * SHORT);
    assert_int_equal(p.elements, LONG * RANK);
    p = optimizer_projection(&high, LONG, SHORT);
    assert_int_equal(p.rank, SHORT);
}

/* LLaMA-Factory, train/trainer_utils.py: any(target in name for target in targets) */
static void test_projections_are_of_layers_by_name(void **state)
{
    static const char up[] = "model.layers.1.mlp.up_proj.weight";
    struct projection_settings s = { .target = "all" };

    (void)state;
    assert_true(optimizer_projects_name(&s, up));
    assert_false(optimizer_projects_name(&s, "lm_head.weight"));
    s.target = "q_proj, mlp";
    assert_true(optimizer_projects_name(&s, up));
    s.target = "layers.1.,lm_head";
    assert_true(optimizer_projects_name(&s, up));
    assert_true(optimizer_projects_name(&s, "lm_head.weight"));
    s.target = "attn, weight";
    assert_false(optimizer_projects_name(&s, up));
}

static void test_galore_steps_the_rest_as_its_package_does(void **state)
{
    struct machines *machines = *state;
    json_t *golden = golden_case("galore_rest");

    for (size_t k = 0; k < tried(machines); k++) {
        struct backend *be = machines->backends[k];
        struct plan plan = plan_of("galore", PROJECTION_STD, false);
        struct operand m = operand_filled(FORMAT_FP32, 1, LONG * SHORT, 0);
        struct operand v = operand_filled(FORMAT_FP32, 1, LONG * SHORT, 0);
        struct projected_case c;

        plan.adam_epsilon = 0.1;
        projected_open(&c, &plan, SHORT, LONG);
        machine_enter(be);
        for (int step = 0; step < GOLDEN_STEPS; step++) {
            golden_fill(&c.grad, (uint64_t)step + 1);
            *c.scalars = (struct step_scalars) { .learning_rate = golden_rates[step],
                                                 .factor = 1,
                                                 .step = step + 1,
                                                 .finite = 1 };
            c.update = (struct optimizer_update) {
                .plan = &c.plan,
                .w = c.w.tensor,
                .grad = c.grad.tensor,
                .copy = c.copy.tensor,
                .moments = { m.tensor, v.tensor },
                .lr_factor = 1,
                .decay = 0.1,
                .scalars = c.scalars,
            };
            optimizer_of(&c.plan)->update(be, &c.update);
            assert_true(be->ops->sync(be, &(struct error) { 0 }));
        }
        operand_read(&c.w);
        golden_near(json_object_get(golden, "w"), c.w.real, 7, 16);
        projected_close(&c);
        operand_clear(&m);
        operand_clear(&v);
    }
    json_decref(golden);
}

/* Rows that tasks divide. */
static void test_projected_steps_are_the_same_with_any_threads(void **state)
{
    enum { ROWS = 301, COLS = 203 };
    static const char *const names[] = { "galore", "apollo" };
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(names) && !machines->slow; i++)
        for (size_t k = 1; k < machines->alike; k++) {
            struct plan plan = plan_of(names[i], PROJECTION_STD, false);
            struct projected_case one, other;
            struct projected_case *const both[] = { &one, &other };

            for (size_t j = 0; j < 2; j++) {
                projected_open(both[j], &plan, ROWS, COLS);
                for (int step = 0; step < GOLDEN_STEPS; step++) {
                    if (step % INTERVAL == 0)
                        give_projection(both[j], step);
                    projected_step(both[j], machines->backends[j == 0 ? 0 : k], step);
                }
            }
            assert_memory_equal(one.w.block, other.w.block, one.w.bytes);
            assert_memory_equal(one.v.block, other.v.block, one.v.bytes);
            assert_memory_equal(one.norm.block, other.norm.block, one.norm.bytes);
            projected_close(&one);
            projected_close(&other);
        }
}

/* A matrix of more elements than the scratch of its update; some of its rows. */
static void test_galore_updates_large_matrices_in_chunks(void **state)
{
    enum { ROWS = 2100, COLS = 2000, EACH = 67 };
    struct machines *machines = *state;
    struct plan plan = plan_of("galore", PROJECTION_STD, false);
    double rate = golden_rates[0] * sqrt(1 - plan.adam_beta2) / (1 - plan.adam_beta1);
    struct projected_case c;

    if (machines->slow)
        return;
    projected_open(&c, &plan, ROWS, COLS);
    assert_true(c.scratch.numbers < (size_t)ROWS * COLS + ROWS * RANK);
    give_projection(&c, 0);
    projected_step(&c, machines->backends[0], 0);
    projected_read(&c);
    golden_fill(&c.grad, 100); /* what the weights were */
    for (size_t row = ROWS - 1; row > EACH; row -= EACH)
        for (size_t i = row % EACH; i < COLS; i += EACH) {
            double update = 0, wanted;

            for (size_t k = 0; k < RANK; k++) {
                double m = c.m.real[row * RANK + k], v = c.v.real[row * RANK + k];

                update +=
                    m / (sqrt(v) + plan.adam_epsilon) * c.projection.real[k * COLS + i];
            }
            wanted = (c.grad.real[row * COLS + i] - 2 * rate * update) *
                     (1 - golden_rates[0] * 0.1);
            assert_true(fabs(c.w.real[row * COLS + i] - wanted) < 1e-6);
        }
    projected_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_galore_steps_are_those_of_its_package),
        cmocka_unit_test(test_apollo_steps_are_those_of_its_package),
        cmocka_unit_test(test_galore_steps_the_rest_as_its_package_does),
        cmocka_unit_test(test_projections_have_the_side_of_their_type),
        cmocka_unit_test(test_projections_are_of_layers_by_name),
        cmocka_unit_test(test_galore_updates_large_matrices_in_chunks),
        cmocka_unit_test(test_projected_steps_are_the_same_with_any_threads),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
