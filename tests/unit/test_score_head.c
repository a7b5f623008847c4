/* tests/unit/test_score_head.c - the configuration of a reward model is that of the class
 * which transformers has for it, or of the model with a value head. */
#include "config.h"

#include "train/model/score_head.h"

#include "base/size.h"
#include "tests/unit/unit_formula_adapter.h"
#include "tests/unit/unit_model.h"

#define CONFIG                                                                      \
    "\"hidden_size\": 32, \"intermediate_size\": 48, \"num_hidden_layers\": 2, "    \
    "\"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 512, " \
    "\"head_dim\": 8, \"max_position_embeddings\": 128, \"eos_token_id\": [2, 3]"

struct variant {
    const char *config;
    enum reward_head asked;
    enum score_kind kind;
    int64_t end;
    const char *class; /* NULL: config.json stays */
};

static const struct variant cases[] = {
    { "{\"model_type\": \"llama\", " CONFIG "}", REWARD_HEAD_AUTO, SCORE_VALUE, -1,
      NULL },
    { "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], " CONFIG
      "}",
      REWARD_HEAD_SCORE, SCORE_LINEAR, 2, "LlamaForSequenceClassification" },
    { "{\"model_type\": \"llama\", \"pad_token_id\": 0, " CONFIG "}", REWARD_HEAD_SCORE,
      SCORE_LINEAR, 0, "LlamaForSequenceClassification" },
    { "{\"model_type\": \"qwen3\", \"architectures\": "
      "[\"Qwen3ForSequenceClassification\"], " CONFIG "}",
      REWARD_HEAD_AUTO, SCORE_LINEAR, 2, "Qwen3ForSequenceClassification" },
    { "{\"model_type\": \"qwen3\", \"architectures\": "
      "[\"Qwen3ForSequenceClassification\"], " CONFIG "}",
      REWARD_HEAD_VALUE, SCORE_VALUE, -1, NULL },
    /* Gemma3ForSequenceClassification would have towers */
    { "{\"model_type\": \"gemma3_text\", \"architectures\": "
      "[\"Gemma3ForCausalLM\"], " CONFIG "}",
      REWARD_HEAD_SCORE, SCORE_LINEAR, 2, "Gemma3TextForSequenceClassification" },
    { "{\"model_type\": \"cohere\", \"logit_scale\": 0.5, " CONFIG "}", REWARD_HEAD_AUTO,
      SCORE_VALUE, -1, NULL },
};

static void parse(const char *text, struct arena *arena, struct model_config *out)
{
    struct error err = { 0 };

    unit_must(model_config_parse(text, strlen(text), "config.json", arena, out, &err),
              &err);
}

static void check_config(const struct model_config *config,
                         const struct variant *expected)
{
    struct error err = { 0 };
    struct text text;
    json_t *root;

    text_init(&text, 0);
    text_adds(&text, expected->config);
    unit_must(score_head_edit_config(config, &text, &err), &err);
    if (!expected->class) {
        assert_string_equal(text.data, expected->config);
        text_clear(&text);
        return;
    }
    root = json_loads(text.data, 0, NULL);
    assert_string_equal(
        json_string_value(json_array_get(json_object_get(root, "architectures"), 0)),
        expected->class);
    assert_int_equal(json_integer_value(json_object_get(root, "pad_token_id")),
                     expected->end);
    assert_int_equal(json_object_size(json_object_get(root, "id2label")), 1);
    json_decref(root);
    text_clear(&text);
}

static void test_score_head_is_that_of_the_folder_or_the_job(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct plan plan = { .stage = STAGE_RM, .preference.head = cases[i].asked };
        struct arena *arena = arena_new();
        struct model_config config;
        struct error err = { 0 };

        parse(cases[i].config, arena, &config);
        unit_must(score_head_apply(&plan, "/nonexistent", arena, &config, &err), &err);
        assert_int_equal(config.scores, cases[i].kind);
        assert_int_equal(config.score_end, cases[i].end);
        assert_string_equal(config.token_head, "lm_head");
        assert_string_equal(config.architecture->paths[MODULE_HEAD],
                            cases[i].class ? "score" : "v_head.summary");
        assert_false(config.tied);
        assert_true(config.logit_scale == 1);
        assert_true(score_head_replaces(&config, "lm_head.weight"));
        assert_false(score_head_replaces(&config, "lm_heads.weight"));
        check_config(&config, &cases[i]);
        arena_free(arena);
    }
}

/* An adapter decides before the folder that it was trained on; the job decides first. */
static void test_score_head_is_that_of_the_adapter(void **state)
{
    static const struct {
        const char *file, *tensor;
        enum method method;
        enum reward_head asked;
        enum score_kind kind;
    } adapters[] = {
        { "adapter_model", "base_model.model.score.weight", METHOD_LORA, REWARD_HEAD_AUTO,
          SCORE_LINEAR },
        { "adapter_model", "base_model.model.score.weight", METHOD_LORA,
          REWARD_HEAD_VALUE, SCORE_VALUE },
        { "adapter_model", "base_model.model.score.weight", METHOD_FULL, REWARD_HEAD_AUTO,
          SCORE_VALUE },
        { "adapter_model", "base_model.model.scores.weight", METHOD_LORA,
          REWARD_HEAD_AUTO, SCORE_VALUE },
        { SCORE_HEAD_FILE, "v_head.summary.weight", METHOD_LORA, REWARD_HEAD_AUTO,
          SCORE_VALUE },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(adapters); i++) {
        /* with the value head, the folder of the base has the other form */
        const char *text = cases[i == TS_COUNT(adapters) - 1 ? 3 : 0].config;
        char *dir = unit_dir_new();
        struct plan plan = { .stage = STAGE_RM,
                             .method = adapters[i].method,
                             .adapter_name_or_path = dir,
                             .preference.head = adapters[i].asked };
        json_t *tensors = json_pack("[[s, [i, i]]]", adapters[i].tensor, 1, 32);
        struct arena *arena = arena_new();
        struct model_config config;
        struct error err = { 0 };

        unit_write_formulas(dir, tensors, 0.1);
        if (strcmp(adapters[i].file, "adapter_model") != 0) {
            char *from = path_join(dir, "adapter_model.safetensors");
            char *to = path_join(dir, SCORE_HEAD_FILE ".safetensors");

            assert_int_equal(rename(from, to), 0);
            free(from);
            free(to);
        }
        parse(text, arena, &config);
        unit_must(score_head_apply(&plan, "/nonexistent", arena, &config, &err), &err);
        assert_int_equal(config.scores, adapters[i].kind);
        json_decref(tensors);
        arena_free(arena);
        unit_dir_free(dir);
    }
}

static void test_score_head_needs_a_class_of_transformers(void **state)
{
    static const char text[] = "{\"model_type\": \"cohere\", " CONFIG "}";
    struct plan plan = { .stage = STAGE_RM, .preference.head = REWARD_HEAD_SCORE };
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };

    (void)state;
    parse(text, arena, &config);
    assert_false(score_head_apply(&plan, "/nonexistent", arena, &config, &err));
    assert_non_null(strstr(err.text, "reward_head: value_head"));
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score_head_is_that_of_the_folder_or_the_job),
        cmocka_unit_test(test_score_head_is_that_of_the_adapter),
        cmocka_unit_test(test_score_head_needs_a_class_of_transformers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
