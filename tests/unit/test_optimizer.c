/* tests/unit/test_optimizer.c - gradient norm, clipping, decay, and learning rates per
 * parameter. */
#include "config.h"

#include "train/model/optimizer.h"

#include "tests/unit/unit_model.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 20, \"hidden_size\": "
    "16,\"intermediate_size\": 24, \"num_hidden_layers\": 1, \"num_attention_heads\": 2}";

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

static float *floats(struct tensor t)
{
    return t.data;
}

/* Set all gradients to one value; return their number. */
static size_t fill(float value)
{
    size_t count = 0;

    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);

        for (size_t j = 0; j < p->rows * p->cols; j++)
            floats(p->grad)[j] = value;
        count += p->rows * p->cols;
    }
    return count;
}

/* Run a step with learning rate 0.5 and return its results. */
static struct step_scalars step(double scale)
{
    struct step_scalars numbers = unit_numbers(&u, 1, 1);
    struct error err = { 0 };
    double sum;

    numbers.learning_rate = 0.5;
    numbers.scaler.scale = scale;
    model_begin(u.model, &numbers);
    unit_must(optimizer_step(u.model, &u.plan, &err), &err);
    unit_must(model_end(u.model, &numbers, &sum, &err), &err);
    return numbers;
}

static void test_optimizer_norm_covers_all_unscaled_gradients(void **state)
{
    size_t count = fill(8);
    struct step_scalars numbers = step(4);

    (void)state;
    unit_assert_near("norm", numbers.norm, 2 * sqrt((double)count), 1e-6);
    assert_true(numbers.finite);
    floats(model_parameter(u.model, 3)->grad)[1] = INFINITY;
    assert_false(isfinite(step(4).norm));
    floats(model_parameter(u.model, 3)->grad)[1] = NAN;
    assert_false(isfinite(step(4).norm));
}

/* A skipped step changes neither weights nor moments nor copies. */
static void test_optimizer_skips_a_step_that_is_not_finite(void **state)
{
    struct tensor all = tensor_of(model_parameter(u.model, 0)->weight.data, FORMAT_FP32,
                                  1, model_gradients(u.model).cols);
    float *was = memory_alloc(tensor_bytes(all));

    (void)state;
    fill(1);
    floats(model_parameter(u.model, 3)->grad)[1] = INFINITY;
    memcpy(was, all.data, tensor_bytes(all));
    assert_false(step(1).finite);
    assert_memory_equal(was, all.data, tensor_bytes(all));
    free(was);
}

/* SGD shows the factor: w -= lr * clip / scale * g. */
static void test_optimizer_clips_to_the_norm(void **state)
{
    const struct parameter *p = model_parameter(u.model, 2);
    double norm = 2 * sqrt((double)fill(8));
    float was = floats(p->weight)[5];

    (void)state;
    u.plan.optimizer = optimizer_find("sgd");
    u.plan.precision.max_grad_norm = 2 * norm;
    step(4); /* below the limit: not clipped */
    unit_assert_near("step", was - floats(p->weight)[5], 0.5 * 2, 1e-5);
    was = floats(p->weight)[5];
    u.plan.precision.max_grad_norm = norm / 10;
    step(4); /* clipped to a tenth */
    unit_assert_near("step", was - floats(p->weight)[5], 0.5 * 2 / 10, 1e-5);
    was = floats(p->weight)[5];
    u.plan.precision.max_grad_norm = 0;
    step(4);
    unit_assert_near("step", was - floats(p->weight)[5], 0.5 * 2, 1e-5);
}

static void test_optimizer_decays_only_matrices(void **state)
{
    (void)state;
    u.plan.weight_decay = 0.2;
    fill(0);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        float was = floats(p->weight)[7];

        step(1);
        unit_assert_near(p->name, floats(p->weight)[7], p->rank == 2 ? was * 0.9 : was,
                         1e-6);
        for (size_t j = 0; j < model_parameters(u.model); j++)
            floats(model_parameter(u.model, j)->weight)[7] = was;
    }
}

/* The first step of AdamW has size lr for any gradient. */
static void test_optimizer_has_rates_per_parameter(void **state)
{
    struct parameter *p = model_parameter(u.model, 2);
    float was = floats(p->weight)[0], other = floats((p + 1)->weight)[0];

    (void)state;
    p->lr_factor = 4;
    fill(3);
    step(1);
    unit_assert_near("step", was - floats(p->weight)[0], 2, 1e-5);
    unit_assert_near("step", other - floats((p + 1)->weight)[0], 0.5, 1e-5);
}

/* Open the model in `dir` with trained adapters and a trained norm. */
static void start_adapters(const char *dir, double ratio)
{
    struct plan plan = unit_plan(dir);

    plan.method = METHOD_LORA;
    plan.additional_target = "embed_tokens,model.norm";
    plan.loraplus_lr_ratio = ratio;
    u = unit_model_text(llama, plan);
    unit_model_start(&u, 8, 1, 2);
}

/* Step all trained parameters with a gradient of 3: B and vectors have `ratio` times the
 * learning rate, A and other matrices the plain one. */
static void check_loraplus(const char *dir, double ratio)
{
    size_t fast = 0, plain = 0;

    start_adapters(dir, ratio);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);

        for (size_t j = 0; p->trainable && j < p->rows * p->cols; j++) {
            floats(p->weight)[j] = 1;
            floats(p->grad)[j] = 3;
        }
    }
    step(1);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        bool is_fast = strstr(p->name, "lora_B") || p->rank == 1;

        if (!p->trainable)
            continue;
        fast += is_fast;
        plain += !is_fast;
        unit_assert_near(p->name, 1 - floats(p->weight)[3],
                         is_fast && ratio > 0 ? 0.5 * ratio : 0.5, 1e-5);
    }
    assert_int_equal(fast, 7 + 1);
    assert_int_equal(plain, 7 + 1);
    unit_model_stop(&u);
}

static void test_optimizer_has_rates_of_loraplus(void **state)
{
    char *dir = unit_dir_new();
    struct error err = { 0 };

    setup(state);
    u.plan.model_name_or_path = dir;
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    check_loraplus(dir, 16);
    check_loraplus(dir, 0);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_optimizer_norm_covers_all_unscaled_gradients,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_skips_a_step_that_is_not_finite,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_clips_to_the_norm, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_decays_only_matrices, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_optimizer_has_rates_per_parameter, setup,
                                        teardown),
        cmocka_unit_test(test_optimizer_has_rates_of_loraplus),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
