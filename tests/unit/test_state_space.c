/* tests/unit/test_state_space.c - the sizes and factors of state space models, as published
 * config.json files and those of transformers have them. */
#include "config.h"

#include "train/model/state_space.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

#define SMALL                                                                            \
    "{\"model_type\": \"falcon_h1\", \"vocab_size\": 40, \"hidden_size\": 32, "          \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"intermediate_size\": 100"

static bool parse(const char *text, struct arena *arena, struct model_config *out,
                  struct error *err)
{
    *err = (struct error) { 0 };
    return model_config_parse(text, strlen(text), "config.json", arena, out, err);
}

static struct model_config parsed(const char *text, struct arena *arena)
{
    struct model_config config;
    struct error err;

    if (!parse(text, arena, &config, &err))
        fail_msg("%s: %s", text, err.text);
    return config;
}

static void test_state_space_sizes(void **state)
{
    struct arena *arena = arena_new();
    struct model_config c = parsed(SMALL ", \"mamba_n_heads\": 16}", arena);

    (void)state;
    assert_true(c.ssm.heads == 16 && c.ssm.size == 64 && c.ssm.depth == 256);
    assert_true(c.ssm.groups == 1 && c.ssm.taps == 4 && c.ssm.conv_bias);
    assert_true(c.ssm.norm == SCAN_NORM_NONE && !c.ssm.in_bias && !c.ssm.out_bias);
    assert_true(c.ssm.low == 0 && isinf(c.ssm.high));
    assert_true(state_space_columns(&c.ssm) == 2 * 1024 + 2 * 256 + 16);
    assert_true(model_config_scans(&c, 2) && !model_config_is_linear(&c, 2));
    assert_int_equal(model_config_scan_first(&c, 0), 64);
    assert_int_equal(c.column_factor_count, 0);
    c = parsed(SMALL
               ", \"mamba_d_ssm\": null, \"mamba_n_heads\": 8, \"mamba_d_head\": 8, "
               "\"mamba_rms_norm\": true, \"time_step_limit\": "
               "[0.25, {\"__float__\": \"Infinity\"}]}",
               arena);
    assert_true(c.ssm.size == 8 && c.ssm.norm == SCAN_NORM_BEFORE_GATE);
    assert_true(c.ssm.low == 0.25 && isinf(c.ssm.high));
    c = parsed(SMALL ", \"mamba_n_heads\": 16, \"time_step_limit\": [0.25, Infinity]}",
               arena);
    assert_true(c.ssm.low == 0.25 && isinf(c.ssm.high));
    arena_free(arena);
}

/* Columns without a factor have no entry. */
static void test_state_space_factors(void **state)
{
    static const struct column_factor expected[] = {
        { 32, 16, 0.5 }, { 64, 64, 0.75 }, { 128, 64, 1.5 },
        { 192, 8, 1.5 }, { 200, 8, 1.5 },  { 208, 8, 0.375 },
    };
    struct arena *arena = arena_new();
    struct model_config c =
        parsed(SMALL ", \"mamba_d_ssm\": 64, \"mamba_n_heads\": 8, \"mamba_d_state\": 8, "
                     "\"key_multiplier\": 0.5, \"ssm_in_multiplier\": 1.5, "
                     "\"ssm_multipliers\": [0.5, 1, 1, 1, 0.25], "
                     "\"ssm_out_multiplier\": 0.125, \"mlp_multipliers\": [0.75, 2], "
                     "\"attention_out_multiplier\": 0.0625}",
               arena);

    (void)state;
    assert_int_equal(c.column_factor_count, TS_COUNT(expected));
    for (size_t i = 0; i < TS_COUNT(expected); i++) {
        assert_int_equal(c.column_factors[i].first, expected[i].first);
        assert_int_equal(c.column_factors[i].count, expected[i].count);
        assert_true(c.column_factors[i].factor == expected[i].factor);
    }
    assert_true(c.ssm.out_factor == 0.125 && c.attention_factor == 0.0625);
    assert_true(c.gate_factor == 0.75 && c.down_factor == 2);
    arena_free(arena);
}

#define GRANITE                                                                          \
    "{\"model_type\": \"granitemoehybrid\", \"vocab_size\": 40, \"hidden_size\": 32, "   \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, " \
    "\"intermediate_size\": 100, \"shared_intermediate_size\": 44, \"mamba_n_heads\": 4"

static void test_state_space_in_some_layers(void **state)
{
    struct arena *arena = arena_new();
    struct model_config c =
        parsed(GRANITE ", \"layer_types\": [\"attention\", \"mamba\"]}", arena);

    (void)state;
    assert_true(!model_config_scans(&c, 0) && model_config_scans(&c, 1));
    assert_true(model_config_has(&c, MODULE_Q, 0) && !model_config_has(&c, MODULE_Q, 1));
    assert_true(!model_config_has(&c, MODULE_SKIP, 0) &&
                model_config_has(&c, MODULE_SKIP, 1));
    assert_true(c.ssm.norm == SCAN_NORM_AFTER_GATE && c.rotary == 0);
    assert_true(c.experts == 8 && c.shared_size == 44);
    assert_int_equal(model_config_scan_first(&c, 1), 0);
    c = parsed(GRANITE ", \"layer_types\": [\"attention\", \"attention\"], "
                       "\"num_local_experts\": 0, \"position_embedding_type\": \"rope\"}",
               arena);
    assert_true(c.ssm.heads == 0 && !c.linear && c.rotary == 8);
    assert_true(c.experts == 0 && c.intermediate_size == 44);
    assert_true(model_config_has(&c, MODULE_GATE_UP, 0));
    assert_false(model_config_has(&c, MODULE_ROUTER, 0));
    arena_free(arena);
}

static void test_state_space_rejects_other_values(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { GRANITE ", \"layer_types\": [\"mamba\", \"conv\"]}", "mamba or attention" },
        { GRANITE ", \"layer_types\": [\"mamba\"]}", "a list of 2 strings" },
        { SMALL ", \"mamba_n_heads\": 0}", "mamba_n_heads must be a number" },
        { SMALL ", \"mamba_n_heads\": 3}", "mamba_n_heads 3 with mamba_d_head" },
        { SMALL ", \"mamba_n_heads\": 16, \"mamba_d_head\": 32}", "1024 columns" },
        { SMALL ", \"mamba_n_heads\": 4}", "256 columns of a head" },
        { SMALL ", \"mamba_n_heads\": 16, \"mamba_n_groups\": 3}",
          "mamba_n_heads 16 must be a multiple of mamba_n_groups 3" },
        { SMALL ", \"mamba_n_heads\": 16, \"mamba_d_state\": 257}", "from 1 to 256" },
        { SMALL ", \"mamba_n_heads\": 16, \"mamba_d_conv\": 1}", "must be 2 or more" },
        { SMALL ", \"mamba_n_heads\": 16, \"hidden_act\": \"gelu\"}", "must be silu" },
        { SMALL ", \"mamba_n_heads\": 16, \"time_step_limit\": [0]}", "two numbers" },
        { SMALL ", \"mamba_n_heads\": 16, \"time_step_limit\": [1, 0.5]}",
          "start with the lower limit" },
        { SMALL ", \"mamba_n_heads\": 16, \"ssm_multipliers\": [1, 1]}",
          "ssm_multipliers must be a list of 5 numbers" },
        { SMALL ", \"mamba_n_heads\": 16, \"key_multiplier\": 0}",
          "key_multiplier must be a number above 0" },
        { SMALL ", \"mamba_n_heads\": 16, \"key_multiplier\": 0.5, "
                "\"attention_bias\": true}",
          "biases are not supported together with factors" },
    };
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        assert_false(parse(cases[i].text, arena, &config, &err));
        if (!strstr(err.text, cases[i].error))
            fail_msg("%s: %s", cases[i].text, err.text);
    }
    arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state_space_sizes),
        cmocka_unit_test(test_state_space_factors),
        cmocka_unit_test(test_state_space_in_some_layers),
        cmocka_unit_test(test_state_space_rejects_other_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
