/* tests/unit/test_model.c - compares losses, gradients and ten AdamW steps of published
 * models with values computed by transformers. */
#include "config.h"

#include "train/model/model.h"

#include "tests/unit/unit_model.h"

static json_t *read_json(const struct unit_model *u, const char *name)
{
    char *path = path_join(u->plan.model_name_or_path, name);
    struct error err = { 0 };
    json_t *root = json_read_file(path, (size_t)4 << 20, &err);

    unit_must(root != NULL, &err);
    free(path);
    return root;
}

static double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Check the mean loss of every case in reference.json within 1e-4. */
static void check_losses(struct unit_model *u)
{
    json_t *root = read_json(u, "reference.json");
    const json_t *cases = json_object_get(root, "cases");

    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *one = json_array_get(cases, i);
        struct batch batch = { 0 };
        double loss;

        unit_batch_json(&batch, json_object_get(one, "ids"));
        loss = unit_loss(u, &batch);
        if (fabs(loss - real(one, "loss")) > 1e-4)
            fail_msg("case %zu: loss %.8f, expected %.8f", i, loss, real(one, "loss"));
        unit_batch_free(&batch);
    }
    json_decref(root);
}

static void torch_batch(const json_t *root, struct batch *batch)
{
    const json_t *ids = json_object_get(root, "batch_ids");

    for (size_t i = 0; i < json_array_size(ids); i++)
        unit_batch_json(batch, json_array_get(ids, i));
}

static double tensor_norm(struct tensor t)
{
    const float *g = t.data;
    double sum = 0;

    for (size_t i = 0; i < t.rows * t.cols; i++)
        sum += (double)g[i] * g[i];
    return sqrt(sum);
}

static void check_gradients(struct unit_model *u, const json_t *root,
                            const struct batch *batch)
{
    const json_t *norms = json_object_get(root, "grad_norm_by_tensor");
    const char *name;
    json_t *expected;

    unit_assert_near("loss", unit_train(u, batch), real(root, "loss"), 1e-4);
    unit_assert_near("gradient norm", unit_norm(u), real(root, "grad_norm"), 1e-3);
    json_object_foreach((json_t *)norms, name, expected)
    {
        const struct parameter *p = unit_parameter(u, name);

        assert_non_null(p);
        unit_assert_near(name, tensor_norm(p->grad), json_number_value(expected), 1e-3);
    }
}

/* Ten steps; the reference decays every tensor. */
static void check_steps(struct unit_model *u, const json_t *root,
                        const struct batch *batch)
{
    const json_t *adamw = json_object_get(root, "adamw");
    const json_t *losses = json_object_get(adamw, "losses_before_each_step");

    u->plan.learning_rate = real(adamw, "lr");
    u->plan.weight_decay = real(adamw, "weight_decay");
    for (size_t i = 0; i < model_parameters(u->model); i++)
        model_parameter(u->model, i)->decays = true;
    assert_int_equal(json_array_size(losses), 10);
    for (size_t i = 0; i < 10; i++) {
        unit_assert_near("loss before a step", unit_train(u, batch),
                         json_number_value(json_array_get(losses, i)), 1e-3);
        unit_step(u, (int64_t)i + 1);
    }
}

static void check_model(struct unit_model *u)
{
    json_t *root = read_json(u, "reference_torch.json");
    struct batch batch = { 0 };

    unit_model_start(u, 2048, 8, 2);
    check_losses(u);
    torch_batch(root, &batch);
    check_gradients(u, root, &batch);
    check_steps(u, root, &batch);
    unit_batch_free(&batch);
    json_decref(root);
    unit_model_stop(u);
}

static void check_folder(const char *name)
{
    struct unit_model u = unit_model_shared(name);

    u.plan.disable_dropout = true;
    check_model(&u);
}

static void test_model_matches_transformers_on_llama(void **state)
{
    (void)state;
    check_folder("data/stories260K/hf");
}

static void test_model_matches_transformers_on_qwen2(void **state)
{
    (void)state;
    check_folder("data/stories260K/hf-qwen2"); /* all biases are zero */
    check_folder("data/made-here/qwen2");
}

static void test_model_matches_transformers_on_gpt2(void **state)
{
    (void)state;
    check_folder("data/capp-gpt2/hf");
    check_folder("data/capp-gpt2/hf-b");
    check_folder("data/slm4096/hf");
    check_folder("data/sort-nano/hf"); /* has an untied head */
}

static void test_model_matches_transformers_on_gpt_neo(void **state)
{
    (void)state;
    check_folder("data/made-here/gpt_neo");
    check_folder("data/capp-gpt2/hf-gpt-neo");
    check_folder("data/slm4096/hf-gpt-neo");
}

static void test_model_matches_transformers_on_gpt_neox(void **state)
{
    (void)state;
    check_folder("data/made-here/gpt_neox");
}

/* The config that transformers 5 writes for the same weights. */
static void check_new_config(const char *folder)
{
    struct unit_model u = unit_model_shared(folder);
    char *name = path_join(u.plan.model_name_or_path, "config.v5.json");
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    unit_must(file_read(name, 1 << 20, &text, NULL, &err), &err);
    unit_must(model_config_parse(text.data, text.len, name, u.arena, &u.config, &err),
              &err);
    text_clear(&text);
    free(name);
    check_model(&u);
}

static void test_model_matches_transformers_with_new_configs(void **state)
{
    (void)state;
    check_new_config("data/made-here/qwen2");
    check_new_config("data/made-here/gpt_neo");
    check_new_config("data/made-here/gpt_neox");
}

static bool has_largest_logit(struct unit_model *u, const int32_t *ids, size_t count,
                              int32_t target)
{
    float *logits = memory_alloc(u->config.vocab_size * sizeof(*logits));
    struct batch batch = { 0 };
    struct error err = { 0 };
    bool is = true;

    unit_batch_add(&batch, ids, count);
    unit_must(model_logits(u->model, &batch, logits, &err), &err);
    for (size_t i = 0; i < u->config.vocab_size; i++)
        is = is && !(logits[i] > logits[target]);
    unit_batch_free(&batch);
    free(logits);
    return is;
}

/* The mean over sequences, like LLaMA-Factory's ComputeAccuracy; sequences without
 * targets do not count. */
static void test_model_accuracy_matches_the_logits(void **state)
{
    static const int32_t ids[] = { 1, 403, 407, 261, 378, 100, 383, 286, 50, 376, 298 };
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    struct batch batch = { 0 };
    double sum = 0, expected = 0, loss = 0;
    size_t runs = 0;
    struct error err = { 0 };

    (void)state;
    u.plan.compute_accuracy = true;
    unit_model_start(&u, 32, 3, 1);
    unit_batch_add(&batch, ids, 11);
    unit_batch_add(&batch, ids + 4, 1);
    unit_batch_add(&batch, ids + 2, 5);
    unit_must(model_evaluate(u.model, &batch, &loss, &err), &err);
    model_accuracy(u.model, &batch, &sum, &runs);
    for (size_t i = 1; i < 11; i++)
        expected += has_largest_logit(&u, ids, i, ids[i]) / 10.0;
    for (size_t i = 1; i < 5; i++)
        expected += has_largest_logit(&u, ids + 2, i, ids[2 + i]) / 4.0;
    assert_int_equal(runs, 2);
    assert_true(expected > 0.1 && expected < 1.9);
    assert_true(fabs(sum - expected) < 1e-12);
    unit_batch_free(&batch);
    unit_model_stop(&u);
}

static double loss_of_one_token(enum token_loss kind, double alpha)
{
    static const int32_t ids[] = { 1, 403 };
    struct unit_model u = unit_model_shared("data/stories260K/hf");
    struct batch batch = { 0 };
    struct error err = { 0 };
    double loss = 0;

    u.plan.token_loss = kind;
    u.plan.eaft_alpha = alpha;
    unit_model_start(&u, 8, 1, 1);
    unit_batch_add(&batch, ids, 2);
    unit_must(model_evaluate(u.model, &batch, &loss, &err), &err);
    unit_batch_free(&batch);
    unit_model_stop(&u);
    return loss;
}

static void test_model_has_the_loss_of_the_plan(void **state)
{
    double plain = loss_of_one_token(TOKEN_LOSS_PLAIN, 0);

    (void)state;
    assert_true(plain > 0.1);
    assert_true(fabs(loss_of_one_token(TOKEN_LOSS_DFT, 0) - plain * exp(-plain)) < 1e-6);
    assert_true(fabs(loss_of_one_token(TOKEN_LOSS_EAFT, 0) - plain) < 1e-6);
    assert_true(fabs(loss_of_one_token(TOKEN_LOSS_EAFT, 1) - plain) > 1e-3);
}

/* Activations and weights are rounded to 8 bits (bf16) or 11 bits (fp16).  The loss, a
 * mean over many rows, changes by less than the format's epsilon; gradients, where errors
 * cancel less, by a few epsilons. */
static void check_mixed(enum format compute)
{
    struct unit_model u = unit_model_shared("data/made-here/qwen2");
    json_t *root = read_json(&u, "reference_torch.json");
    double epsilon = format_info(compute)->epsilon;
    struct batch batch = { 0 };

    u.plan.precision.compute = compute;
    unit_model_start(&u, 256, 8, 2);
    torch_batch(root, &batch);
    unit_assert_near("loss", unit_train(&u, &batch), real(root, "loss"), epsilon);
    unit_assert_near("gradient norm", unit_norm(&u), real(root, "grad_norm"),
                     4 * epsilon);
    for (int64_t i = 1; i <= 5; i++) {
        unit_train(&u, &batch);
        unit_step(&u, i);
    }
    assert_true(unit_loss(&u, &batch) < 0.5 * real(root, "loss"));
    unit_batch_free(&batch);
    json_decref(root);
    unit_model_stop(&u);
}

static void test_model_bf16_is_close_to_fp32(void **state)
{
    (void)state;
    check_mixed(FORMAT_BF16);
}

static void test_model_fp16_is_close_to_fp32(void **state)
{
    (void)state;
    check_mixed(FORMAT_FP16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_accuracy_matches_the_logits),
        cmocka_unit_test(test_model_has_the_loss_of_the_plan),
        cmocka_unit_test(test_model_matches_transformers_on_llama),
        cmocka_unit_test(test_model_matches_transformers_on_qwen2),
        cmocka_unit_test(test_model_matches_transformers_on_gpt2),
        cmocka_unit_test(test_model_matches_transformers_on_gpt_neo),
        cmocka_unit_test(test_model_matches_transformers_on_gpt_neox),
        cmocka_unit_test(test_model_matches_transformers_with_new_configs),
        cmocka_unit_test(test_model_bf16_is_close_to_fp32),
        cmocka_unit_test(test_model_fp16_is_close_to_fp32),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
