/* tests/unit/test_optimizer_table.c - every optimizer is accepted, sized and stepped. */
#include "config.h"

#include "train/model/optimizer_table.h"

#include <math.h>

#include "tests/unit/unit_model.h"
#include "tests/unit/unit_schema.h"
#include "train/model/shapes.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 20, \"hidden_size\": 16, "
    "\"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}";

static void test_optimizer_table_names_are_accepted_by_the_schema(void **state)
{
    (void)state;
    for (int i = 0; optimizer_names[i]; i++) {
        char text[128];
        struct job *job;

        snprintf(text, sizeof(text), HEAD "optim: %s\n", optimizer_names[i]);
        job = job_new(text);
        assert_only(job, NULL);
        assert_ptr_equal(optimizer_of(&job->plan),
                         optimizer_of(&(struct plan) { .optimizer = i }));
        assert_int_equal(job->plan.optimizer, optimizer_first_name(i));
        assert_int_equal(optimizer_find(optimizer_names[i]), i);
        job_free(job);
    }
    assert_int_equal(optimizer_find("of tomorrow"), -1);
}

static void test_optimizer_table_defaults_to_its_first_name(void **state)
{
    struct job *job = job_new(HEAD);

    (void)state;
    assert_int_equal(job->plan.optimizer, 0);
    job_free(job);
}

static bool is_scratch(enum moment_kind kind)
{
    return kind == MOMENT_SCRATCH || kind == MOMENT_PROJECTED_SCRATCH;
}

static void check_bytes(const struct plan *plan, const struct shapes *s)
{
    const struct optimizer *optimizer = optimizer_of(plan);
    struct memory_use use;
    size_t bytes = 0;

    assert_true(optimizer->moments <= MOMENTS_MAX);
    for (size_t i = 0; i < optimizer->moments; i++) {
        assert_true(optimizer->suffixes[i] || is_scratch(optimizer->kinds[i]));
        bytes += s->moment_bytes[i];
        if (optimizer->kinds[i] == MOMENT_AS_WEIGHT)
            assert_int_equal(s->moment_bytes[i],
                             s->segment * format_info(plan->precision.trainable)->bytes);
    }
    shapes_use(s, &use);
    assert_int_equal(use.optimizer, bytes);
}

/* Moments that the row does not have are absent; the others change with the weights. */
static void check_step(struct unit_model *u)
{
    const struct optimizer *optimizer = optimizer_of(&u->plan);
    const struct parameter *p = model_parameter(u->model, 2);
    struct step_scalars numbers = unit_numbers(u, 1, 1);
    struct error err = { 0 };
    float *weights = p->weight.data, *gradients = p->grad.data, was = weights[5];
    double sum;

    for (size_t i = 0; i < p->rows * p->cols; i++)
        gradients[i] = 3;
    numbers.learning_rate = 0.5;
    model_begin(u->model, &numbers);
    unit_must(optimizer_step(u->model, &u->plan, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    assert_true(numbers.finite);
    assert_true(weights[5] != was);
    assert_int_equal(model_moments(u->model), optimizer->moments);
    for (size_t i = 0; i < MOMENTS_MAX; i++) {
        struct tensor t =
            model_moment(u->model, (enum moment)i, p, p->at, p->rows * p->cols);
        size_t bytes = t.data ? tensor_bytes(t) : 0, used = 0;

        assert_true(!t.data || i < optimizer->moments);
        for (size_t j = 0; j < bytes; j++)
            used += ((const unsigned char *)t.data)[j] != 0;
        assert_true(!t.data || used > 0 || is_scratch(optimizer->kinds[i]));
    }
}

static void check_row(int index)
{
    struct plan plan = unit_plan(NULL);
    struct unit_model u;
    struct shapes s;
    struct error err = { 0 };

    plan.train_from_scratch = true;
    plan.optimizer = index;
    plan.galore = plan.apollo = (struct projection_settings) {
        .target = "all", .rank = 2, .interval = 1, .scale = 1
    };
    u = unit_model_text(llama, plan);
    unit_must(shapes_make(&u.plan, &u.config, 0, 0, u.arena, &s, &err), &err);
    check_bytes(&u.plan, &s);
    unit_model_start(&u, 8, 1, 2);
    check_step(&u);
    unit_model_stop(&u);
}

static void test_optimizer_table_rows_have_their_bytes_and_step(void **state)
{
    (void)state;
    for (int i = 0; optimizer_names[i]; i++)
        check_row(i);
    for (int i = 0; optimizer_keys[i]; i++)
        check_row(optimizer_find(optimizer_keys[i]));
}

/* A gradient (R, C) of rank 2, other for each step. */
static void fill_gradient(const struct parameter *p, int64_t step)
{
    float *gradient = p->grad.data;

    for (size_t i = 0; i < p->rows * p->cols; i++) {
        double row = (double)(i / p->cols);
        double column = (double)(i % p->cols) * (1 + 0.3 * (double)step);

        gradient[i] = (float)(sin(row) * cos(column) + 0.1 * sin(2 * row) * sin(column));
    }
}

/* Return what is left of a gradient outside the rows of a projection (2, C). */
static double remainder_of(const struct parameter *p, const float *rows)
{
    const float *gradient = p->grad.data;
    double left = 0;

    for (size_t r = 0; r < p->rows; r++) {
        const float *g = gradient + r * p->cols;
        double dots[2] = { 0, 0 };

        for (size_t i = 0; i < 2 * p->cols; i++)
            dots[i / p->cols] += (double)g[i % p->cols] * rows[i];
        for (size_t i = 0; i < p->cols; i++)
            left += fabs(g[i] - dots[0] * rows[i] - dots[1] * rows[p->cols + i]);
    }
    return left / (double)(p->rows * p->cols);
}

/* Every three steps, the projection of GaLore is made of the gradient at hand. */
static void test_galore_projects_on_singular_vectors(void **state)
{
    struct plan plan = unit_plan(NULL);
    struct unit_model u;
    const struct parameter *p;

    (void)state;
    plan.train_from_scratch = true;
    plan.optimizer = optimizer_find("galore");
    plan.galore = (struct projection_settings) {
        .target = "q_proj", .rank = 2, .interval = 3, .scale = 1
    };
    u = unit_model_text(llama, plan);
    unit_model_start(&u, 8, 1, 2);
    p = unit_parameter(&u, "model.layers.0.self_attn.q_proj.weight");
    for (int64_t step = 1; step <= 6; step++) {
        const float *rows;

        fill_gradient(p, step);
        unit_step(&u, step);
        rows = model_moment(u.model, MOMENT_3, p, p->at, p->rows * p->cols).data;
        assert_non_null(rows);
        assert_int_equal(remainder_of(p, rows) < 1e-6, step % 3 == 1);
    }
    p = unit_parameter(&u, "model.layers.0.self_attn.k_proj.weight");
    assert_null(model_moment(u.model, MOMENT_3, p, p->at, p->rows * p->cols).data);
    unit_model_stop(&u);
}

/* Issue a step whose gradient is that of fill_gradient, with an infinity if it overflows. */
static void try_step(struct unit_model *u, const struct parameter *p, int64_t step,
                     bool overflows)
{
    struct step_scalars numbers = unit_numbers(u, 1, step);
    struct error err = { 0 };
    double sum;

    fill_gradient(p, step);
    if (overflows)
        ((float *)p->grad.data)[3] = INFINITY;
    model_begin(u->model, &numbers);
    unit_must(optimizer_step(u->model, &u->plan, &err), &err);
    unit_must(model_end(u->model, &numbers, &sum, &err), &err);
    assert_int_equal(numbers.finite, !overflows);
}

/* A skipped step has the number of the next one, which makes the projection. */
static void test_galore_projects_on_no_infinities(void **state)
{
    static const struct {
        int64_t step;
        bool overflows, made;
    } steps[] = { { 1, true, false }, { 1, false, true },  { 2, false, false },
                  { 3, true, false }, { 3, false, false }, { 4, true, false },
                  { 4, true, false }, { 4, false, true } };
    struct plan plan = unit_plan(NULL);
    struct unit_model u;
    const struct parameter *p;

    (void)state;
    plan.train_from_scratch = true;
    plan.optimizer = optimizer_find("galore");
    plan.galore = (struct projection_settings) {
        .target = "q_proj", .rank = 2, .interval = 3, .scale = 1
    };
    u = unit_model_text(llama, plan);
    unit_model_start(&u, 8, 1, 2);
    p = unit_parameter(&u, "model.layers.0.self_attn.q_proj.weight");
    for (size_t i = 0; i < TS_COUNT(steps); i++) {
        const float *rows =
            model_moment(u.model, MOMENT_3, p, p->at, p->rows * p->cols).data;
        float before[2 * 16];

        assert_int_equal(p->cols, 16);
        memcpy(before, rows, sizeof(before));
        try_step(&u, p, steps[i].step, steps[i].overflows);
        if (steps[i].overflows)
            assert_memory_equal(rows, before, sizeof(before));
        fill_gradient(p, steps[i].step);
        assert_int_equal(remainder_of(p, rows) < 1e-6, steps[i].made);
    }
    unit_model_stop(&u);
}

static void test_optimizer_table_has_keys(void **state)
{
    struct job *job = job_new(HEAD "optim: sgd\nuse_muon: true\n");

    (void)state;
    assert_string_equal(optimizer_name(job->plan.optimizer), "muon");
    assert_true(optimizer_has_key(job->plan.optimizer));
    assert_string_equal(optimizer_name(job->plan.optim), "sgd");
    job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_optimizer_table_names_are_accepted_by_the_schema),
        cmocka_unit_test(test_optimizer_table_defaults_to_its_first_name),
        cmocka_unit_test(test_optimizer_table_rows_have_their_bytes_and_step),
        cmocka_unit_test(test_galore_projects_on_singular_vectors),
        cmocka_unit_test(test_galore_projects_on_no_infinities),
        cmocka_unit_test(test_optimizer_table_has_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
