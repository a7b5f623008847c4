/* tests/unit/test_optimizer.c - the norm, what is clipped, what decays, and whose rate.
 */
#include "config.h"

#include "train/optimizer.h"

#include "tests/unit/unit_model.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 20, \"hidden_size\": 16,"
    "\"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}";

static struct unit_model u;

static int setup(void **state)
{
    struct plan plan = unit_plan(NULL);

    (void)state;
    plan.train_from_scratch = true;
    u = unit_model_text(llama, plan);
    unit_model_start(&u, 8, 1, 2);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unit_model_stop(&u);
    return 0;
}

static float *numbers(struct tensor t)
{
    return t.data;
}

/* Every gradient of every parameter the same; their number. */
static size_t fill(float value)
{
    size_t count = 0;

    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);

        for (size_t j = 0; j < p->rows * p->cols; j++)
            numbers(p->grad)[j] = value;
        count += p->rows * p->cols;
    }
    return count;
}

static void step(double scale, double norm)
{
    struct optimizer_step how = {
        .learning_rate = 0.5, .scale = scale, .norm = norm, .step = 1
    };
    struct error err = { 0 };

    unit_must(optimizer_step(u.model, u.be, &u.plan, &how, &err), &err);
}

static void test_optimizer_norm_is_of_all_gradients_unscaled(void **state)
{
    size_t count = fill(8);
    struct error err = { 0 };
    double norm;

    (void)state;
    unit_must(optimizer_norm(u.model, u.be, 4, &norm, &err), &err);
    unit_near("norm", norm, 2 * sqrt((double)count), 1e-6);
    numbers(model_parameter(u.model, 3)->grad)[1] = INFINITY;
    unit_must(optimizer_norm(u.model, u.be, 4, &norm, &err), &err);
    assert_false(isfinite(norm));
    numbers(model_parameter(u.model, 3)->grad)[1] = NAN;
    unit_must(optimizer_norm(u.model, u.be, 4, &norm, &err), &err);
    assert_false(isfinite(norm));
}

/* SGD shows the factor: w -= lr * clip / scale * g. */
static void test_optimizer_clips_to_the_norm(void **state)
{
    const struct parameter *p = model_parameter(u.model, 2);
    float was = numbers(p->weight)[5];

    (void)state;
    u.plan.optimizer = OPTIMIZER_SGD;
    u.plan.precision.max_grad_norm = 1;
    fill(8);
    step(4, 0.5); /* below: nothing is clipped */
    unit_near("step", was - numbers(p->weight)[5], 0.5 * 2, 1e-5);
    was = numbers(p->weight)[5];
    step(4, 10); /* a tenth is left */
    unit_near("step", was - numbers(p->weight)[5], 0.5 * 2 / 10, 1e-5);
    was = numbers(p->weight)[5];
    u.plan.precision.max_grad_norm = 0;
    step(4, 10);
    unit_near("step", was - numbers(p->weight)[5], 0.5 * 2, 1e-5);
}

static void test_optimizer_decays_matrices_alone(void **state)
{
    (void)state;
    u.plan.weight_decay = 0.2;
    fill(0);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        float was = numbers(p->weight)[7];

        step(1, 1);
        unit_near(p->name, numbers(p->weight)[7], p->rank == 2 ? was * 0.9 : was, 1e-6);
        for (size_t j = 0; j < model_parameters(u.model); j++)
            numbers(model_parameter(u.model, j)->weight)[7] = was;
    }
}

/* The first step of AdamW is lr, whatever the gradient. */
static void test_optimizer_rates_by_parameter(void **state)
{
    struct parameter *p = model_parameter(u.model, 2);
    float was = numbers(p->weight)[0], other = numbers((p + 1)->weight)[0];

    (void)state;
    p->lr_factor = 4;
    fill(3);
    step(1, 1);
    unit_near("step", was - numbers(p->weight)[0], 2, 1e-5);
    unit_near("step", other - numbers((p + 1)->weight)[0], 0.5, 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_optimizer_norm_is_of_all_gradients_unscaled,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_clips_to_the_norm, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_decays_matrices_alone, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_rates_by_parameter, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
