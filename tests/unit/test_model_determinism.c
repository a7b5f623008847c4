/* tests/unit/test_model_determinism.c - tests that threads, checkpointing and layout do
 * not change results. */
#include "config.h"

#include "tests/unit/unit_model.h"
#include "train/model/shapes.h"

static const char llama[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 300, \"hidden_size\": "
    "48,\"intermediate_size\": 96, \"num_hidden_layers\": 3, \"num_attention_heads\": "
    "4,\"num_key_value_heads\": 2, \"head_dim\": 16, \"initializer_range\": 0.1}";

#define SIZES                                                              \
    "\"vocab_size\": 300, \"hidden_size\": 48, \"intermediate_size\": 96," \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"initializer_range\": 0.1"

/* Features of blocks that llama does not have. */
static const char *const others[] = {
    "{\"model_type\": \"gpt2\", \"vocab_size\": 300, \"n_embd\": 48, \"n_layer\": "
    "3,\"n_head\": 4, \"n_positions\": 64, \"initializer_range\": 0.1}",
    "{\"model_type\": \"gpt_neo\", \"vocab_size\": 300, \"hidden_size\": "
    "48,\"num_layers\": 4, \"num_heads\": 4, \"max_position_embeddings\": "
    "64,\"attention_types\": [[[\"global\", \"local\"], 2]], \"window_size\": "
    "5,\"initializer_range\": 0.1}",
    "{\"model_type\": \"gpt_neox\", \"rotary_pct\": 0.5," SIZES "}",
    "{\"model_type\": \"qwen3\", \"num_key_value_heads\": 2, \"head_dim\": 16," SIZES "}",
    "{\"model_type\": \"qwen3_5_text\", \"num_key_value_heads\": 2, \"head_dim\": 16,"
    "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": "
    "16, \"linear_value_head_dim\": 8, \"full_attention_interval\": 2," SIZES "}",
    "{\"model_type\": \"lfm2\", \"num_key_value_heads\": 2, \"conv_bias\": true, "
    "\"full_attn_idxs\": [1], \"block_multiple_of\": 16," SIZES "}",
    "{\"model_type\": \"granitemoehybrid\", \"mamba_n_heads\": 4, \"mamba_d_state\": 8, "
    "\"num_local_experts\": 0, \"shared_intermediate_size\": 40, "
    "\"layer_types\": [\"mamba\", \"attention\", \"mamba\"]," SIZES "}",
    "{\"model_type\": \"falcon_h1\", \"num_key_value_heads\": 2, \"mamba_d_ssm\": 32, "
    "\"mamba_n_heads\": 4, \"mamba_n_groups\": 2, \"mamba_d_state\": 8, "
    "\"mamba_rms_norm\": true, \"key_multiplier\": 0.5," SIZES "}",
    "{\"model_type\": \"gemma4_text\", \"num_key_value_heads\": 2, \"head_dim\": 16, "
    "\"global_head_dim\": 24, \"num_kv_shared_layers\": 1, \"use_double_wide_mlp\": true, "
    "\"hidden_size_per_layer_input\": 20, \"vocab_size_per_layer_input\": 300, "
    "\"sliding_window\": 6, \"sliding_window_pattern\": 2," SIZES "}",
    "{\"model_type\": \"deepseek_v2\", \"q_lora_rank\": 20, \"kv_lora_rank\": 16, "
    "\"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 8, \"v_head_dim\": 16, "
    "\"n_routed_experts\": 4, \"num_experts_per_tok\": 2, \"moe_intermediate_size\": 24, "
    "\"first_k_dense_replace\": 1," SIZES "}",
};

#define RUNS 8

static struct batch whole, parts[RUNS / 2];

static int setup(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < RUNS; i++) {
        unit_batch_random(&whole, 17 + 3 * i, 300, i);
        unit_batch_random(&parts[i / 2], 17 + 3 * i, 300, i);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unit_batch_free(&whole);
    for (size_t i = 0; i < RUNS / 2; i++)
        unit_batch_free(&parts[i]);
    return 0;
}

static struct plan scratch(void)
{
    struct plan plan = unit_plan(NULL);

    plan.train_from_scratch = true;
    plan.weight_decay = 0.01;
    return plan;
}

/* Run two steps over the whole batch; return the losses and then all weights,
 * malloc'ed. */
static float *run_of(const char *text, struct plan plan, int threads, double losses[3],
                     size_t *count)
{
    struct unit_model u = unit_model_text(text, plan);
    float *all = NULL;

    unit_model_start(&u, whole.rows, whole.sequences, threads);
    for (int64_t i = 0; i < 2; i++) {
        losses[i] = unit_train(&u, &whole);
        unit_step(&u, i + 1);
    }
    losses[2] = unit_loss(&u, &whole);
    *count = 0;
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        const struct parameter *p = model_parameter(u.model, i);
        size_t numbers = p->rows * p->cols;

        if (!p->trainable)
            continue;
        all = memory_resize(all, *count + numbers, sizeof(*all));
        format_convert(all + *count, FORMAT_FP32, p->weight.data, p->weight.format,
                       numbers);
        *count += numbers;
    }
    unit_model_stop(&u);
    return all;
}

static float *run(struct plan plan, int threads, double losses[3], size_t *count)
{
    return run_of(llama, plan, threads, losses, count);
}

static void check_same_model(const char *text, struct plan a, struct plan b,
                             int threads_a, int threads_b)
{
    double losses_a[3], losses_b[3];
    size_t count_a, count_b;
    float *weights_a = run_of(text, a, threads_a, losses_a, &count_a);
    float *weights_b = run_of(text, b, threads_b, losses_b, &count_b);

    assert_memory_equal(losses_a, losses_b, sizeof(losses_a));
    assert_true(losses_a[2] < losses_a[0]);
    assert_int_equal(count_a, count_b);
    assert_memory_equal(weights_a, weights_b, count_a * sizeof(*weights_a));
    free(weights_a);
    free(weights_b);
}

static void check_same(struct plan a, struct plan b, int threads_a, int threads_b)
{
    check_same_model(llama, a, b, threads_a, threads_b);
}

static const enum format computes[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

static void test_model_checkpointing_changes_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(computes); i++) {
        struct plan with = scratch(), without = scratch();

        with.precision.compute = without.precision.compute = computes[i];
        with.gradient_checkpointing = true;
        check_same(with, without, 1, 1);
    }
}

static void test_model_threads_change_no_bit(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(computes); i++) {
        struct plan plan = scratch();

        plan.precision.compute = computes[i];
        check_same(plan, plan, 1, 2);
    }
}

static char *base_new(void)
{
    struct unit_model u = unit_model_text(llama, scratch());
    char *dir = unit_dir_new();
    struct error err = { 0 };

    u.plan.model_name_or_path = dir;
    unit_model_start(&u, 16, 1, 1);
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    return dir;
}

/* With the memory of a large GPU, the inputs of matmuls are kept, not computed again. */
static void check_kept(const char *text, struct plan plan)
{
    struct plan kept = plan, again = plan;

    kept.device.kind = again.device.kind = DEVICE_CUDA;
    kept.device.memory = (uint64_t)80 << 30;
    again.device.memory = 0;
    check_same_model(text, kept, again, 1, 1);
}

static void test_model_memory_of_a_gpu_changes_no_bit(void **state)
{
    char *dir = base_new();
    struct plan plan = scratch(), adapters = unit_plan(dir);

    (void)state;
    check_kept(llama, plan);
    plan.precision.compute = FORMAT_BF16;
    check_kept(llama, plan);
    check_kept(others[0], plan);
    adapters.method = METHOD_LORA;
    adapters.learning_rate = 1e-2;
    adapters.precision.compute = adapters.precision.frozen = FORMAT_BF16;
    check_kept(llama, adapters);
    adapters.lora_dropout = 0.1;
    check_kept(llama, adapters);
    unit_dir_free(dir);
}

/* Checkpointing and seven threads together change no bit. */
static void test_model_of_any_architecture_is_deterministic(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++)
        for (size_t j = 0; j < TS_COUNT(computes); j++) {
            struct plan with = scratch(), without = scratch();

            with.precision.compute = without.precision.compute = computes[j];
            with.gradient_checkpointing = true;
            check_same_model(others[i], with, without, 7, 1);
        }
}

static void test_model_checkpointing_changes_no_bit_of_adapters(void **state)
{
    char *dir = base_new();
    struct plan with = unit_plan(dir), without;

    (void)state;
    with.method = METHOD_LORA;
    with.lora_dropout = 0.1;
    with.learning_rate = 1e-2;
    with.precision.compute = with.precision.frozen = FORMAT_BF16;
    without = with;
    with.gradient_checkpointing = true;
    check_same(with, without, 2, 1);
    with.use_dora = without.use_dora = true;
    check_same(with, without, 2, 1);
    with.lora_dropout = without.lora_dropout = 0;
    check_same(with, without, 7, 1);
    with.use_dora = without.use_dora = false;
    with.method = without.method = METHOD_OFT;
    with.oft_block_size = without.oft_block_size = 8;
    check_same(with, without, 7, 1);
    check_same(without, without, 2, 1);
    unit_dir_free(dir);
}

/* Frozen weights in 16 bits that are converted at each use, and the same weights in
 * fp32. */
static void test_model_frozen_storage_changes_no_bit(void **state)
{
    char *dir = base_new();
    struct plan narrow = unit_plan(dir), wide;
    struct unit_model u = unit_model_text(llama, narrow);
    struct error err = { 0 };

    (void)state;
    narrow.method = METHOD_LORA;
    narrow.learning_rate = 1e-2;
    narrow.lora_dropout = 0.1; /* otherwise adapters are folded only with fp32 weights */
    narrow.precision.frozen = FORMAT_BF16;
    wide = narrow;
    wide.precision.frozen = FORMAT_FP32;
    unit_model_start(&u, 16, 1, 1); /* first round the base itself */
    for (size_t i = 0; i < model_parameters(u.model); i++) {
        struct parameter *p = model_parameter(u.model, i);
        float *w = p->weight.data;

        for (size_t j = 0; j < p->rows * p->cols; j++)
            w[j] = format_from_bf16(format_to_bf16(w[j]));
    }
    unit_must(model_save(u.model, dir, &err), &err);
    unit_model_stop(&u);
    check_same(narrow, wide, 1, 1);
    unit_dir_free(dir);
}

/* 4 times 2 sequences and once 8: the same sums in another order. */
static void test_model_accumulation_equals_one_large_batch(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());
    struct tensor gradients;
    double loss = 0, together, norm = 0, apart = 0;
    struct step_scalars numbers;
    struct error err = { 0 };
    float *kept;

    (void)state;
    unit_model_start(&u, whole.rows, whole.sequences, 2);
    together = unit_train(&u, &whole) * (double)whole.trained;
    gradients = model_gradients(u.model);
    kept = memory_alloc(gradients.cols * sizeof(*kept));
    memcpy(kept, gradients.data, gradients.cols * sizeof(*kept));
    numbers = unit_numbers(&u, whole.trained, 1);
    model_begin(u.model, &numbers);
    for (size_t i = 0; i < RUNS / 2; i++)
        unit_must(model_train(u.model, &parts[i], i, &err), &err);
    unit_must(model_end(u.model, &numbers, &loss, &err), &err);
    unit_assert_near("loss", loss, together, 1e-6);
    for (size_t i = 0; i < gradients.cols; i++) {
        double is = ((const float *)gradients.data)[i];

        norm += (double)kept[i] * kept[i];
        apart += (is - kept[i]) * (is - kept[i]);
    }
    assert_true(sqrt(apart) < 1e-6 * sqrt(norm));
    free(kept);
    unit_model_stop(&u);
}

/* Sequences with weights, and each sequence repeated according to its weight. */
static void test_model_weight_equals_repetition(void **state)
{
    static const float weights[] = { 2, 1, 0, 3 };
    struct unit_model u = unit_model_text(llama, scratch());
    struct batch weighted = { 0 }, repeated = { 0 };
    double loss, norm;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(weights); i++) {
        size_t first = (size_t)whole.offsets[i],
               count = (size_t)whole.offsets[i + 1] - first;

        unit_batch_add(&weighted, whole.tokens + first, count);
        weighted.weights =
            memory_resize(weighted.weights, weighted.rows, sizeof(*weighted.weights));
        for (size_t j = weighted.rows - count; j < weighted.rows; j++)
            weighted.weights[j] = weights[i];
        for (size_t n = 0; n < (size_t)weights[i]; n++)
            unit_batch_add(&repeated, whole.tokens + first, count);
    }
    weighted.trained = repeated.trained; /* number of targets in the mean */
    unit_model_start(&u, repeated.rows, repeated.sequences, 2);
    loss = unit_train(&u, &repeated);
    norm = unit_norm(&u);
    unit_assert_near("evaluated", unit_loss(&u, &weighted), loss, 1e-6);
    unit_assert_near("loss", unit_train(&u, &weighted), loss, 1e-6);
    unit_assert_near("norm", unit_norm(&u), norm, 1e-5);
    unit_batch_free(&weighted);
    unit_batch_free(&repeated);
    unit_model_stop(&u);
}

/* Sequences padded on the right to the longest, and the same sequences packed. */
static void check_padded(const char *text)
{
    struct unit_model u = unit_model_text(text, scratch());
    int32_t *ids = memory_alloc(whole.longest * sizeof(*ids));
    struct batch padded = { 0 };
    double packed_loss, packed_norm;

    u.plan.disable_dropout = true; /* dropout depends on the position in the batch */
    for (size_t i = 0; i < whole.sequences; i++) {
        size_t first = (size_t)whole.offsets[i],
               count = (size_t)whole.offsets[i + 1] - first;
        size_t at = padded.rows;

        memset(ids, 0, whole.longest * sizeof(*ids));
        memcpy(ids, whole.tokens + first, count * sizeof(*ids));
        unit_batch_add(&padded, ids, whole.longest);
        memcpy(padded.targets + at, whole.targets + first, count * sizeof(*ids));
        for (size_t j = count; j < whole.longest; j++)
            padded.targets[at + j] = LABEL_NONE;
    }
    padded.trained = whole.trained;
    unit_model_start(&u, padded.rows, padded.sequences, 2);
    packed_loss = unit_train(&u, &whole);
    packed_norm = unit_norm(&u);
    unit_assert_near("loss", unit_train(&u, &padded), packed_loss, 1e-6);
    unit_assert_near("norm", unit_norm(&u), packed_norm, 1e-5);
    free(ids);
    unit_batch_free(&padded);
    unit_model_stop(&u);
}

static void test_model_padding_equals_packing(void **state)
{
    (void)state;
    check_padded(llama);
    for (size_t i = 0; i < TS_COUNT(others); i++)
        check_padded(others[i]);
}

static void test_model_memory_matches_the_estimate(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());
    struct memory_use estimate;
    const struct memory_use *taken;
    struct error err = { 0 };
    size_t held;

    (void)state;
    u.plan.precision.compute = FORMAT_BF16;
    unit_must(
        shapes_memory(&u.plan, &u.config, whole.rows, whole.sequences, &estimate, &err),
        &err);
    unit_model_start(&u, whole.rows, whole.sequences, 1);
    unit_train(&u, &whole);
    unit_step(&u, 1);
    taken = model_memory(u.model);
    held = u.be->ops->workspace(u.be);
    assert_int_equal(taken->weights, estimate.weights);
    assert_int_equal(taken->gradients, estimate.gradients);
    assert_int_equal(taken->optimizer, estimate.optimizer);
    assert_int_equal(taken->activations, estimate.activations);
    assert_int_equal(taken->workspace, estimate.workspace + held);
    assert_int_equal(taken->total, estimate.total + held);
    unit_model_stop(&u);
}

/*
 * Both operands of a block's matmuls keep 3 bits after the leading one (e4m3: each value
 * is off by up to 2^-4 of itself), gradients 2 (e5m2, 2^-3), and errors of a row's values
 * have either sign: the error of the norm of all gradients is less than the largest of
 * them.
 */
static void test_model_in_8_bits_is_close(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());
    double loss, norm;

    (void)state;
    u.plan.precision.mode = MODE_BF16_MIXED;
    u.plan.precision.compute = FORMAT_BF16;
    unit_model_start(&u, whole.rows, whole.sequences, 2);
    loss = unit_train(&u, &whole);
    norm = unit_norm(&u);
    unit_model_stop(&u);
    u = unit_model_text(llama, scratch());
    u.plan.precision.mode = MODE_BF16_MIXED;
    u.plan.precision.compute = FORMAT_BF16;
    u.plan.precision.fp8 = true;
    unit_model_start(&u, whole.rows, whole.sequences, 2);
    assert_true(unit_train(&u, &whole) != loss);
    assert_true(unit_norm(&u) != norm);
    unit_assert_near("loss", unit_loss(&u, &whole), loss, 0x1p-4);
    unit_assert_near("norm", unit_norm(&u), norm, 0x1p-3);
    unit_model_stop(&u);
}

static void test_model_reports_the_requested_memory(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());
    struct backend_options with = { .device = &u.plan.device, .threads = 1 };
    struct error err = { 0 };

    (void)state;
    u.be = backend_open(&with, &err);
    unit_must(u.be != NULL, &err);
    u.model = model_new(&(struct model_options) { .plan = &u.plan,
                                                  .config = &u.config,
                                                  .backend = u.be,
                                                  .rows_max = (size_t)1 << 40,
                                                  .sequences_max = 1 },
                        &err);
    assert_null(u.model);
    assert_non_null(strstr(err.text, "weights"));
    assert_non_null(strstr(err.text, "activations"));
    assert_non_null(strstr(err.text, "per_device_train_batch_size"));
    unit_model_stop(&u);
}

/* Return whether the last logits of a block depend on the first of ten tokens. */
static bool depends_on_first(const char *window)
{
    char text[512];
    struct unit_model u;
    struct batch ten = { 0 };
    struct error err = { 0 };
    float before[20], after[20];

    snprintf(text, sizeof(text),
             "{\"model_type\": \"qwen2\", \"vocab_size\": 20, \"hidden_size\": "
             "16,\"intermediate_size\": 24, \"num_hidden_layers\": "
             "1,\"num_attention_heads\": 2, \"initializer_range\": "
             "0.3,\"use_sliding_window\": true, \"max_window_layers\": "
             "0,\"sliding_window\": %s}",
             window);
    u = unit_model_text(text, scratch());
    unit_batch_random(&ten, 10, 20, 5);
    unit_model_start(&u, 10, 1, 1);
    unit_must(model_logits(u.model, &ten, before, &err), &err);
    ten.tokens[0] = (ten.tokens[0] + 1) % 20;
    unit_must(model_logits(u.model, &ten, after, &err), &err);
    unit_model_stop(&u);
    unit_batch_free(&ten);
    return memcmp(before, after, sizeof(before)) != 0;
}

static void test_model_window_hides_distant_tokens(void **state)
{
    (void)state;
    assert_true(depends_on_first("null"));
    assert_true(depends_on_first("10"));
    assert_false(depends_on_first("9"));
    assert_false(depends_on_first("4"));
}

/* Adam's state and all trainable weights in 16 bits: the loss still falls at the
 * start. */
static void test_model_pure_modes_train(void **state)
{
    (void)state;
    for (size_t i = 1; i < TS_COUNT(computes); i++) {
        struct plan plan = scratch();
        double losses[3];
        size_t count;

        plan.precision.compute = plan.precision.trainable = computes[i];
        plan.adam_epsilon = 1e-4;
        plan.learning_rate = 1e-2;
        free(run(plan, 2, losses, &count));
        assert_true(losses[2] < losses[0]);
    }
}

static void test_model_sgd_lowers_the_loss(void **state)
{
    struct plan plan = scratch();
    double losses[3];
    size_t count;

    (void)state;
    plan.optimizer = optimizer_find("sgd");
    plan.learning_rate = 0.5;
    free(run(plan, 2, losses, &count));
    assert_true(losses[1] < losses[0] && losses[2] < losses[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_in_8_bits_is_close),
        cmocka_unit_test(test_model_reports_the_requested_memory),
        cmocka_unit_test(test_model_checkpointing_changes_no_bit),
        cmocka_unit_test(test_model_memory_of_a_gpu_changes_no_bit),
        cmocka_unit_test(test_model_threads_change_no_bit),
        cmocka_unit_test(test_model_of_any_architecture_is_deterministic),
        cmocka_unit_test(test_model_checkpointing_changes_no_bit_of_adapters),
        cmocka_unit_test(test_model_frozen_storage_changes_no_bit),
        cmocka_unit_test(test_model_accumulation_equals_one_large_batch),
        cmocka_unit_test(test_model_weight_equals_repetition),
        cmocka_unit_test(test_model_padding_equals_packing),
        cmocka_unit_test(test_model_memory_matches_the_estimate),
        cmocka_unit_test(test_model_window_hides_distant_tokens),
        cmocka_unit_test(test_model_pure_modes_train),
        cmocka_unit_test(test_model_sgd_lowers_the_loss),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
