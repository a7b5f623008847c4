/*
 * tests/unit/test_config_defaults.c - values of config.json that a model's class in
 * transformers 5.24 has by default.
 */
#include "config.h"

#include "train/model/model_config.h"

#include "base/size.h"
#include "tests/unit/unit.h"

/* Read a small config.json of a family with 32 heads, and more members. */
static void read_config(const char *model_type, const char *more, struct arena *arena,
                        struct model_config *out)
{
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "{\"model_type\": \"%s\", \"vocab_size\": 100, \"hidden_size\": 256, "
              "\"intermediate_size\": 64, \"num_hidden_layers\": 4, "
              "\"num_attention_heads\": 32, \"moe_intermediate_size\": 16, "
              "\"shared_expert_intermediate_size\": 16, \"rope_theta\": 10000.0%s}",
              model_type, more);
    if (!model_config_parse(text.data, text.len, "config.json", arena, out, &err))
        fail_msg("%s: %s", model_type, err.text);
    text_clear(&text);
}

/* configuration_NAME.py: num_key_value_heads; null means as many as heads. */
static void test_config_has_the_default_key_heads_of_its_class(void **state)
{
    static const struct {
        const char *model_type;
        size_t kv_heads;
    } cases[] = {
        { "llama", 32 },           { "mistral", 8 },    { "qwen2", 32 },
        { "qwen3", 32 },           { "qwen2_moe", 16 }, { "qwen3_moe", 4 },
        { "mixtral", 8 },          { "gemma", 16 },     { "gemma2", 4 },
        { "gemma3_text", 4 },      { "starcoder2", 2 }, { "stablelm", 32 },
        { "smollm3", 4 },          { "glm", 2 },        { "glm4", 2 },
        { "glm4_moe", 8 },         { "ernie4_5", 2 },   { "exaone4", 32 },
        { "seed_oss", 8 },         { "olmo2", 32 },     { "qwen3_5_text", 4 },
        { "qwen3_5_moe_text", 2 }, { "phimoe", 8 },     { "gpt_oss", 8 },
        { "hunyuan_v1_moe", 32 },  { "ministral3", 8 }, { "qwen3_vl_moe_text", 16 },
        { "minimax_m2", 8 },       { "lfm2", 8 },       { "falcon_h1", 8 },
    };
    struct arena *arena = arena_new();
    struct model_config config;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        const char *name = cases[i].model_type;
        const char *scaling =
            strcmp(name, "ministral3") == 0 || strcmp(name, "gpt_oss") == 0
                ? ", \"rope_parameters\": {\"rope_type\": \"default\", "
                  "\"rope_theta\": 1e6}"
                : "";
        struct text more;

        read_config(name, scaling, arena, &config);
        if (config.kv_heads != cases[i].kv_heads)
            fail_msg("%s has %zu key heads, not %zu", name, config.kv_heads,
                     cases[i].kv_heads);
        text_init(&more, 0);
        text_addf(&more, ", \"num_key_value_heads\": null%s", scaling);
        read_config(name, more.data, arena, &config);
        assert_int_equal(config.kv_heads, 32);
        text_clear(&more);
    }
    arena_free(arena);
}

/* Settings that are true by default: transformers tests the None that null becomes. */
static void test_config_reads_null_as_false(void **state)
{
    struct arena *arena = arena_new();
    struct model_config c;

    (void)state;
    read_config("falcon", "", arena, &c);
    assert_int_equal(c.kv_heads, 1);
    assert_true(c.parallel);
    read_config("falcon", ", \"multi_query\": null", arena, &c);
    assert_int_equal(c.kv_heads, 32);
    read_config("falcon", ", \"parallel_attn\": null", arena, &c);
    assert_false(c.parallel);
    read_config("deepseek_v3", "", arena, &c);
    assert_true(c.normalizes_experts && c.architecture->rotary_interleaved);
    read_config("deepseek_v3", ", \"norm_topk_prob\": null", arena, &c);
    assert_false(c.normalizes_experts);
    read_config("deepseek_v3", ", \"rope_interleave\": null", arena, &c);
    assert_false(c.architecture->rotary_interleaved);
    read_config("falcon_h1", "", arena, &c);
    assert_true(c.ssm.conv_bias);
    read_config("falcon_h1", ", \"mamba_conv_bias\": null", arena, &c);
    assert_false(c.ssm.conv_bias);
    read_config("falcon_h1", ", \"mamba_rms_norm\": true", arena, &c);
    assert_int_equal(c.ssm.norm, SCAN_NORM_BEFORE_GATE);
    read_config("falcon_h1",
                ", \"mamba_rms_norm\": true, \"mamba_norm_before_gate\": null", arena,
                &c);
    assert_int_equal(c.ssm.norm, SCAN_NORM_AFTER_GATE);
    arena_free(arena);
}

/* Hunyuan-A13B has a list with the experts of each layer. */
static void test_config_has_one_number_of_chosen_experts(void **state)
{
    static const char base[] =
        "{\"model_type\": \"hunyuan_v1_moe\", \"vocab_size\": 100, \"hidden_size\": "
        "256, \"intermediate_size\": 64, \"num_hidden_layers\": 2, "
        "\"num_attention_heads\": 4, \"num_experts\": 6, \"moe_topk\": %s}";
    static const struct {
        const char *list;
        size_t chosen; /* 0: rejected */
    } cases[] = { { "3", 3 },  { "[2, 2]", 2 }, { "[2, 3]", 0 },
                  { "[]", 0 }, { "[7, 7]", 0 }, { "[\"2\", \"2\"]", 0 } };
    struct arena *arena = arena_new();
    struct model_config config;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct error err = { 0 };
        struct text text;
        bool ok;

        text_init(&text, 0);
        text_addf(&text, base, cases[i].list);
        ok = model_config_parse(text.data, text.len, "config.json", arena, &config, &err);
        assert_true(ok == (cases[i].chosen > 0));
        if (ok)
            assert_int_equal(config.chosen_experts, cases[i].chosen);
        text_clear(&text);
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_config_has_the_default_key_heads_of_its_class),
        cmocka_unit_test(test_config_reads_null_as_false),
        cmocka_unit_test(test_config_has_one_number_of_chosen_experts),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
