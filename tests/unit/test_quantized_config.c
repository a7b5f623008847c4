/* tests/unit/test_quantized_config.c - tests the quantization_config of a quantized
 * base, and rejected ones, by the key. */
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
#define GPTQ "{\"quantization_config\": {\"quant_method\": \"gptq\""
#define AWQ  "{\"quantization_config\": {\"quant_method\": \"awq\""

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

static void test_config_of_gptq_is_read(void **state)
{
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    assert_true(parse(GPTQ ", \"bits\": 4, \"group_size\": 128, \"desc_act\": true}}",
                      &is, &err));
    assert_true(is.enabled && is.by == QUANTIZER_GPTQ && is.less_one && is.sorts);
    assert_int_equal(is.bits, 4);
    assert_int_equal(is.affine.bits, 4);
    assert_int_equal(is.affine.group, 128);
    assert_true(parse(GPTQ ", \"bits\": 8, \"group_size\": -1, "
                           "\"checkpoint_format\": \"gptq_v2\", \"dynamic\": null}}",
                      &is, &err));
    assert_true(is.affine.bits == 8 && is.affine.group == 0);
    assert_false(is.less_one || is.sorts);
    assert_true(parse(GPTQ ", \"bits\": 3, \"format\": \"gptq_v2\"}}", &is, &err));
    assert_true(is.bits == 3 && is.affine.bits == 4 && !is.less_one);
}

static void test_config_of_awq_is_read(void **state)
{
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    assert_true(parse(AWQ ", \"bits\": 4, \"group_size\": 64, \"version\": \"GEMM\", "
                          "\"modules_to_not_convert\": [\"mlp.gate\"]}}",
                      &is, &err));
    assert_true(is.enabled && is.by == QUANTIZER_AWQ && !is.less_one);
    assert_int_equal(is.affine.group, 64);
    assert_true(quantized_config_skips(&is, "model.layers.0.mlp.gate.weight"));
    assert_false(quantized_config_skips(&is, "model.layers.0.mlp.gate_proj.weight"));
}

/* optimum names the ends of the layers that it quantizes, step by step. */
static void test_config_lists_layers(void **state)
{
    static const struct {
        const char *name;
        bool plain;
    } rows[] = {
        { "model.layers.0.self_attn.q_proj.weight", false },
        { "model.layers.0.self_attn.o_proj.weight", true },
        { "model.layers.0.mlp.down_proj.weight", false },
        { "model.layers.0.mlp.shared_down_proj.weight", true },
        { "model.layers.0.mlp.gate.weight", true },
        { "down_proj", false },
    };
    struct quantized_config is;
    struct error err = { 0 };

    (void)state;
    assert_true(parse(GPTQ ", \"modules_in_block_to_quantize\": [[\"self_attn.q_proj\", "
                           "\"self_attn.k_proj\"], [\"down_proj\"]]}}",
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
        { "{\"quantization_config\": {\"quant_method\": \"aqlm\", \"bits\": 2}}",
          "quant_method \"aqlm\"" },
        { BNB ", \"quant_method\": \"gptq\"}}", "quant_method \"gptq\"" },
        { GPTQ ", \"bits\": 5}}", "bits 5 is not supported, only 2, 3, 4 and 8" },
        { GPTQ ", \"bits\": 0}}", "bits 0" },
        { GPTQ ", \"bits\": -1}}", "bits -1" },
        { GPTQ ", \"bits\": 16}}", "bits 16" },
        { GPTQ ", \"bits\": \"4\"}}", "bits" },
        { GPTQ ", \"group_size\": 0}}", "group_size must be -1, or 1 or more, not 0" },
        { GPTQ ", \"group_size\": -2}}", "group_size" },
        { GPTQ ", \"group_size\": 4294967296}}", "group_size" },
        { GPTQ ", \"checkpoint_format\": \"marlin\"}}", "checkpoint_format marlin" },
        { GPTQ ", \"is_marlin_format\": true}}", "checkpoint_format marlin" },
        { GPTQ ", \"pack_dtype\": \"int16\"}}", "pack_dtype \"int16\"" },
        { GPTQ ", \"dynamic\": {\"-:lm_head\": {}}}}", "dynamic is not supported" },
        { GPTQ ", \"lm_head\": true}}", "lm_head must not be quantized" },
        { GPTQ ", \"modules_in_block_to_quantize\": [\"k_proj\"]}}",
          "modules_in_block_to_quantize" },
        { GPTQ ", \"modules_in_block_to_quantize\": {}}}",
          "modules_in_block_to_quantize" },
        { GPTQ ", \"desc_act\": \"yes\"}}", "desc_act" },
        { AWQ ", \"bits\": 8}}", "bits 8 is not supported, only 4" },
        { AWQ ", \"version\": \"gemv\"}}", "version \"gemv\" is not supported" },
        { AWQ ", \"version\": \"gemv_fast\"}}", "version \"gemv_fast\"" },
        { AWQ ", \"version\": \"marlin\"}}", "version \"marlin\"" },
        { AWQ ", \"backend\": \"llm-awq\"}}", "version \"llm-awq\"" },
        { AWQ ", \"zero_point\": false}}", "zero_point must be true" },
        { AWQ ", \"modules_to_not_convert\": \"visual\"}}", "modules_to_not_convert" },
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
        cmocka_unit_test(test_config_of_gptq_is_read),
        cmocka_unit_test(test_config_of_awq_is_read),
        cmocka_unit_test(test_config_lists_layers),
        cmocka_unit_test(test_config_rejects_other_bits_and_methods),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
