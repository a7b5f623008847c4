/* tests/unit/test_quantized_config.c - tests the quantization_config of a base in 4 bits,
 * and rejected ones, by the key. */
#include "config.h"

#include "train/model/quantized_config.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static struct arena *arena;

static bool parse(const char *text, struct quantized_config *out, struct error *err)
{
    json_t *root = json_read_text(text, strlen(text), "config.json", 1, err);
    bool ok;

    assert_non_null(root);
    *err = (struct error) { 0 };
    ok = quantized_config_read(root, "config.json", arena, out, err);
    json_decref(root);
    return ok;
}

static void test_config_without_quantization_is_off(void **state)
{
    static const char *const texts[] = { "{}", "{\"quantization_config\": null}" };
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(texts); i++) {
        assert_true(parse(texts[i], &is, &err));
        assert_false(is.enabled);
        assert_false(quantized_config_skips(&is, "model.layers.0.mlp.up_proj.weight"));
    }
}

#define BNB  "{\"quantization_config\": {\"load_in_4bit\": true"
#define NF4  BNB ", \"bnb_4bit_quant_type\": \"nf4\""
#define NAME ", \"quant_method\": \"bitsandbytes\""

/* The name of the method was introduced after its switches. */
static void test_config_in_4_bits_is_read(void **state)
{
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    assert_true(parse(NF4 "}}", &is, &err));
    assert_true(is.enabled && !is.double_quant);
    assert_true(parse(NF4 NAME ", \"bnb_4bit_use_double_quant\": true, "
                               "\"llm_int8_skip_modules\": null}}",
                      &is, &err));
    assert_true(is.enabled && is.double_quant);
    assert_int_equal(is.skipped_count, 0);
}

/* By the rules of transformers 4 and 5. */
static void test_config_excludes_layers(void **state)
{
    static const struct {
        const char *name;
        bool plain;
    } rows[] = {
        { "model.layers.4.mlp.up_proj.weight", true },
        { "model.layers.41.mlp.up_proj.weight", false }, /* another layer */
        { "model.layers.1.mlp.up_proj.weight", true },
        { "model.layers.11.mlp.up_proj.weight", false },
        { "model.layers.1.mlp.up_proj_2.weight", true },
        { "model.layers.2.self_attn.k_proj.weight", true },
        { "model.layers.2.self_attn.q_proj.weight", false },
        { "model.layers.3.self_attn.q_proj.weight", true },
        { "lm_head.weight", true },
    };
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    assert_true(parse(NF4 ", \"llm_int8_skip_modules\": [\"lm_head\", "
                          "\"model.layers.1.mlp\", \"k_proj\", \"3.self_attn\", "
                          "\"model.layers.4\"]}}",
                      &is, &err));
    for (size_t i = 0; i < TS_COUNT(rows); i++)
        if (quantized_config_skips(&is, rows[i].name) != rows[i].plain)
            fail_msg("%s", rows[i].name);
}

static void test_config_rejects_other_bits_and_methods(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        { "{\"quantization_config\": {}}", "quant_method (none)" },
        { "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}",
          "quant_method \"gptq\"" },
        { "{\"quantization_config\": {\"quant_method\": \"awq\"}}",
          "quant_method \"awq\"" },
        { "{\"quantization_config\": {\"load_in_8bit\": true" NAME "}}", "load_in_8bit" },
        { BNB ", \"quant_method\": \"hqq\"}}", "quant_method \"hqq\"" },
        { BNB "}}", "bnb_4bit_quant_type \"fp4\"" },
        { BNB ", \"bnb_4bit_quant_type\": \"fp4\"}}", "bnb_4bit_quant_type \"fp4\"" },
        { BNB ", \"bnb_4bit_quant_type\": 4}}", "bnb_4bit_quant_type" },
        { NF4 ", \"bnb_4bit_blocksize\": 128}}", "bnb_4bit_blocksize 128" },
        { NF4 ", \"blocksize\": 32}}", "blocksize 32" },
        { NF4 ", \"bnb_4bit_use_double_quant\": 3}}", "bnb_4bit_use_double_quant" },
        { NF4 ", \"llm_int8_skip_modules\": \"lm_head\"}}", "llm_int8_skip_modules" },
        { NF4 ", \"llm_int8_skip_modules\": [\"a\", 1]}}", "llm_int8_skip_modules" },
        { NF4 ", \"llm_int8_skip_modules\": [\"\"]}}", "llm_int8_skip_modules" },
        { NF4 ", \"llm_int8_skip_modules\": [\"\\u0000\"]}}", "llm_int8_skip_modules" },
    };
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(rows); i++) {
        assert_false(parse(rows[i].text, &is, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, rows[i].said))
            fail_msg("%s: %s", rows[i].text, err.text);
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
        cmocka_unit_test(test_config_without_quantization_is_off),
        cmocka_unit_test(test_config_in_4_bits_is_read),
        cmocka_unit_test(test_config_excludes_layers),
        cmocka_unit_test(test_config_rejects_other_bits_and_methods),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
