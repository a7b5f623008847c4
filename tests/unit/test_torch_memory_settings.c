/* tests/unit/test_torch_memory_settings.c - what optimizers, stages, sharding,
 * quantization and evaluation change in the estimate for PyTorch. */
#include "config.h"

#include "train/torch_memory.h"

#include "base/size.h"
#include "tests/unit/unit_torch_memory.h"
#include "train/torch_optimizers.h"

static const struct measured small = {
    MODE_BF16_MIXED, false, false, 256, 704, 4, 4, 2, 1024, 2, 256, 0, false
};

/* The linear layers of the blocks of `small`, its embedding, and all elements. */
static const double small_linear = 4 * (737792.0 - 512);
static const double small_embedding = 1024 * 256;
static const double small_all = 4 * 737792.0 + 2 * 1024 * 256 + 256;

/* bitsandbytes keeps 32 bits of the embedding: transformers, create_optimizer. */
static void test_torch_memory_counts_an_optimizer(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;
    uint64_t adam;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    adam = use_of(&plan, &config).optimizer;
    setup.optim = "adamw_8bit";
    assert_int_equal(
        use_of(&plan, &config).optimizer,
        (uint64_t)(2.03 * (small_all - small_embedding) + 8 * small_embedding));
    setup.optim = "paged_lion_8bit";
    assert_int_equal(
        use_of(&plan, &config).optimizer,
        (uint64_t)(1.02 * (small_all - small_embedding) + 4 * small_embedding));
    setup.optim = "sgd";
    assert_int_equal(use_of(&plan, &config).optimizer, 0);
    setup.optim = "paged_adamw_32bit";
    assert_int_equal(use_of(&plan, &config).optimizer, adam);
    assert_true(use_of(&plan, &config).low + adam / 2 <= use_of(&plan, &config).total);
    assert_string_equal(torch_optimizer_find(NULL)->name, "adamw_torch");
    assert_null(torch_optimizer_find("of tomorrow"));
    setup.optim = "of tomorrow";
    assert_int_equal(use_of(&plan, &config).optimizer, adam);
}

static uint64_t optimizer_with(struct plan *plan, struct torch_setup *setup,
                               const char *optim, int64_t rank)
{
    struct model_config config;

    setup->optim = optim;
    setup->rank = rank;
    read_config(&small, &config);
    return use_of(plan, &config).optimizer;
}

/* Zhao et al., GaLore, 2024, table 1: for a matrix (m, n), m <= n, moments of 2 n r and a
 * projection of m r.  The matrices of `small`: q and o (256, 256), k and v (128, 256),
 * gate, up and down (704, 256). */
static void test_torch_memory_counts_low_ranks(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    const double long_sides = 4 * (2 * 256 + 2 * 256 + 3 * 704),
                 short_sides = 4 * (2 * 256 + 2 * 128 + 3 * 256);
    const double others = small_all - small_linear;

    (void)state;
    plan.torch = &setup;
    for (int64_t rank = 8; rank <= 64; rank *= 2) {
        const double r = (double)rank;

        assert_int_equal(optimizer_with(&plan, &setup, "galore_adamw", rank),
                         (uint64_t)(8 * (others + r * long_sides) + 4 * r * short_sides));
        assert_int_equal(optimizer_with(&plan, &setup, "apollo_adamw", rank),
                         optimizer_with(&plan, &setup, "galore_adamw", rank));
    }
    /* a rank above the shorter side saves nothing of that matrix */
    assert_int_equal(
        optimizer_with(&plan, &setup, "galore_adamw", 4096),
        (uint64_t)(8 * small_all + 4.0 * 4 * (5 * 256.0 * 256 + 2 * 128.0 * 128)));
}

/* Luo et al., BAdam, 2024: the weights, and 16 bytes per weight of one block, of which
 * the gradient is 4; a 16-bit model also has a float32 copy of the block. */
static void test_torch_memory_counts_a_block(void **state)
{
    struct torch_setup setup = { .optim = "use_badam" };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use use;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.gradient_accumulation_steps = 2;
    use = use_of(&plan, &config);
    assert_int_equal(use.optimizer, (uint64_t)(12 * small_linear / 4));
    assert_int_equal(use.gradients, (uint64_t)(4 * small_linear / 4));
}

static void test_torch_memory_frees_gradients_in_the_backward_pass(void **state)
{
    static const char *const names[] = { "lomo", "adalomo", "galore_adamw_layerwise" };
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.gradient_accumulation_steps = 2;
    for (size_t i = 0; i < TS_COUNT(names); i++) {
        setup.optim = names[i];
        /* the largest matrix is the classifier */
        assert_int_equal(use_of(&plan, &config).gradients, 4 * 1024 * 256);
    }
    setup.optim = "lomo";
    assert_int_equal(use_of(&plan, &config).optimizer, 0);
}

/* Pairs are two sequences; kto computes a second set of logits; a reference model has
 * 16-bit weights; rm trains a value head. */
static void test_torch_memory_of_stages(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small), twice = plan;
    struct model_config config;
    struct memory_use sft, dpo, with, rm;
    struct error err = { 0 };

    (void)state;
    read_config(&small, &config);
    plan.torch = twice.torch = &setup;
    sft = use_of(&plan, &config);
    twice.per_device_train_batch_size *= 2;
    twice.per_device_eval_batch_size *= 2;
    with = use_of(&twice, &config);
    setup.stage = "dpo";
    dpo = use_of(&plan, &config);
    assert_int_equal(dpo.total, with.total);
    setup.reference = true;
    with = use_of(&plan, &config);
    assert_int_equal(with.weights - dpo.weights, (uint64_t)(2 * small_all));
    setup.stage = "kto";
    with = use_of(&plan, &config);
    assert_true(with.total > sft.total + (uint64_t)(2 * small_all) &&
                with.total < dpo.total + (uint64_t)(2 * small_all));
    setup.stage = "rm";
    rm = use_of(&plan, &config);
    assert_int_equal(rm.weights - sft.weights, 4 * 257);
    setup.stage = "ppo";
    assert_false(torch_memory(&plan, &config, &rm, &err));
}

/* What makes an estimate doubtful; nothing else does. */
static void test_torch_memory_doubts(void **state)
{
    static const struct {
        struct torch_setup setup;
        int64_t ranks;
        bool doubt;
    } cases[] = {
        { { 0 }, 1, false },
        { { .optim = "adamw_8bit" }, 1, false },
        { { .optim = "sgd" }, 1, false },
        { { .optim = "galore_adamw" }, 1, true },
        { { .optim = "of tomorrow" }, 1, true },
        { { .stage = "dpo" }, 1, true },
        { { .deepspeed = true, .sharding_unknown = true }, 8, true },
        { { .deepspeed = true }, 1, false }, /* stage 0 */
        { { .zero_stage = 1 }, 1, true },
        { { .zero_stage = 3 }, 1, true },
        { { .zero_stage = 3, .ranks_given = true }, 1, false },
        { { .zero_stage = 3 }, 8, false },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = plan_of(&small);

        plan.torch = &cases[i].setup;
        plan.ranks = cases[i].ranks;
        if ((torch_memory_doubt(&plan) != NULL) != cases[i].doubt)
            fail_msg("case %zu", i);
        assert_int_equal(torch_memory_lacks_ranks(&plan),
                         cases[i].doubt && cases[i].setup.zero_stage > 0);
    }
    assert_null(torch_memory_doubt(&(struct plan) { .external = true }));
}

/* Rajbhandari et al.: with Adam and 16-bit weights 16 bytes per parameter, of which stage
 * 1 divides 12, stage 2 14, stage 3 all. */
static void test_torch_memory_is_sharded_by_zero_stages(void **state)
{
    struct torch_setup setup = { .deepspeed = true };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use one, use;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.gradient_accumulation_steps = 2; /* gradients exist at all times */
    one = use_of(&plan, &config);
    assert_int_equal(one.optimizer, 6 * one.weights);
    assert_int_equal(one.gradients, one.weights);
    plan.ranks = 8;
    setup.zero_stage = 1;
    use = use_of(&plan, &config);
    assert_int_equal(use.optimizer, one.optimizer / 8);
    assert_int_equal(use.gradients, one.gradients);
    setup.zero_stage = 2;
    use = use_of(&plan, &config);
    assert_int_equal(use.gradients, one.gradients / 8);
    assert_int_equal(use.weights, one.weights);
    setup.zero_stage = 3;
    assert_int_equal(use_of(&plan, &config).weights, one.weights / 8);
    setup.offload_optimizer = true;
    assert_int_equal(use_of(&plan, &config).optimizer, 0);
}

/* With several GPUs, each also has NCCL, with any program. */
static void test_torch_memory_counts_nccl(void **state)
{
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_range group;
    struct memory_use one, two;

    (void)state;
    read_config(&small, &config);
    plan.device = (struct device) { .kind = DEVICE_CUDA, .major = 9 };
    group = memory_group_overhead(&plan.device, 2, 2);
    one = use_of(&plan, &config);
    plan.ranks = 2;
    two = use_of(&plan, &config);
    assert_int_equal(two.total, one.total + group.expected);
    assert_int_equal(two.low, one.low + group.low);
    assert_int_equal(two.high, one.high + group.high);
}

/* The table of LLaMA-Factory: 2 bytes per parameter of a 16-bit base, 8 bits 1, 4 bits
 * 0.5. */
static void test_torch_memory_quantizes_linear_layers(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;
    uint64_t bits16, bits8, bits4, linear = 4 * (uint64_t)(737792 - 512);

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.method = METHOD_LORA;
    bits16 = use_of(&plan, &config).weights;
    setup.quantization_bit = 8;
    bits8 = use_of(&plan, &config).weights;
    setup.quantization_bit = 4;
    bits4 = use_of(&plan, &config).weights;
    assert_int_equal(bits16 - bits8, linear);
    assert_int_equal(bits8 - bits4, linear * 7 / 16);
    plan.precision.frozen = FORMAT_FP32;
    setup.quantization_bit = 0;
    assert_true(use_of(&plan, &config).weights > 19 * bits16 / 10);
}

static void test_torch_memory_of_an_evaluation(void **state)
{
    struct torch_setup setup = { 0 };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use use;
    struct error err = { 0 };

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    assert_true(torch_memory_eval(&plan, &config, &use, &err));
    assert_int_equal(use.total, 0);
    setup.evaluates = true;
    assert_true(torch_memory_eval(&plan, &config, &use, &err));
    assert_true(use.workspace >= 10ull * 8 * 256 * 1024);
    assert_true(use.total > use.weights + use.optimizer);
}

static void test_torch_memory_of_loading(void **state)
{
    struct plan plan = plan_of(&small);
    struct model_config config;
    uint64_t bits16;

    (void)state;
    read_config(&small, &config);
    bits16 = torch_memory_load(&plan, &config);
    plan.precision.frozen = FORMAT_FP32;
    assert_int_equal(torch_memory_load(&plan, &config), 2 * bits16);
    plan.ranks = 4;
    assert_int_equal(torch_memory_load(&plan, &config), 8 * bits16);
}

/* The largest batch and length that a job may give exceed 2^64 bytes. */
static void test_torch_memory_of_too_much_does_not_wrap(void **state)
{
    struct torch_setup setup = { .plain_attention = true };
    struct plan plan = plan_of(&small);
    struct model_config config;
    struct memory_use use;

    (void)state;
    read_config(&small, &config);
    plan.torch = &setup;
    plan.per_device_train_batch_size = 65536;
    plan.cutoff_len = 16777216;
    use = use_of(&plan, &config);
    assert_true(use.activations >= (uint64_t)1 << 60);
    assert_true(use.low >= (uint64_t)1 << 60 && use.low <= use.high);
    memory_finish(&use, (uint64_t)80 << 30);
    assert_false(use.fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_torch_memory_counts_an_optimizer),
        cmocka_unit_test(test_torch_memory_counts_low_ranks),
        cmocka_unit_test(test_torch_memory_counts_a_block),
        cmocka_unit_test(test_torch_memory_frees_gradients_in_the_backward_pass),
        cmocka_unit_test(test_torch_memory_of_stages),
        cmocka_unit_test(test_torch_memory_doubts),
        cmocka_unit_test(test_torch_memory_is_sharded_by_zero_stages),
        cmocka_unit_test(test_torch_memory_counts_nccl),
        cmocka_unit_test(test_torch_memory_quantizes_linear_layers),
        cmocka_unit_test(test_torch_memory_of_an_evaluation),
        cmocka_unit_test(test_torch_memory_of_loading),
        cmocka_unit_test(test_torch_memory_of_too_much_does_not_wrap),
    };

    return cmocka_run_group_tests_name("torch_memory_settings", tests, setup, teardown);
}
