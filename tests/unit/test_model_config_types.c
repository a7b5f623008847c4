/* tests/unit/test_model_config_types.c - reads what config.json of each model_type says in a
 * way of its own. */
#include "config.h"

#include "tests/unit/unit_config.h"
#include "train/model/shared_keys.h"

static void test_model_config_gpt2(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"gpt2\", " GPT2
               ", \"n_positions\": 32, \"n_inner\": null, \"n_ctx\": 32,\"head_dim\": "
               "32}"); /* a key that GPT-2 does not have */

    (void)state;
    assert_int_equal(c.hidden_size, 64);
    assert_int_equal(c.intermediate_size, 256);
    assert_int_equal(c.max_positions, 32);
    assert_int_equal(c.kv_heads, 4);
    assert_int_equal(c.rotary, 0);
    assert_int_equal(c.activation, ACTIVATION_GELU_TANH); /* gelu_new */
    assert_true(c.tied && c.qkv_bias && c.output_bias && c.mlp_bias);
    assert_true(c.norm_eps == 1e-5 && c.score_scale == 0.25 && !c.score_by_layer);
    assert_true(c.embed_dropout == 0.1 && c.residual_dropout == 0.1);
    assert_true(c.attention_dropout == 0.1);
    c = parsed("{\"model_type\": \"gpt2\", " GPT2
               ", \"n_positions\": 32, \"n_inner\": 80, \"activation_function\": "
               "\"gelu\",\"tie_word_embeddings\": false, \"scale_attn_weights\": "
               "false,\"scale_attn_by_inverse_layer_idx\": true}");
    assert_int_equal(c.intermediate_size, 80);
    assert_int_equal(c.activation, ACTIVATION_GELU);
    assert_true(!c.tied && c.score_scale == 1 && c.score_by_layer);
    c = parsed("{\"model_type\": \"gpt2\", " GPT2
               ", \"n_positions\": 32, \"resid_pdrop\": 0, \"embd_pdrop\": "
               "0.0,\"attn_pdrop\": 0.2}");
    assert_true(c.embed_dropout == 0 && c.residual_dropout == 0);
    assert_true(c.attention_dropout == 0.2);
}

static void check_local(const char *more, const char *local)
{
    struct model_config c;
    char text[512];

    snprintf(text, sizeof(text), "{\"model_type\": \"gpt_neo\", " NEO "%s}", more);
    c = parsed(text);
    assert_true(c.score_scale == 1 && !c.qkv_bias && c.output_bias && c.mlp_bias);
    for (size_t l = 0; l < c.layers; l++)
        assert_int_equal(c.windowed[l], local[l] == 'L');
}

static void test_model_config_gpt_neo_local_layers(void **state)
{
    (void)state;
    check_local(", \"attention_types\": [[[\"global\", \"local\"], 2]]", "GLG");
    check_local(", \"attention_types\": [[[\"local\"], 1], [[\"global\"], 2]]", "LGG");
    check_local(", \"attention_layers\": [\"local\", \"local\", \"global\"]", "LLG");
    check_local("", "GLG");
    assert_int_equal(parsed("{\"model_type\": \"gpt_neo\", " NEO "}").sliding_window,
                     256);
    assert_int_equal(parsed("{\"model_type\": \"gpt_neo\", " NEO ", \"window_size\": 5}")
                         .sliding_window,
                     5);
}

static void test_model_config_gpt_neox(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"gpt_neox\", " SIZES "}");

    (void)state;
    assert_int_equal(c.rotary, 4); /* a quarter of 16 */
    assert_true(c.rope.theta == 10000 && c.parallel && !c.tied);
    assert_true(c.qkv_bias && c.output_bias && c.mlp_bias);
    assert_int_equal(c.activation, ACTIVATION_GELU);
    c = parsed("{\"model_type\": \"gpt_neox\", " SIZES ", \"rotary_pct\": "
               "1.0,\"rotary_emb_base\": 500, "
               "\"use_parallel_residual\": "
               "false,\"attention_bias\": "
               "false}");
    assert_int_equal(c.rotary, 16);
    assert_true(c.rope.theta == 500 && !c.parallel && !c.qkv_bias && !c.output_bias);
    c = parsed("{\"model_type\": \"gpt_neox\", " SIZES ", "
               "\"rope_parameters\":{\"rope_theta\": "
               "7, \"rope_type\": "
               "\"default\",\"partial_rotary_factor\": "
               "0.5}}");
    assert_int_equal(c.rotary, 8);
    assert_true(c.rope.theta == 7);
}

static void test_model_config_opt(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"opt\", " OPT ", \"word_embed_proj_dim\": 64}");

    (void)state;
    assert_true(c.norm_eps == 1e-5 && c.tied && c.padding == 1 && c.rotary == 0);
    assert_true(c.qkv_bias && c.output_bias && c.mlp_bias && !c.head_bias);
    assert_true(c.embed_dropout == 0 && c.residual_dropout == 0.1);
    assert_true(c.attention_dropout == 0 && c.intermediate_size == 48);
}

static void test_model_config_internlm(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"internlm2\", " SIZES "}");

    (void)state;
    assert_true(c.qkv_bias && c.output_bias && !c.mlp_bias && c.padding == 0);
    c = parsed("{\"model_type\": \"internlm2\", " SIZES ", \"bias\": false}");
    assert_true(!c.qkv_bias && !c.output_bias);
    c = parsed("{\"model_type\": \"internlm3\", " SIZES ", \"qkv_bias\": true}");
    assert_true(c.qkv_bias && !c.output_bias && !c.mlp_bias && c.padding == -1);
}

/* Published files have other names for the sizes than transformers writes. */
static void test_model_config_bloom(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"bloom\", \"vocab_size\": 100, \"n_embed\": 32, "
               "\"num_hidden_layers\": 3, \"num_attention_heads\": 4, \"n_head\": 2}");

    (void)state;
    assert_true(c.hidden_size == 32 && c.layers == 3 && c.heads == 2);
    assert_true(c.intermediate_size == 128 && c.max_positions == 2048 && c.tied);
    assert_true(c.alibi == 8 && c.rotary == 0 && c.qkv_bias && c.padding == -1);
    assert_true(model_config_positions(&c) == SIZE_MAX);
}

static void test_model_config_exaone(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"exaone\", \"vocab_size\": 100, \"hidden_size\": 32, "
               "\"num_layers\": 3, \"num_attention_heads\": 4}");

    (void)state;
    assert_true(c.layers == 3 && c.intermediate_size == 128 && c.kv_heads == 4);
    assert_true(c.tied && c.norm_eps == 1e-5 && c.padding == -1 && !c.qkv_bias);
}

/* The MLP has half the columns that config.json says; attention is scaled from seq_length
 * on, which is the limit of positions. */
static void test_model_config_qwen(void **state)
{
    struct model_config c = parsed(
        "{\"model_type\": \"qwen\", \"vocab_size\": 100, \"hidden_size\": 32, "
        "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 88, "
        "\"seq_length\": 64, \"max_position_embeddings\": 256, \"rotary_emb_base\": 500, "
        "\"emb_dropout_prob\": 0.1, \"attn_dropout_prob\": 0.2, \"pad_token_id\": 3}");

    (void)state;
    assert_true(c.intermediate_size == 44 && c.max_positions == 64 && c.kv_heads == 4);
    assert_true(c.qkv_bias && !c.output_bias && !c.mlp_bias && !c.tied);
    assert_true(c.embed_dropout == 0.1 && c.attention_dropout == 0.2);
    assert_true(c.rope.theta == 500 && c.rotary == 8 && c.padding == -1);
}

static void test_model_config_phi3(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"phi3\", " SIZES "}");

    (void)state;
    assert_true(c.rotary == 16 && !c.windowed && c.norm_eps == 1e-5);
    assert_true(!c.qkv_bias && !c.output_bias && !c.mlp_bias && !c.tied);
    c = parsed("{\"model_type\": \"phi3\", " SIZES ", \"partial_rotary_factor\": "
               "0.75,\"sliding_window\": 7}");
    assert_true(c.rotary == 12 && c.sliding_window == 7 && c.windowed[2]);
}

static void test_model_config_gemma(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"gemma\", " SIZES "}");

    (void)state;
    assert_int_equal(c.head_size, 256);
    assert_int_equal(c.activation, ACTIVATION_GELU_TANH);
    assert_true(c.tied && c.embed_scale == 8 && c.score_scale == 1.0 / 16);
    c = parsed("{\"model_type\": \"gemma\", " SIZES
               ", \"hidden_act\": \"gelu\", \"head_dim\": 16}");
    /* as Google's files mean it */
    assert_int_equal(c.activation, ACTIVATION_GELU_TANH);
    assert_int_equal(c.head_size, 16);
}

/* Layers without a window have heads of their own: by default, and as transformers 5.24
 * writes them. */
static void test_model_config_gemma4(void **state)
{
    struct model_config c = parsed(GEMMA4 "}");

    (void)state;
    assert_true(c.head_size == 256 && c.full_head_size == 512 && !c.shares_values);
    assert_true(c.full_kv_heads == c.kv_heads && c.score_scale == 1 && c.tied);
    assert_true(c.windowed[0] && !c.windowed[2] && c.sliding_window == 512);
    assert_true(c.rotary == 512 && c.rotary_local == 256 && c.has_local);
    assert_true(c.rope.kind == ROPE_PROPORTIONAL && c.rope.turning == 64);
    assert_true(c.rope.theta == 1e6 && c.rope_local.theta == 1e4);
    assert_true(c.logit_softcap == 0 && c.embed_scale == 8);
    assert_true(model_config_queries(&c, 0) == 4 * 256 &&
                model_config_queries(&c, 2) == 4 * 512);
    c = parsed(GEMMA4 ", \"head_dim\": 8, \"global_head_dim\": 12, \"attention_k_eq_v\": "
                      "true, \"num_global_key_value_heads\": 1, "
                      "\"final_logit_softcapping\": 30, \"layer_types\": "
                      "[\"full_attention\", \"sliding_attention\", "
                      "\"sliding_attention\"]}");
    assert_true(model_config_head_size(&c, 0) == 12 && model_config_kv_heads(&c, 0) == 1);
    assert_true(model_config_head_size(&c, 1) == 8 && model_config_kv_heads(&c, 1) == 4);
    assert_true(!c.windowed[2] && c.logit_softcap == 30);
    assert_false(model_config_has(&c, MODULE_V, 0));
    assert_true(model_config_has(&c, MODULE_V, 1) && model_config_has(&c, MODULE_K, 0));
    assert_true(model_config_rotary(&c, 0) == 12 && model_config_rotary(&c, 1) == 8);
    c = parsed(GEMMA4 ", \"head_dim\": 8, \"sliding_window_pattern\": 2, "
                      "\"per_layer_config\": {\"1\": {\"head_dim\": 12, "
                      "\"num_key_value_heads\": 2}, \"2\": {\"head_dim\": 12, "
                      "\"num_key_value_heads\": 2}}}");
    assert_true(c.full_head_size == 12 && c.full_kv_heads == 2);
    c = parsed(GEMMA4 ", \"head_dim\": 8, \"per_layer_config\": {}}");
    assert_true(c.full_head_size == 8 && c.full_kv_heads == 4);
    c = parsed(GEMMA4 ", \"num_experts\": 4, \"enable_moe_block\": false}");
    assert_true(c.experts == 0 && c.shared_size == 0 && !c.sparse);
    assert_true(model_config_has(&c, MODULE_GATE, 0));
    assert_false(model_config_has(&c, MODULE_EXPERT_NORM, 0));
    c = parsed(GEMMA4 ", \"enable_moe_block\": true, \"num_experts\": 4, "
                      "\"top_k_experts\": 2, \"moe_intermediate_size\": 8}");
    assert_true(c.experts == 4 && c.chosen_experts == 2 && c.expert_size == 8);
    assert_true(c.shared_size == c.intermediate_size && c.sparse_layers == c.layers);
    assert_false(model_config_has(&c, MODULE_GATE, 0));
    assert_true(model_config_has(&c, MODULE_SHARED_GATE, 0));
    assert_true(model_config_has(&c, MODULE_EXPERT_NORM, 0));
    c = parsed("{\"model_type\": \"gemma4_unified_text\", " SIZES "}");
    assert_true(c.full_head_size == 512 && c.sliding_window == 1024);
}

/* E2B and E4B: inputs for each layer, and layers that use the keys and values of others. */
static void test_model_config_gemma4_e(void **state)
{
#define GEMMA4_E                                                                  \
    "{\"model_type\": \"gemma4_text\", " SIZES                                    \
    ", \"vocab_size_per_layer_input\": 100, \"hidden_size_per_layer_input\": 8, " \
    "\"sliding_window_pattern\": 2"
    struct model_config c = parsed(GEMMA4_E ", \"num_kv_shared_layers\": 1, "
                                            "\"use_double_wide_mlp\": true}");

    (void)state;
    assert_int_equal(c.layer_inputs, 8);
    assert_true(model_config_has(&c, MODULE_INPUT_GATE, 0));
    assert_true(c.architecture->paths[MODULE_LAYER_EMBED] != NULL);
    assert_true(model_config_shares_keys(&c, 2) && !model_config_shares_keys(&c, 1));
    assert_true(shared_keys_layer(&c, 2) == 1 && shared_keys_layer(&c, 0) == 0);
    assert_true(shared_keys_are_shared(&c, 1) && !shared_keys_are_shared(&c, 0));
    assert_false(shared_keys_are_shared(&c, 2));
    assert_true(shared_keys_is_last(&c, 2) && !shared_keys_is_last(&c, 1));
    assert_true(model_config_has(&c, MODULE_K, 1) && !model_config_has(&c, MODULE_K, 2));
    assert_true(!model_config_has(&c, MODULE_V, 2) &&
                !model_config_has(&c, MODULE_K_NORM, 2) &&
                model_config_has(&c, MODULE_Q_NORM, 2));
    assert_true(model_config_mlp_of(&c, 1) == 96 && model_config_mlp_of(&c, 2) == 192);
    assert_true(model_config_mlp_size(&c) == 192 && model_config_active_size(&c) == 128);
    assert_true(shared_keys_ignores(&c, "model.layers.",
                                    "model.layers.2.self_attn.k_proj.weight"));
    assert_true(
        shared_keys_ignores(&c, "a.layers.", "a.layers.2.self_attn.v_proj.weight"));
    assert_false(shared_keys_ignores(&c, "model.layers.",
                                     "model.layers.1.self_attn.k_proj.weight"));
    assert_false(shared_keys_ignores(&c, "model.layers.",
                                     "model.layers.2.self_attn.q_proj.weight"));
    assert_false(shared_keys_ignores(&c, "model.layers.",
                                     "model.layers.3.self_attn.k_proj.weight"));
    c = parsed(GEMMA4_E "}");
    assert_true(c.sharing_layers == 0 && model_config_has(&c, MODULE_K, 2));
    assert_int_equal(model_config_mlp_of(&c, 2), 96);
    c = parsed(GEMMA4 "}");
    assert_true(c.layer_inputs == 0 && !c.architecture->paths[MODULE_INPUT_GATE] &&
                !c.architecture->paths[MODULE_LAYER_NORM]);
    c = parsed("{\"model_type\": \"gemma4_text\", " SIZES
               ", \"hidden_size_per_layer_input\": null}");
    assert_int_equal(c.layer_inputs, 0);
}

static void test_model_config_gemma2(void **state)
{
    struct model_config c = parsed("{\"model_type\": \"gemma2\", " SIZES "}");

    (void)state;
    assert_true(c.windowed[0] && !c.windowed[1] && c.windowed[2] && !c.has_local);
    assert_true(c.score_scale == 1.0 / 16 && c.score_softcap == 50);
    assert_true(c.logit_softcap == 30 && c.activation == ACTIVATION_GELU_TANH);
    c = parsed("{\"model_type\": \"gemma2\", " SIZES
               ", \"attn_logit_softcapping\": null, \"final_logit_softcapping\": "
               "12.5,\"query_pre_attn_scalar\": 64}");
    assert_true(c.score_softcap == 0 && c.logit_softcap == 12.5);
    assert_true(c.score_scale == 0.125);
}

static void test_model_config_gemma3(void **state)
{
    struct model_config c =
        parsed("{\"model_type\": \"gemma3_text\", " SIZES
               ", \"sliding_window\": 16, \"query_pre_attn_scalar\": "
               "64,\"sliding_window_pattern\": 2, \"rope_local_base_freq\": "
               "500.0,\"rope_theta\": 7000.0, \"rope_scaling\": {\"factor\": 8.0, "
               "\"rope_type\":\"linear\"}}");

    (void)state;
    assert_true(c.windowed[0] && !c.windowed[1] && c.windowed[2] && c.has_local);
    assert_true(c.rope_local.theta == 500 && c.rope_local.kind == ROPE_DEFAULT);
    assert_true(c.rope.theta == 7000 && c.rope.kind == ROPE_LINEAR && c.rope.factor == 8);
    assert_true(c.score_scale == 0.125 && c.score_softcap == 0 && c.logit_softcap == 0);
    c = parsed("{\"model_type\": \"gemma3_text\", " SIZES
               ", \"layer_types\": [\"full_attention\", "
               "\"sliding_attention\",\"full_attention\"], \"rope_parameters\": "
               "{\"full_attention\": {\"rope_type\": \"default\", \"rope_theta\": "
               "9.0},\"sliding_attention\": {\"rope_type\": \"default\", "
               "\"rope_theta\": 3.0}}}");
    assert_true(!c.windowed[0] && c.windowed[1] && !c.windowed[2]);
    assert_true(c.rope.theta == 9 && c.rope_local.theta == 3);
    c = parsed("{\"model_type\": \"gemma3_text\", " SIZES "}");
    assert_true(c.rope.theta == 1e6 && c.rope_local.theta == 1e4);
    assert_true(c.windowed[0] && c.windowed[2] && c.sliding_window == 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_config_gpt2),
        cmocka_unit_test(test_model_config_gpt_neo_local_layers),
        cmocka_unit_test(test_model_config_gpt_neox),
        cmocka_unit_test(test_model_config_opt),
        cmocka_unit_test(test_model_config_internlm),
        cmocka_unit_test(test_model_config_bloom),
        cmocka_unit_test(test_model_config_exaone),
        cmocka_unit_test(test_model_config_qwen),
        cmocka_unit_test(test_model_config_phi3),
        cmocka_unit_test(test_model_config_gemma),
        cmocka_unit_test(test_model_config_gemma2),
        cmocka_unit_test(test_model_config_gemma4),
        cmocka_unit_test(test_model_config_gemma4_e),
        cmocka_unit_test(test_model_config_gemma3),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
