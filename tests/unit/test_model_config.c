/* tests/unit/test_model_config.c - reads both styles of config.json: positions, windows,
 * factors, and published variants of keys. */
#include "config.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_config.h"

static void test_model_config_old_style(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"llama\", " SIZES ", \"num_key_value_heads\": "
               "2,\"rope_theta\": 5e5, "
               "\"torch_dtype\": \"bfloat16\", "
               "\"eos_token_id\": [2, "
               "7],\"attention_bias\": true, "
               "\"rms_norm_eps\": 1e-5, "
               "\"tie_word_embeddings\": "
               "true,\"rope_scaling\": "
               "{\"factor\": 8.0, "
               "\"low_freq_factor\": "
               "1.0,\"high_freq_factor\": 4.0, "
               "\"original_max_position_embeddings\": "
               "8192,\"rope_type\": \"llama3\"}}");

    (void)state;
    assert_string_equal(c.architecture->model_type, "llama");
    assert_int_equal(c.head_size, 16);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.rope.kind, ROPE_LLAMA3);
    assert_true(c.rope.theta == 5e5 && c.rope.factor == 8 && c.rope.low_freq_factor == 1);
    assert_true(c.rope.high_freq_factor == 4 && c.rope.original_max_positions == 8192);
    assert_int_equal(c.dtype, FORMAT_BF16);
    assert_int_equal(c.eos_tokens, 2);
    assert_int_equal(c.eos_token_ids[1], 7);
    assert_true(c.qkv_bias && c.output_bias && !c.mlp_bias && c.tied);
    assert_int_equal(c.bos_token_id, -1);
}

static void test_model_config_new_style(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"qwen2\", " SIZES ", \"head_dim\": 32, \"dtype\": "
               "\"float16\",\"rope_parameters\": "
               "{\"rope_theta\": 1000000.0, "
               "\"rope_type\": "
               "\"default\"},\"eos_token_id\": 5, "
               "\"sliding_window\": null}");

    (void)state;
    assert_int_equal(c.head_size, 32);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.rope.kind, ROPE_DEFAULT);
    assert_true(c.rope.theta == 1e6);
    assert_int_equal(c.dtype, FORMAT_FP16);
    assert_int_equal(c.eos_tokens, 1);
    assert_true(c.qkv_bias && !c.output_bias && !c.tied);
    assert_int_equal(c.sliding_window, 0);
}

static void test_model_config_old_linear_scaling(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"llama\", " SIZES ",\"rope_scaling\": {\"type\": "
               "\"linear\", \"factor\": 2}}");

    (void)state;
    assert_int_equal(c.rope.kind, ROPE_LINEAR);
    assert_true(c.rope.factor == 2 && c.rope.theta == 10000);
}

/* Both forms, and the number of original positions next to them. */
static void test_model_config_longrope(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"phi3\", " SIZES ", \"head_dim\": 8, "
               "\"partial_rotary_factor\": 0.5, \"max_position_embeddings\": 64, "
               "\"original_max_position_embeddings\": 16, \"rope_scaling\": {\"type\": "
               "\"longrope\", \"short_factor\": [1, 2], \"long_factor\": [3, 4]}}");

    (void)state;
    assert_true(c.rope.kind == ROPE_LONGROPE && c.rotary == 4);
    assert_true(c.rope.original_max_positions == 16 && c.rope.factor == 4);
    assert_true(c.rope.short_factors[1] == 2 && c.rope.long_factors[0] == 3);
    c = parsed("{\"model_type\": \"phi3\", " SIZES ", \"head_dim\": 8, "
               "\"max_position_embeddings\": 8192, \"rope_parameters\": {\"rope_type\": "
               "\"longrope\", \"rope_theta\": 100.0, \"partial_rotary_factor\": 0.5, "
               "\"short_factor\": [1, 2], \"long_factor\": [3, 4]}}");
    assert_true(c.rope.kind == ROPE_LONGROPE && c.rotary == 4 && c.rope.theta == 100);
    assert_true(c.rope.original_max_positions == 4096 && c.rope.factor == 2);
    assert_true(model_config_positions(&c) == 8192);
}

/* Any model with windows may have an object for each type of layer. */
static void test_model_config_rope_by_type_of_layer(void **state)
{
    struct model_config c = parsed(
        "{\"model_type\": \"mistral\", " SIZES ", \"sliding_window\": 16, "
        "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"yarn\", \"factor\": "
        "4, \"rope_theta\": 9.0}, \"sliding_attention\": {\"rope_type\": \"default\", "
        "\"rope_theta\": 3.0}}}");

    (void)state;
    assert_true(c.has_local && c.rope.kind == ROPE_YARN && c.rope.theta == 9);
    assert_true(c.rope_local.kind == ROPE_DEFAULT && c.rope_local.theta == 3);
}

static void test_model_config_sliding_window(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"qwen2\", " SIZES ", \"use_sliding_window\": "
               "true,\"sliding_window\": 32, "
               "\"max_window_layers\": 2}");

    (void)state;
    assert_int_equal(c.sliding_window, 32);
    assert_false(c.windowed[0]);
    assert_false(c.windowed[1]);
    assert_true(c.windowed[2]);
    c = parsed("{\"model_type\": \"qwen2\", " SIZES ", \"use_sliding_window\": "
               "true,\"sliding_window\": 32, "
               "\"max_window_layers\": 2, "
               "\"layer_types\":[\"sliding_attention\", "
               "\"full_attention\", "
               "\"full_attention\"]}");
    assert_true(c.windowed[0]);
    assert_false(c.windowed[2]);
}

static void test_model_config_qwen_window_defaults(void **state)
{
    static const char *const types[] = { "qwen2", "qwen3" };
    struct model_config c;
    char text[256];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(types); i++) {
        snprintf(text, sizeof(text),
                 "{\"model_type\": \"%s\", \"vocab_size\": 100, \"hidden_size\": "
                 "64,\"intermediate_size\": 96, \"num_hidden_layers\": "
                 "30,\"num_attention_heads\": 4, \"use_sliding_window\": true}",
                 types[i]);
        c = parsed(text);
        assert_int_equal(c.sliding_window, 4096);
        assert_true(!c.windowed[0] && !c.windowed[27]);
        assert_true(c.windowed[28] && c.windowed[29]);
    }
}

static void test_model_config_mistral_window(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"mistral\", " SIZES "}");

    (void)state;
    assert_int_equal(c.sliding_window, 4096);
    assert_true(c.windowed[0] && c.windowed[2]);
    assert_false(c.qkv_bias || c.output_bias || c.mlp_bias);
    c = parsed("{\"model_type\": \"mistral\", " SIZES ", \"sliding_window\": null}");
    assert_int_equal(c.sliding_window, 0);
    assert_null(c.windowed);
    c = parsed("{\"model_type\": \"mistral\", " SIZES ", \"sliding_window\": "
               "7,\"attention_bias\": true}");
    assert_int_equal(c.sliding_window, 7);
    assert_false(c.qkv_bias);
}

/* As in transformers' auto classes: phi3 and llama ignore it. */
static void test_model_config_layer_types(void **state)
{
    static const char *const heed[] = { "mistral", "qwen2", "qwen3", "gemma2",
                                        "gemma3_text" };
    struct model_config c;
    struct error err;
    char text[512];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(heed); i++) {
        snprintf(text, sizeof(text),
                 "{\"model_type\": \"%s\", " SIZES ", \"use_sliding_window\": "
                 "true,\"sliding_window\": 7" LISTED("sliding_attention") "}",
                 heed[i]);
        c = parsed(text);
        assert_true(c.sliding_window == 7 && c.windowed[0]);
        assert_true(!c.windowed[1] && !c.windowed[2]);
        snprintf(text, sizeof(text),
                 "{\"model_type\": \"%s\", " SIZES LISTED("chunked_attention") "}",
                 heed[i]);
        assert_false(parse(text, &c, &err));
        assert_non_null(strstr(err.text, "layer_types must say full_attention or "
                                         "sliding_attention for layer 0"));
        snprintf(text, sizeof(text),
                 "{\"model_type\": \"%s\", " SIZES
                 ", \"layer_types\": [\"full_attention\"]}",
                 heed[i]);
        assert_false(parse(text, &c, &err));
        assert_non_null(strstr(err.text, "layer_types must be a list of 3 strings"));
    }
    c = parsed("{\"model_type\": \"mistral\", " SIZES ", \"layer_types\": null}");
    assert_true(c.windowed[0] && c.windowed[2]);
    c = parsed("{\"model_type\": \"phi3\", " SIZES
               ", \"sliding_window\": 7" LISTED("sliding_attention") "}");
    assert_true(c.windowed[0] && c.windowed[2]);
    c = parsed("{\"model_type\": \"llama\", " SIZES
               ", \"sliding_window\": 7" LISTED("sliding_attention") "}");
    assert_null(c.windowed);
}

static void test_model_config_dropout(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"llama\", " SIZES "}");

    (void)state;
    assert_true(c.embed_dropout == 0 && c.residual_dropout == 0 &&
                c.attention_dropout == 0);
    /* a key that Llama does not have */
    c = parsed("{\"model_type\": \"llama\", " SIZES ", \"attention_dropout\": "
               "0.25,\"resid_pdrop\": 0.1}");
    assert_true(c.residual_dropout == 0 && c.attention_dropout == 0.25);
    /* a key that Phi-3 does not have */
    c = parsed("{\"model_type\": \"phi3\", " SIZES ", \"resid_pdrop\": "
               "0.125,\"embd_pdrop\": 0.1}");
    assert_true(c.embed_dropout == 0 && c.residual_dropout == 0.125);
    c = parsed("{\"model_type\": \"gpt_neox\", " SIZES ", \"hidden_dropout\": 0.5}");
    assert_true(c.embed_dropout == 0.5 && c.residual_dropout == 0.5);
    assert_true(c.attention_dropout == 0);
}

static void test_model_config_padding(void **state)
{
    static const struct {
        const char *text;
        int64_t padding;
    } cases[] = {
        { "{\"model_type\": \"llama\", " SIZES "}", -1 },
        { "{\"model_type\": \"llama\", " SIZES ", \"pad_token_id\": 2}", 2 },
        { "{\"model_type\": \"llama\", " SIZES ", \"pad_token_id\": -1}", 99 },
        { "{\"model_type\": \"llama\", " SIZES ", \"pad_token_id\": 100}", -1 },
        { "{\"model_type\": \"qwen3\", " SIZES ", \"pad_token_id\": 0}", 0 },
        { "{\"model_type\": \"gemma\", " SIZES "}", 0 },
        { "{\"model_type\": \"gemma2\", " SIZES ", \"pad_token_id\": null}", -1 },
        /* 32000 is outside the vocabulary */
        { "{\"model_type\": \"phi3\", " SIZES "}", -1 },
        { "{\"model_type\": \"gpt2\", " GPT2 ", \"n_positions\": 8, \"pad_token_id\": 2}",
          -1 },
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++)
        if (parsed(cases[i].text).padding != cases[i].padding)
            fail_msg("%s: the padding token is %lld", cases[i].text,
                     (long long)parsed(cases[i].text).padding);
}

/* Layers that do not rotate q and k. */
static void test_model_config_unrotated_layers(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"smollm3\", " SIZES "}");

    (void)state;
    assert_true(c.rotated[0] && c.rotated[1] && c.rotated[2] && !c.windowed);
    assert_true(c.rope.theta == 2e6 && c.tied);
    c = parsed("{\"model_type\": \"smollm3\", " SIZES
               ", \"no_rope_layer_interval\": 2, \"use_sliding_window\": true, "
               "\"sliding_window\": 8}");
    assert_true(c.rotated[0] && !c.rotated[1] && c.rotated[2]);
    assert_true(!c.windowed[0] && c.windowed[1] && !c.windowed[2]);
    c = parsed("{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layers\": [0, 1, 0]}");
    assert_true(!c.rotated[0] && c.rotated[1] && !c.rotated[2]);
    c = parsed("{\"model_type\": \"exaone4\", " SIZES ", \"sliding_window_pattern\": 2}");
    assert_true(c.rotated[0] && !c.rotated[1] && c.rotated[2] && c.windowed[0]);
    c = parsed("{\"model_type\": \"exaone4\", " SIZES
               ", \"sliding_window\": null, \"sliding_window_pattern\": null}");
    assert_true(!c.rotated && !c.windowed);
}

static void test_model_config_factors(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"granite\", " SIZES
               ", \"embedding_multiplier\": 12, \"attention_multiplier\": 0.25, "
               "\"residual_multiplier\": 0.5, \"logits_scaling\": 8}");

    (void)state;
    assert_true(c.embed_scale == 12 && c.score_scale == 0.25);
    assert_true(c.residual_scale == 0.5 && c.logit_scale == 0.125);
    c = parsed("{\"model_type\": \"granite\", " SIZES "}");
    assert_true(c.embed_scale == 1 && c.score_scale == 1);
    assert_true(c.residual_scale == 1 && c.logit_scale == 1);
    c = parsed("{\"model_type\": \"llama\", " SIZES "}");
    assert_true(c.embed_scale == 0 && c.residual_scale == 1 && c.logit_scale == 1);
    c = parsed("{\"model_type\": \"minicpm\", " SIZES
               ", \"scale_emb\": 12, \"scale_depth\": 3, \"dim_model_base\": 16}");
    assert_true(c.embed_scale == 12 && c.residual_scale == 3 / sqrt((double)c.layers));
    assert_true(fabs(c.logit_scale * (double)c.hidden_size - 16) < 1e-12);
}

static void test_model_config_biases_apart(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"seed_oss\", " SIZES "}");

    (void)state;
    assert_true(c.qkv_bias && !c.output_bias && !c.mlp_bias && c.head_size == 128);
    assert_true(c.residual_dropout == 0.1 && c.attention_dropout == 0.1);
    c = parsed("{\"model_type\": \"seed_oss\", " SIZES
               ", \"attention_bias\": false, \"attention_out_bias\": true}");
    assert_true(!c.qkv_bias && c.output_bias && !c.mlp_bias);
    c = parsed("{\"model_type\": \"ernie4_5\", " SIZES ", \"use_bias\": true}");
    assert_true(c.qkv_bias && c.output_bias && c.mlp_bias && c.rope.theta == 5e5);
    c = parsed("{\"model_type\": \"glm4\", " SIZES "}");
    assert_true(c.qkv_bias && !c.output_bias && c.rotary == 64);
}

/* Only a dynamic scaling with an alpha stretches theta: by alpha^(d / (d - 2)). */
static void test_model_config_rope_alpha(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"hunyuan_v1_dense\", " SIZES
               ", \"head_dim\": 4, \"rope_theta\": 100, \"rope_scaling\": {\"type\": "
               "\"dynamic\", \"factor\": 1.0, \"alpha\": 3}}");

    (void)state;
    assert_true(c.rope.kind == ROPE_DEFAULT && fabs(c.rope.theta - 900) < 1e-9);
    c = parsed("{\"model_type\": \"hunyuan_v1_dense\", " SIZES
               ", \"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2.0}}");
    assert_true(c.rope.kind == ROPE_DYNAMIC && c.rope.theta == 10000);
}

/* Keys of published files that the classes of transformers do not read or that are null. */
static void test_model_config_published_keys(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"hunyuan_v1_dense\", " SIZES
                                   ", \"use_qk_norm\": true, \"head_dim\": 8}");

    (void)state;
    assert_int_equal(c.head_size, 8);
    c = parsed("{\"model_type\": \"ernie4_5\", " SIZES ", \"head_dim\": null}");
    assert_int_equal(c.head_size, c.hidden_size / c.heads);
    c = parsed("{\"model_type\": \"ernie4_5\", " SIZES "}");
    assert_int_equal(c.head_size, 128);
    c = parsed("{\"model_type\": \"nemotron\", " SIZES "}");
    assert_true(c.initializer_range == 0.0134);
    c = parsed("{\"model_type\": \"starcoder2\", " SIZES ", \"initializer_range\": 0.5}");
    assert_true(c.initializer_range == 0.5);
    c = parsed(
        "{\"model_type\": \"opt\", \"vocab_size\": 4, \"hidden_size\": 8, \"ffn_dim\": 8, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
        "\"max_position_embeddings\": 8, \"init_std\": 0.25}");
    assert_true(c.initializer_range == 0.25);
}

/* Keys of objects are read like those of the file, which have precedence. */
static void test_model_config_joins_objects(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"dbrx\", " DBRX ", \"attn_config\": {\"clip_qkv\": 8, "
               "\"kv_n_heads\": 2, \"rope_theta\": 500000, \"model_type\": \"\"}, "
               "\"ffn_config\": {\"ffn_hidden_size\": 20, \"moe_num_experts\": 8, "
               "\"moe_top_k\": 3, \"moe_loss_weight\": 0.05, \"ffn_act_fn\": {\"name\": "
               "\"gelu\"}}, \"output_router_logits\": true, \"clip_qkv\": null}");

    (void)state;
    assert_true(c.qkv_limit == 8);
    assert_int_equal(c.kv_heads, 2);
    assert_int_equal(c.expert_size, 20);
    assert_int_equal(c.experts, 8);
    assert_int_equal(c.chosen_experts, 3);
    assert_true(c.rope.theta == 500000 && c.aux_coefficient == 0.05);
    assert_true(c.normalizes_experts && c.activation == ACTIVATION_GELU);
    c = parsed("{\"model_type\": \"dbrx\", " DBRX
               ", \"attn_config\": {\"rope_theta\": 500000}, \"rope_parameters\": "
               "{\"rope_type\": \"default\", \"rope_theta\": 100}, \"ffn_config\": "
               "{\"ffn_hidden_size\": 20, \"moe_normalize_expert_weights\": null}}");
    assert_true(c.rope.theta == 100 && c.qkv_limit == 0 && !c.normalizes_experts);
    assert_int_equal(c.kv_heads, 1);
}

static void test_model_config_reads_shared_models(void **state)
{
    static const char *const folders[] = {
        "data/stories260K/hf", "data/stories260K/hf-qwen2", "data/made-here/qwen2",
        "data/made-here/gpt_neo", "data/capp-gpt2/hf"
    };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(folders); i++) {
        char *dir = unit_shared(folders[i]);
        struct model_config config;
        struct error err = { 0 };

        if (!dir) {
            print_message("# SKIP %s does not exist\n", folders[i]);
            skip();
        }
        assert_true(model_config_read(dir, arena, &config, &err));
        assert_true(config.tied && config.hidden_size == 64);
        assert_non_null(strstr(config.text, "model_type"));
        free(dir);
    }
}

static void test_model_config_reports_a_missing_folder(void **state)
{
    struct model_config config;
    struct error err = { 0 };

    (void)state;
    assert_false(model_config_read("/nowhere/at/all", arena, &config, &err));
    assert_non_null(strstr(err.text, "/nowhere/at/all/config.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_config_old_style),
        cmocka_unit_test(test_model_config_new_style),
        cmocka_unit_test(test_model_config_old_linear_scaling),
        cmocka_unit_test(test_model_config_longrope),
        cmocka_unit_test(test_model_config_rope_by_type_of_layer),
        cmocka_unit_test(test_model_config_sliding_window),
        cmocka_unit_test(test_model_config_qwen_window_defaults),
        cmocka_unit_test(test_model_config_mistral_window),
        cmocka_unit_test(test_model_config_layer_types),
        cmocka_unit_test(test_model_config_dropout),
        cmocka_unit_test(test_model_config_padding),
        cmocka_unit_test(test_model_config_unrotated_layers),
        cmocka_unit_test(test_model_config_factors),
        cmocka_unit_test(test_model_config_biases_apart),
        cmocka_unit_test(test_model_config_rope_alpha),
        cmocka_unit_test(test_model_config_published_keys),
        cmocka_unit_test(test_model_config_joins_objects),
        cmocka_unit_test(test_model_config_reads_shared_models),
        cmocka_unit_test(test_model_config_reports_a_missing_folder),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
