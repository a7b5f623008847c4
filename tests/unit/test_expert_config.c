/*
 * tests/unit/test_expert_config.c - messages about the experts of config.json: each names the
 * file and the key, and what it must be.
 */
#include "config.h"

#include "train/model/model_config.h"

#include "base/size.h"
#include "tests/unit/unit.h"

static void refuses(const char *model_type, const char *more, const char *expected)
{
    struct arena *arena = arena_new();
    struct model_config config;
    struct error err = { 0 };
    struct text text;

    text_init(&text, 0);
    text_addf(&text,
              "{\"model_type\": \"%s\", \"vocab_size\": 100, \"hidden_size\": 64, "
              "\"intermediate_size\": 64, \"num_hidden_layers\": 4, "
              "\"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
              "\"rope_theta\": 10000.0, %s}",
              model_type, more);
    if (model_config_parse(text.data, text.len, "m/config.json", arena, &config, &err))
        fail_msg("%s is accepted", more);
    assert_int_equal(err.code, ERROR_DATA);
    if (strncmp(err.text, "m/config.json: ", 15) != 0 || !strstr(err.text, expected))
        fail_msg("%s: \"%s\", not \"%s\"", more, err.text, expected);
    text_clear(&text);
    arena_free(arena);
}

static void test_expert_messages_name_file_and_key(void **state)
{
    static const struct {
        const char *model_type, *more, *expected;
    } cases[] = {
        { "qwen3_moe", "\"num_experts\": 0",
          "num_experts must be a number from 1 to 1073741824, not 0" },
        { "mixtral", "\"num_local_experts\": 100000",
          "num_local_experts must be at most" },
        { "qwen3_moe", "\"num_local_experts\": 100000",
          "num_local_experts must be at most" },
        { "mixtral", "\"num_local_experts\": 4, \"num_experts_per_tok\": 5",
          "num_experts_per_tok must be at most 4, not 5: there are no more experts" },
        { "qwen3_moe", "\"num_experts\": 256, \"num_experts_per_tok\": 200",
          "not 200: more experts of a token are not supported" },
        { "qwen3_moe", "\"num_experts\": 4, \"mlp_only_layers\": [\"x\"]",
          "mlp_only_layers must be a list of numbers of layers" },
        { "qwen3_moe", "\"num_experts\": 4, \"mlp_only_layers\": 1",
          "mlp_only_layers must be a list of numbers of layers" },
        { "llama4_text",
          "\"num_local_experts\": 4, \"intermediate_size_mlp\": 48, \"moe_layers\": [0, 1.5]",
          "moe_layers must be a list of numbers of layers" },
        { "qwen3_moe", "\"num_experts\": 8, \"use_sliding_window\": true",
          "use_sliding_window is not supported for a model with experts; set it to false" },
        { "glm4_moe",
          "\"n_routed_experts\": 8, \"num_experts_per_tok\": 2, \"n_group\": 8, "
          "\"topk_group\": 4",
          "n_group must be at most 4, half the number of experts, not 8" },
        { "glm4_moe",
          "\"n_routed_experts\": 8, \"num_experts_per_tok\": 6, \"n_group\": 4, "
          "\"topk_group\": 2",
          "num_experts_per_tok must be at most 4, the experts of topk_group 2 groups, "
          "not 6" },
        { "glm4_moe", "\"n_routed_experts\": 8, \"routed_scaling_factor\": 1e6",
          "routed_scaling_factor must be a number above 0 and below 1e6, not 1e+06" },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        refuses(cases[i].model_type, cases[i].more, cases[i].expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_expert_messages_name_file_and_key),
    };

    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
