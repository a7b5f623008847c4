/*
 * tests/unit/test_model_folded.c - tests that adapters folded into one matrix with the
 * frozen weights compute the same as separate adapters.
 */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "train/model/shapes.h"

static const char qwen[] =
    "{\"model_type\": \"qwen2\", \"vocab_size\": 60, \"hidden_size\": "
    "48,\"intermediate_size\": 80, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"initializer_range\": 0.15}";

static struct batch batch;
static char *base;

/* Biases of a new model are zero: give them a value. */
static void set_biases(struct unit_model *u)
{
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        struct parameter *p = model_parameter(u->model, i);
        float *w = p->weight.data;

        for (size_t j = 0; p->rank == 1 && j < p->cols; j++)
            w[j] += 0.1f * (float)random_normal(3, RANDOM_INIT, (uint32_t)i, j);
    }
}

static int setup(void **state)
{
    struct plan plan = unit_plan(NULL);
    struct unit_model u;
    struct error err = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 4; i++)
        unit_batch_random(&batch, 9 + 3 * i, 60, i);
    base = unit_dir_new();
    plan.train_from_scratch = true;
    plan.model_name_or_path = base;
    u = unit_model_text(qwen, plan);
    unit_model_start(&u, 16, 1, 1);
    set_biases(&u);
    unit_must(model_save(u.model, base, &err), &err);
    unit_model_stop(&u);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unit_batch_free(&batch);
    unit_dir_free(base);
    return 0;
}

/* B is zero in a new adapter, and A would get no gradient. */
static void fill_b(struct unit_model *u)
{
    for (size_t i = 0; i < model_parameters(u->model); i++) {
        struct parameter *p = model_parameter(u->model, i);
        float *w = p->weight.data;

        if (!strstr(p->name, "lora_B"))
            continue;
        for (size_t j = 0; j < p->rows * p->cols; j++)
            w[j] = 0.1f * (float)random_normal(4, RANDOM_INIT, (uint32_t)i, j);
        if (p->copy.data)
            u->be->ops->convert(u->be,
                                &(struct op_convert) { .out = p->copy, .x = p->weight });
    }
}

/* Results of a pass with LoRA, and of two more after steps. */
struct found {
    double loss, later;
    struct text names; /* of the trained parameters */
    float *gradients;
    size_t count;
};

static struct found run(struct plan plan)
{
    struct unit_model u = unit_model_text(qwen, plan);
    struct found found = { 0 };

    unit_model_start(&u, batch.rows, batch.sequences, 2);
    fill_b(&u);
    found.loss = unit_train(&u, &batch);
    text_init(&found.names, 0);
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        size_t numbers = p->rows * p->cols;

        if (!p->trainable)
            continue;
        text_addf(&found.names, "%s\n", p->name);
        found.gradients = memory_resize(found.gradients, found.count + numbers,
                                        sizeof(*found.gradients));
        memcpy(found.gradients + found.count, p->grad.data,
               numbers * sizeof(*found.gradients));
        found.count += numbers;
    }
    for (int64_t step = 1; step <= 2; step++) {
        unit_step(&u, step);
        found.later = unit_train(&u, &batch);
    }
    unit_model_stop(&u);
    return found;
}

static void found_clear(struct found *found)
{
    text_clear(&found->names);
    free(found->gradients);
}

static void check_near(const struct found *is, const struct found *expected,
                       double rounding)
{
    double away = 0, norm = 0;

    unit_assert_near("loss", is->loss, expected->loss, rounding);
    assert_string_equal(is->names.data, expected->names.data);
    for (size_t i = 0; i < expected->count; i++) {
        double by = (double)is->gradients[i] - expected->gradients[i];

        norm += (double)expected->gradients[i] * expected->gradients[i];
        away += by * by;
    }
    assert_true(norm > 0);
    if (!(sqrt(away) <= rounding * sqrt(norm)))
        fail_msg("gradients differ by %g of %g", sqrt(away), sqrt(norm));
}

/* Sums are in another order, and 16-bit intermediate gradients are rounded once instead
 * of twice, by half an ulp (2^-9 in bf16, 2^-12 in fp16), in each of two blocks. */
static const struct {
    const char *target, *additional;
    enum format compute;
    bool checkpointing;
    double rounding;
} cases[] = {
    { "all", NULL, FORMAT_FP32, false, 1e-6 },
    { "q_proj,v_proj,down_proj", NULL, FORMAT_FP32, true, 1e-6 },
    { "all", "k_proj,up_proj", FORMAT_FP32, false, 1e-6 },
    { "all", NULL, FORMAT_BF16, false, 4 * 0x1p-9 },
    { "o_proj,up_proj", NULL, FORMAT_FP16, true, 4 * 0x1p-12 },
};

/* Dropout with a tiny probability keeps adapters separate. */
static void test_model_folded_adapters_match_separate_ones(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = unit_plan(base);
        struct found folded, apart;

        plan.method = METHOD_LORA;
        plan.learning_rate = 1e-2;
        plan.lora_target = cases[i].target;
        plan.additional_target = cases[i].additional;
        plan.precision.compute = plan.precision.frozen = cases[i].compute;
        plan.gradient_checkpointing = cases[i].checkpointing;
        folded = run(plan);
        plan.lora_dropout = 1e-30;
        apart = run(plan);
        check_near(&folded, &apart, cases[i].rounding);
        found_clear(&folded);
        found_clear(&apart);
    }
}

static void test_model_folded_recomputes_to_the_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = unit_plan(base);
        struct found with, without;

        plan.method = METHOD_LORA;
        plan.learning_rate = 1e-2;
        plan.lora_target = cases[i].target;
        plan.precision.compute = plan.precision.frozen = cases[i].compute;
        without = run(plan);
        plan.gradient_checkpointing = true;
        with = run(plan);
        assert_true(with.loss == without.loss && with.later == without.later);
        assert_true(with.later < with.loss);
        assert_memory_equal(with.gradients, without.gradients,
                            with.count * sizeof(*with.gradients));
        found_clear(&with);
        found_clear(&without);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_folded_adapters_match_separate_ones),
        cmocka_unit_test(test_model_folded_recomputes_to_the_bit),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
