/* tests/unit/test_model_gradients.c - checks every gradient of tiny models that train whole or
 * in some of their layers. */
#include "config.h"

#include "tests/unit/unit_gradients.h"

static void test_model_gradients_llama(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());

    (void)state;
    check_all(&u);
}

static void test_model_gradients_qwen2(void **state)
{
    struct unit_model u = unit_model_text(qwen2, scratch());

    (void)state;
    u.plan.label_smoothing = 0.1;
    check_all(&u);
}

/* With adapters, the loss is not smooth enough for differences; test_architectures.c compares
 * their gradients. */
static void test_model_gradients_of_inputs_of_layers(void **state)
{
    struct unit_model u = unit_model_text(gemma4_e, scratch());

    (void)state;
    check_all(&u);
}

static void test_model_gradients_of_other_architectures(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(others); i++) {
        struct unit_model u = unit_model_text(others[i], scratch());

        check_all(&u);
    }
}

static void test_model_gradients_with_noise(void **state)
{
    const char *const texts[] = { llama, gpt2 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        struct unit_model u = unit_model_text(texts[i], scratch());

        u.plan.neftune_alpha = 5;
        check_all(&u);
    }
}

/* transformers' neftune_post_forward_hook: within alpha / sqrt(length * width). */
static void test_noise_of_embeddings_has_its_size(void **state)
{
    struct unit_model u = unit_model_text(llama, scratch());
    size_t cols = u.config.hidden_size, longest = 0;
    const struct shape_buffer *b;
    const float *x, *table;
    double magnitude;

    (void)state;
    u.plan.neftune_alpha = 5;
    unit_model_start(&u, batch.rows, batch.sequences, 1);
    for (size_t i = 0; i < batch.sequences; i++)
        longest = (size_t)fmax((double)longest, batch.offsets[i + 1] - batch.offsets[i]);
    magnitude = 5 / sqrt((double)(size_round(longest, 8) * cols));
    train(&u);
    b = &u.model->shapes.buffers[BUFFER_X_IN];
    x = (const float *)(void *)(u.model->buffers + b->at);
    table = u.model->embed->weight.data;
    for (size_t i = 0; i < batch.rows * cols; i++) {
        size_t token = (size_t)batch.tokens[i / cols];
        double noise = (double)x[i] - (double)table[token * cols + i % cols];
        double uniform = random_uniform((uint64_t)u.plan.seed, RANDOM_NOISE, 0, i);

        assert_true(fabs(noise - magnitude * (2 * uniform - 1)) <=
                    1e-6 * magnitude + 1e-6);
    }
    unit_loss(&u, &batch); /* none in an evaluation */
    for (size_t i = 0; i < batch.rows * cols; i++)
        assert_true(x[i] == table[(size_t)batch.tokens[i / cols] * cols + i % cols]);
    unit_model_stop(&u);
}

static void test_model_gradients_with_the_models_own_dropout(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(drops); i++)
        for (int recomputed = 0; recomputed < 2; recomputed++) {
            struct unit_model u = unit_model_text(drops[i], scratch());

            u.plan.gradient_checkpointing = recomputed;
            check_all(&u);
        }
}

/* With kept logits of a teacher, and each of the distances. */
static void test_model_gradients_in_distillation(void **state)
{
    static const double betas[] = { 0, 0.5, 0 };
    static const char *const texts[] = { qwen2, llama, gemma2 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(betas); i++) {
        struct unit_model u = unit_model_text(texts[i], scratch());

        u.plan.stage = STAGE_DISTILL;
        u.plan.kd = (struct distillation_settings) {
            .logits = "kept", .ratio = 0.7, .temperature = 2, .beta = betas[i], .topk = 3
        };
        check_all(&u);
    }
}

static void check_frozen(const char *text, const char *modules)
{
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    u.plan.method = METHOD_FREEZE;
    u.plan.freeze_trainable_layers = 1;
    u.plan.freeze_trainable_modules = modules;
    check_all(&u);
    unit_dir_free(dir);
}

/* The backward pass stops at a different point in each case. */
static void test_model_gradients_of_last_layers(void **state)
{
    static const struct {
        const char *text, *modules;
    } cases[] = {
        { llama, "all" },
        { llama, "mlp" },
        { llama, "self_attn" },
        { llama, "post_attention_layernorm" },
        { gpt2, "attn" },
        { gpt2, "ln_2" },
        { gpt2_drops, "attn" },
        { gpt_neox_drops, "mlp" },
        { gpt_neox, "all" },
        { gpt_neox, "mlp" },
        { gpt_neox, "attention" },
        { gpt_neox, "input_layernorm" },
        { gpt_neox, "post_attention_layernorm" },
        { phi, "mlp" },
        { granite, "self_attn" },
        { olmo2, "mlp" },
        { olmo2, "self_attn" },
        { olmo2, "post_feedforward_layernorm" },
        { phi, "self_attn" },
        { phi, "input_layernorm" },
        { gemma3, "mlp" },
        { gemma3, "post_attention_layernorm" },
        { gemma3, "post_feedforward_layernorm" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        check_frozen(cases[i].text, cases[i].modules);
}

/* Layers without gradients are between those that are trained. */
static void test_model_gradients_of_expanded_layers(void **state)
{
    static const char text[] =
        "{\"model_type\": \"llama\", \"vocab_size\": 40, \"hidden_size\": 8, "
        "\"intermediate_size\": 12, \"num_hidden_layers\": 4, "
        "\"num_attention_heads\": 2, \"initializer_range\": 0.2}";
    char *dir = base_of(text);
    struct unit_model u = unit_model_text(text, unit_plan(dir));

    (void)state;
    u.plan.method = METHOD_FREEZE;
    u.plan.use_llama_pro = true;
    u.plan.freeze_trainable_layers = 2;
    u.plan.freeze_trainable_modules = "all";
    check_all(&u);
    unit_dir_free(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_gradients_llama),
        cmocka_unit_test(test_model_gradients_qwen2),
        cmocka_unit_test(test_model_gradients_of_expanded_layers),
        cmocka_unit_test(test_model_gradients_of_other_architectures),
        cmocka_unit_test(test_model_gradients_of_inputs_of_layers),
        cmocka_unit_test(test_model_gradients_with_noise),
        cmocka_unit_test(test_noise_of_embeddings_has_its_size),
        cmocka_unit_test(test_model_gradients_with_the_models_own_dropout),
        cmocka_unit_test(test_model_gradients_in_distillation),
        cmocka_unit_test(test_model_gradients_of_last_layers),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
