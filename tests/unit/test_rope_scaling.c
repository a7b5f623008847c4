/* tests/unit/test_rope_scaling.c - the job's rope_scaling gives the config.json that
 * LLaMA-Factory gives: factor, positions and what is saved. */
#include "config.h"

#include "train/model/rope_scaling.h"

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

#define SIZES                                                               \
    "\"vocab_size\": 100, \"hidden_size\": 64, \"intermediate_size\": 96, " \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, "

struct trial {
    enum rope_scaling scaling;
    int64_t cutoff_len;
    const char *config;
};

static struct arena *arena;

static bool try_to_read(struct trial trial, struct model_config *out, struct error *err)
{
    const struct plan plan = { .rope_scaling = trial.scaling,
                               .cutoff_len = trial.cutoff_len };
    char *dir = unit_dir_new(), *name = path_join(dir, "config.json");
    bool ok;

    assert_true(file_create(name, trial.config, strlen(trial.config), 0666, err));
    ok = rope_scaling_read_config(&plan, dir, arena, out, err);
    free(name);
    unit_dir_free(dir);
    return ok;
}

static struct model_config scaled(struct trial trial)
{
    struct model_config config;
    struct error err = { 0 };

    if (!try_to_read(trial, &config, &err))
        fail_msg("%s", err.text);
    return config;
}

/* Compare the text that is saved with what is expected, apart from white space. */
static void assert_saves(const struct model_config *config, const char *expected)
{
    struct error err = { 0 };
    json_t *is = json_read_text(config->text, config->text_len, "config.json", 1, &err);
    json_t *wanted = json_read_text(expected, strlen(expected), "expected", 1, &err);

    assert_non_null(is);
    assert_non_null(wanted);
    if (!json_equal(is, wanted))
        fail_msg("%.*s", (int)config->text_len, config->text);
    json_decref(is);
    json_decref(wanted);
}

#define LLAMA "{\"model_type\": \"llama\", " SIZES

/* The factor is whole: 2048 to 5000 is 3. */
static void test_rope_scaling_extends_the_positions(void **state)
{
    struct model_config c = scaled(
        (struct trial) { ROPE_SCALING_YARN, 5000,
                         LLAMA "\"max_position_embeddings\": 2048, \"rope_theta\": 500, "
                               "\"rope_scaling\": null}" });

    (void)state;
    assert_true(c.rope.kind == ROPE_YARN && c.rope.factor == 3 && c.rope.theta == 500);
    assert_true(c.rope.original_max_positions == 2048 && c.max_positions == 6144);
    assert_saves(&c, LLAMA "\"max_position_embeddings\": 6144, \"rope_theta\": 500, "
                           "\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 3.0, "
                           "\"original_max_position_embeddings\": 2048}}");
    c = scaled((struct trial) { ROPE_SCALING_LINEAR, 2049,
                                LLAMA "\"max_position_embeddings\": 2048}" });
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.factor == 2);
    assert_saves(&c, LLAMA "\"max_position_embeddings\": 4096, \"rope_scaling\": "
                           "{\"rope_type\": \"linear\", \"factor\": 2.0}}");
    c = scaled((struct trial) { ROPE_SCALING_DYNAMIC, 4096,
                                LLAMA "\"max_position_embeddings\": 2048}" });
    assert_true(c.rope.kind == ROPE_DYNAMIC && c.rope.max_positions == 4096);
    c = scaled((struct trial) { ROPE_SCALING_LLAMA3, 4096,
                                LLAMA "\"max_position_embeddings\": 2048}" });
    assert_true(c.rope.kind == ROPE_LLAMA3 && c.rope.original_max_positions == 2048);
    assert_true(c.rope.low_freq_factor == 1 && c.rope.high_freq_factor == 4);
}

static void test_rope_scaling_without_need(void **state)
{
    static const char text[] = LLAMA "\"max_position_embeddings\": 2048}";
    struct model_config c = scaled((struct trial) { ROPE_SCALING_YARN, 2048, text });

    (void)state;
    assert_true(c.rope.kind == ROPE_DEFAULT && c.max_positions == 2048);
    assert_string_equal(c.text, text);
    c = scaled((struct trial) { ROPE_SCALING_NONE, 4096, text });
    assert_true(c.rope.kind == ROPE_DEFAULT && c.max_positions == 2048);
    c = scaled((struct trial) {
        ROPE_SCALING_YARN, 64,
        "{\"model_type\": \"gpt2\", \"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, "
        "\"n_head\": 4, \"n_positions\": 32}" });
    assert_true(c.rotary == 0 && c.max_positions == 32);
}

/* It replaces an earlier scaling and counts from the positions before it. */
static void test_rope_scaling_replaces_that_of_the_model(void **state)
{
    struct model_config c = scaled((struct trial) {
        ROPE_SCALING_YARN, 16384,
        LLAMA
        "\"max_position_embeddings\": 131072, \"rope_scaling\": {\"rope_type\": "
        "\"llama3\", \"factor\": 8.0, \"low_freq_factor\": 1.0, "
        "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192}}" });
    struct model_config again;

    (void)state;
    assert_true(c.rope.kind == ROPE_YARN && c.rope.factor == 2);
    assert_int_equal(c.max_positions, 16384);
    again = scaled((struct trial) { ROPE_SCALING_YARN, 16384, c.text });
    assert_string_equal(again.text, c.text);
}

/* transformers 5: theta and the rotated share stay; of Gemma 3, only layers without a
 * window are scaled. */
static void test_rope_scaling_in_rope_parameters(void **state)
{
    struct model_config c = scaled((struct trial) {
        ROPE_SCALING_LINEAR, 100,
        LLAMA "\"max_position_embeddings\": 64, \"rope_parameters\": {\"rope_theta\": "
              "700.0, \"rope_type\": \"default\"}}" });

    (void)state;
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.theta == 700);
    assert_saves(&c,
                 LLAMA "\"max_position_embeddings\": 128, \"rope_parameters\": "
                       "{\"rope_theta\": 700.0, \"rope_type\": \"linear\", \"factor\": "
                       "2.0}}");
    c = scaled((struct trial) {
        ROPE_SCALING_LINEAR, 100,
        "{\"model_type\": \"gemma3_text\", " SIZES
        "\"max_position_embeddings\": 64, \"rope_parameters\": {\"full_attention\": "
        "{\"rope_theta\": 9.0, \"rope_type\": \"default\"}, \"sliding_attention\": "
        "{\"rope_theta\": 3.0, \"rope_type\": \"default\"}}}" });
    assert_true(c.rope.kind == ROPE_LINEAR && c.rope.theta == 9 && c.rope.factor == 2);
    assert_true(c.rope_local.kind == ROPE_DEFAULT && c.rope_local.theta == 3);
}

/* Models for which transformers would not read the saved config.json. */
static void test_rope_scaling_refuses_models(void **state)
{
    static const struct {
        const char *config, *word;
    } cases[] = {
        { "{\"model_type\": \"phi3\", " SIZES "\"max_position_embeddings\": 4096}",
          "phi3" },
        { "{\"model_type\": \"gemma3\", \"text_config\": {" SIZES
          "\"max_position_embeddings\": 4096}}",
          "gemma3, which has also positions of images" },
        { "{\"model_type\": \"ministral3\", " SIZES "\"max_position_embeddings\": 4096, "
          "\"rope_parameters\": {\"rope_type\": \"yarn\", \"factor\": 2}}",
          "only the type yarn" },
        { "{\"model_type\": \"internlm2\", " SIZES "\"max_position_embeddings\": 4096}",
          "internlm2, whose own code" },
        { "{\"model_type\": \"hunyuan_v1_dense\", " SIZES
          "\"max_position_embeddings\": 4096, \"rope_scaling\": {\"type\": \"dynamic\", "
          "\"factor\": 1, \"alpha\": 3}}",
          "replace the alpha" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct model_config config;
        struct error err = { 0 };

        assert_false(try_to_read(
            (struct trial) { ROPE_SCALING_YARN, 8192, cases[i].config }, &config, &err));
        if (err.code != ERROR_JOB || !strstr(err.text, cases[i].word))
            fail_msg("%s", err.text);
    }
}

static int setup(void **state)
{
    (void)state;
    arena = arena_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rope_scaling_extends_the_positions),
        cmocka_unit_test(test_rope_scaling_without_need),
        cmocka_unit_test(test_rope_scaling_replaces_that_of_the_model),
        cmocka_unit_test(test_rope_scaling_in_rope_parameters),
        cmocka_unit_test(test_rope_scaling_refuses_models),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
