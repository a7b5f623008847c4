/* tests/unit/test_short_convs.c - the layers of LFM2 with short convolutions, and its sizes,
 * as published config.json files and those of transformers have them. */
#include "config.h"

#include "train/model/short_convs.h"

#include "base/size.h"
#include "tests/unit/unit.h"

/* LFM2-1.2B, as published: transformers 4.54 wrote it. */
static const char published[] =
    "{\"block_auto_adjust_ff_dim\": true, \"block_dim\": 2048, \"block_ff_dim\": 12288, "
    "\"block_ffn_dim_multiplier\": 1.0, \"block_multiple_of\": 256, \"bos_token_id\": 1, "
    "\"conv_L_cache\": 3, \"conv_bias\": false, \"conv_dim\": 2048, \"eos_token_id\": 7, "
    "\"full_attn_idxs\": [2, 5, 8, 10, 12, 14], \"hidden_size\": 2048, "
    "\"max_position_embeddings\": 128000, \"model_type\": \"lfm2\", \"norm_eps\": 1e-05, "
    "\"num_attention_heads\": 32, \"num_heads\": 32, \"num_hidden_layers\": 16, "
    "\"num_key_value_heads\": 8, \"pad_token_id\": 0, \"rope_theta\": 1000000.0, "
    "\"theta\": 1000000.0, \"torch_dtype\": \"bfloat16\", \"vocab_size\": 65536}";

#define SMALL                                                                       \
    "{\"model_type\": \"lfm2\", \"vocab_size\": 40, \"hidden_size\": 32, "          \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 8, \"intermediate_size\": " \
    "100"

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

static void test_short_convs_of_a_published_model(void **state)
{
    struct arena *arena = arena_new();
    struct model_config c = parsed(published, arena);

    (void)state;
    for (size_t l = 0; l < 16; l++) {
        bool full = l == 2 || l == 5 || l == 8 || l == 10 || l == 12 || l == 14;

        assert_true(model_config_has_conv(&c, l) == !full);
        assert_true(model_config_has(&c, MODULE_Q, l) == full);
        assert_true(model_config_has(&c, MODULE_CONV, l) == !full);
    }
    assert_true(c.delta.taps == 3 && !c.delta.bias && c.tied && c.padding == 0);
    assert_int_equal(c.intermediate_size, 8192);
    assert_true(c.rope.theta == 1e6 && c.norm_eps == 1e-5 && c.head_size == 64);
    arena_free(arena);
}

/* Lfm2MLP of transformers 5.24, in Python. */
static void test_short_convs_adjust_the_size_of_mlps(void **state)
{
    static const struct {
        const char *keys;
        size_t size;
    } cases[] = {
        { "", 256 }, /* 66 */
        { ", \"block_multiple_of\": 10", 70 },
        { ", \"block_multiple_of\": 11", 66 },
        { ", \"block_multiple_of\": 1, \"block_ff_dim\": 101", 67 },
        { ", \"block_multiple_of\": 1, \"block_ffn_dim_multiplier\": 1.3", 85 },
        { ", \"block_ffn_dim_multiplier\": null", 66 },
        { ", \"block_auto_adjust_ff_dim\": false", 100 },
        { ", \"block_auto_adjust_ff_dim\": false, \"block_ff_dim\": 70", 70 },
    };
    struct arena *arena = arena_new();
    struct text text;

    (void)state;
    text_init(&text, 0);
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        text_reset(&text);
        text_addf(&text, SMALL "%s}", cases[i].keys);
        assert_int_equal(parsed(text.data, arena).intermediate_size, cases[i].size);
    }
    text_clear(&text);
    arena_free(arena);
}

/* layer_types has precedence; without either list, all layers have attention. */
static void test_short_convs_follow_either_list(void **state)
{
    struct arena *arena = arena_new();
    struct model_config c = parsed(SMALL "}", arena);

    (void)state;
    for (size_t l = 0; l < 3; l++)
        assert_false(model_config_has_conv(&c, l));
    c = parsed(SMALL ", \"hidden_act\": \"gelu\"}", arena); /* which is not read */
    assert_int_equal(c.activation, ACTIVATION_SILU);
    c = parsed(SMALL ", \"full_attn_idxs\": [1, 7], \"tie_embedding\": false, "
                     "\"tie_word_embeddings\": true, \"conv_bias\": true}",
               arena);
    assert_true(model_config_has_conv(&c, 0) && !model_config_has_conv(&c, 1));
    assert_true(model_config_has_conv(&c, 2) && !c.tied && c.delta.bias);
    c = parsed(SMALL ", \"full_attn_idxs\": [0]}", arena);
    assert_true(!model_config_has_conv(&c, 0) && model_config_has_conv(&c, 1));
    c = parsed(SMALL ", \"full_attn_idxs\": [1], \"layer_types\": "
                     "[\"full_attention\", \"full_attention\", \"conv\"]}",
               arena);
    assert_true(!model_config_has_conv(&c, 0) && model_config_has_conv(&c, 2));
    arena_free(arena);
}

static void test_short_convs_reject_other_values(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        { SMALL ", \"layer_types\": [\"conv\", \"conv\"]}", "a list of 3 strings" },
        { SMALL ", \"layer_types\": [\"conv\", \"conv\", \"mamba\"]}",
          "conv or full_attention" },
        { SMALL ", \"full_attn_idxs\": [\"1\"]}", "full_attn_idxs must be a list" },
        { SMALL ", \"full_attn_idxs\": 1}", "full_attn_idxs must be a list" },
        { SMALL ", \"conv_L_cache\": 9}", "conv_L_cache must be a number from 2 to 8" },
        { SMALL ", \"conv_L_cache\": 1}", "conv_L_cache must be a number from 2 to 8" },
        { SMALL ", \"block_multiple_of\": 0}", "block_multiple_of must be a number" },
        { SMALL ", \"block_ffn_dim_multiplier\": -1}",
          "block_ffn_dim_multiplier must be a number above 0" },
        { SMALL ", \"block_ff_dim\": 0}", "block_ff_dim must be a number" },
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
        cmocka_unit_test(test_short_convs_of_a_published_model),
        cmocka_unit_test(test_short_convs_adjust_the_size_of_mlps),
        cmocka_unit_test(test_short_convs_follow_either_list),
        cmocka_unit_test(test_short_convs_reject_other_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
