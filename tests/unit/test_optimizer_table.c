/* tests/unit/test_optimizer_table.c - every optimizer is accepted, sized and stepped. */
#include "config.h"

#include "train/model/optimizer_table.h"

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

static void check_bytes(const struct plan *plan, const struct shapes *s)
{
    const struct optimizer *optimizer = optimizer_of(plan);
    struct memory_use use;
    size_t bytes = 0;

    assert_true(optimizer->moments <= MOMENTS_MAX);
    for (size_t i = 0; i < optimizer->moments; i++) {
        assert_true(optimizer->suffixes[i] || optimizer->kinds[i] == MOMENT_SCRATCH);
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
    optimizer_step(u->model, &u->plan);
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
        assert_true(!t.data || used > 0 || optimizer->kinds[i] == MOMENT_SCRATCH);
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
        cmocka_unit_test(test_optimizer_table_has_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
