/* tests/unit/test_duration.c - a step takes its work divided by the rates of the
 * device. */
#include "config.h"

#include "train/duration.h"

#include <math.h>

#include "tests/unit/unit.h"
#include "train/model/optimizer_table.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 1000, \"hidden_size\": "
    "256,\"intermediate_size\": 512, \"num_hidden_layers\": 2, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 4, \"tie_word_embeddings\": true}";

static struct arena *arena;
static struct model_config config;
static struct plan plan;
static struct calibration rates;

static int setup(void **state)
{
    struct error err = { 0 };

    (void)state;
    arena = arena_new();
    plan = (struct plan) { .method = METHOD_FULL,
                           .per_device_train_batch_size = 1,
                           .gradient_accumulation_steps = 1,
                           .cutoff_len = 64,
                           .lora_rank = 8,
                           .lora_target = "all" };
    /* everything except matmuls takes no time */
    rates =
        (struct calibration) { .bytes_per_second = 1e30, .seconds_per_operation = 1e-30 };
    for (int i = 0; i < CALIBRATION_WIDTHS; i++)
        rates.products[FORMAT_FP32][i] = 1e9;
    return model_config_parse(llama, strlen(llama), "config.json", arena, &config, &err)
               ? 0
               : -1;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

static double expected(double tokens, double trained, double length)
{
    const struct duration_step step = { tokens, trained, length };
    struct duration out;

    assert_true(duration_of_step(&plan, &config, &rates, &step, &out));
    assert_true(out.low < out.expected && out.expected < out.high);
    return out.expected;
}

static void near(double is, double value)
{
    if (!(fabs(is - value) <= 1e-9 * value))
        fail_msg("%g, expected %g", is, value);
}

/* Elements in the linear layers of both blocks. */
static const double linear = 2.0 * (4 * 256 * 256 + 3 * 256 * 512);

/* 6 operations per token and weight (Kaplan et al., 2020); with checkpointing 8. */
static void test_duration_counts_matmuls(void **state)
{
    (void)state;
    near(expected(100, 0, 0), 6 * linear * 100 / 1e9);
    plan.gradient_checkpointing = true;
    near(expected(100, 0, 0), 8 * linear * 100 / 1e9);
}

/* Frozen weights have no gradient; 14 adapters of rank 8 have all three matmuls. */
static void test_duration_of_adapters_is_less(void **state)
{
    const double adapters = 2.0 * 8 * (4 * (256 + 256) + 3 * (256 + 512)); /* elements */
    double narrow = 2.0 * 8 * 256, wide = 2.0 * 8 * 512;

    (void)state;
    plan.method = METHOD_LORA;
    /* widths of 45 and 64: below 64, half the width is half as fast */
    assert_true(expected(100, 0, 0) > (4 * linear + 6 * adapters) * 100 / 1e9 * 0.999);
    assert_true(expected(100, 0, 0) < (4 * linear + 12 * adapters) * 100 / 1e9);
    assert_true(narrow < wide);
}

static void test_duration_counts_the_classifier_for_trained_tokens(void **state)
{
    (void)state;
    near(expected(100, 50, 0) - expected(100, 0, 0), 6.0 * 1000 * 256 * 50 / 1e9);
}

/* 4 L^2 / 2 C operations forward, 2.5 times that backward, at a head width of 64. */
static void test_duration_counts_attention(void **state)
{
    (void)state;
    near(expected(100, 0, 40) - expected(100, 0, 0),
         2 * 4 * 100.0 * 20 * 256 * 3.5 / 1e9);
}

static void test_duration_has_a_floor(void **state)
{
    double without = expected(100, 0, 0);

    (void)state;
    rates.seconds_per_operation = 1e-3;
    assert_true(expected(100, 0, 0) >= without + 29e-3 * 2 * 0.999);
    plan.gradient_accumulation_steps = 4;
    assert_true(expected(100, 0, 0) >= without + 4 * 29e-3 * 2 * 0.999);
    rates.seconds_per_operation = 1e-30;
    rates.bytes_per_second = 1e9;
    assert_true(expected(0, 0, 0) >= 28e-9 * linear); /* the update */
}

/* AdamW moves two moments, which SGD does not have: 12 bytes per weight. */
static void test_duration_of_an_update_depends_on_the_optimizer(void **state)
{
    double adamw, without;

    (void)state;
    rates.bytes_per_second = 1e30;
    without = expected(0, 0, 0);
    rates.bytes_per_second = 1e9;
    adamw = expected(0, 0, 0) - without;
    plan.optimizer = optimizer_find("sgd");
    near(expected(0, 0, 0) - without, adamw * 12 / 28);
}

static void test_duration_does_not_support_other_programs(void **state)
{
    const struct duration_step step = { 100, 100, 10 };
    struct duration out;

    (void)state;
    plan.external = true;
    assert_false(duration_of_step(&plan, &config, &rates, &step, &out));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_duration_counts_matmuls),
        TEST(test_duration_of_adapters_is_less),
        TEST(test_duration_counts_the_classifier_for_trained_tokens),
        TEST(test_duration_counts_attention),
        TEST(test_duration_has_a_floor),
        TEST(test_duration_of_an_update_depends_on_the_optimizer),
        TEST(test_duration_does_not_support_other_programs),
    };

    return cmocka_run_group_tests_name("duration", tests, NULL, NULL);
}
