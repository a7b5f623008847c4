/* tests/unit/test_model_config.c - tests both styles of config.json, and rejected
 * ones. */
#include "config.h"

#include "train/model/model_config.h"
#include "train/model/shared_keys.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

#define SIZES                                                              \
    "\"vocab_size\": 100, \"hidden_size\": 64, \"intermediate_size\": 96," \
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 4"

#define OPT SIZES ", \"ffn_dim\": 48, \"max_position_embeddings\": 8"
#define DBRX                                                                 \
    "\"vocab_size\": 40, \"d_model\": 24, \"n_heads\": 4, \"n_layers\": 2, " \
    "\"max_seq_len\": 64"
#define GPT2 "\"vocab_size\": 100, \"n_embd\": 64, \"n_layer\": 3, \"n_head\": 4"
#define NEO                                                                          \
    "\"vocab_size\": 100, \"hidden_size\": 64, \"num_layers\": 3, \"num_heads\": 4," \
    "\"max_position_embeddings\": 8"

static struct arena *arena;

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

static bool parse(const char *text, struct model_config *out, struct error *err)
{
    *err = (struct error) { 0 };
    return model_config_parse(text, strlen(text), "config.json", arena, out, err);
}

static struct model_config parsed(const char *text)
{
    struct model_config config;
    struct error err;

    if (!parse(text, &config, &err))
        fail_msg("%s", err.text);
    return config;
}

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

#define LISTED(first) \
    ", \"layer_types\": [\"" first "\", \"full_attention\", \"full_attention\"]"

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

#define GEMMA4 \
    "{\"model_type\": \"gemma4_text\", " SIZES ", \"hidden_size_per_layer_input\": 0"

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

static void test_model_config_rejects(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "[1]", "object" },
        { "{", "JSON" },
        { "{\"model_type\": \"bert\", " SIZES "}", "supported: llama, mistral, " },
        { "{" SIZES "}", "model_type is missing" },
        { "{\"model_type\": \"llama\"}", "vocab_size" },
        { "{\"model_type\": \"llama\", " SIZES ", \"hidden_act\": \"mish\"}",
          "hidden_act \"mish\" is not supported; supported: silu" },
        { "{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layers\": [1]}",
          "no_rope_layers must be a list of 3 numbers, one for each layer" },
        { "{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layers\": [1, 1, true]}",
          "no_rope_layers must be a list of 3 numbers" },
        { "{\"model_type\": \"smollm3\", " SIZES ", \"no_rope_layer_interval\": 0}",
          "no_rope_layer_interval must be 1 or more" },
        { "{\"model_type\": \"granite\", " SIZES ", \"logits_scaling\": 0}",
          "logits_scaling must be a number above 0" },
        { "{\"model_type\": \"llama\", " SIZES ", \"attention_dropout\": 1}",
          "attention_dropout must be a number from 0 to below 1, not 1" },
        { "{\"model_type\": \"llama\", " SIZES ", \"attention_dropout\": -0.5}",
          "attention_dropout must be a number from 0 to below 1, not -0.5" },
        { "{\"model_type\": \"phi3\", " SIZES ", \"resid_pdrop\": 0.9999999999}",
          "resid_pdrop must be a number from 0 to below 1" },
        { "{\"model_type\": \"gpt2\", " SIZES "}", "n_embd" },
        { "{\"model_type\": \"gpt2\", " GPT2 "}", "n_positions" },
        { "{\"model_type\": \"gpt2\", " GPT2
          ", \"n_positions\": 8, \"add_cross_attention\": true}",
          "add_cross_attention" },
        { "{\"model_type\": \"opt\", " OPT ", \"do_layer_norm_before\": false}",
          "do_layer_norm_before: false is not supported" },
        { "{\"model_type\": \"opt\", " OPT ", \"word_embed_proj_dim\": 32}",
          "word_embed_proj_dim must be hidden_size" },
        { "{\"model_type\": \"falcon\", " SIZES ", \"alibi\": true}",
          "alibi is not supported" },
        { "{\"model_type\": \"falcon\", " SIZES ", \"hidden_dropout\": 0.1}",
          "hidden_dropout is not supported; set it to 0" },
        { "{\"model_type\": \"olmo\", " SIZES ", \"clip_qkv\": 0}",
          "clip_qkv must be a number above 0" },
        { "{\"model_type\": \"llama\", " SIZES ", \"clip_qkv\": 8.0}",
          "clip_qkv is not supported" },
        { "{\"model_type\": \"cohere2\", " SIZES ", \"use_qk_norm\": true}",
          "use_qk_norm is not supported" },
        { "{\"model_type\": \"dbrx\", " DBRX
          ", \"ffn_config\": {\"ffn_hidden_size\": 20, \"moe_jitter_eps\": 1}}",
          "moe_jitter_eps must be a number from 0 to below 1, not 1" },
        { "{\"model_type\": \"dbrx\", " DBRX
          ", \"ffn_config\": {\"ffn_hidden_size\": 20, \"moe_normalize_expert_weights\": 2}}",
          "moe_normalize_expert_weights must be 1 or null" },
        { "{\"model_type\": \"dbrx\", " DBRX
          ", \"attn_config\": {\"kv_n_heads\": 3}, \"ffn_config\": {\"ffn_hidden_size\": 20}}",
          "n_heads 4 must be a multiple of kv_n_heads 3" },
        { "{\"model_type\": \"falcon\", " SIZES ", \"num_ln_in_parallel_attn\": 3}",
          "num_ln_in_parallel_attn must be 1 or 2, not 3" },
        { "{\"model_type\": \"gptj\", " GPT2 ", \"rotary_dim\": 18}",
          "rotary_dim must be an even number up to 16, not 18" },
        { "{\"model_type\": \"opt\", " OPT ", \"layerdrop\": 0.1}", "layerdrop" },
        { "{\"model_type\": \"mistral\", " SIZES
          ", \"sliding_window\": null" LISTED("sliding_attention") "}",
          "sliding_window is not set" },
        { "{\"model_type\": \"qwen2\", " SIZES LISTED("sliding_attention") "}",
          "sliding_window is not set" },
        { "{\"model_type\": \"qwen2\", " SIZES ", \"layer_types\": \"full_attention\"}",
          "layer_types" },
        { "{\"model_type\": \"gpt_neo\", " NEO
          ", \"attention_types\": [[[\"global\"], 2]]}",
          "global or local for layer 2" },
        { "{\"model_type\": \"gpt_neo\", " NEO
          ", \"attention_types\": [[[\"sparse\"], 3]]}",
          "global or local for layer 0" },
        { "{\"model_type\": \"gpt_neo\", " NEO ", \"attention_types\": [[[], 9], 3]}",
          "attention_types" },
        { "{\"model_type\": \"gpt_neox\", " SIZES ", \"rotary_pct\": 0.2}",
          "rotary_pct" },
        { "{\"model_type\": \"gpt_neox\", " SIZES ", \"rotary_pct\": 2}", "rotary_pct" },
        { "{\"model_type\": \"llama\", " SIZES ", \"num_key_value_heads\": 3}",
          "multiple" },
        { "{\"model_type\": \"llama\", " SIZES ", \"num_key_value_heads\": 0}",
          "from 1" },
        { "{\"model_type\": \"llama\", " SIZES ", \"num_key_value_heads\": \"2\"}",
          "num_key_value_heads" },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": 7}", "even" },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": \"8\"}",
          "head_dim must" },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": 8.5}", "head_dim must" },
        { "{\"model_type\": \"llama\", " SIZES ", \"head_dim\": 514}",
          "a head size of 514 is not supported, only up to 512" },
        { "{\"model_type\": \"gemma4_text\", " SIZES "}",
          "hidden_size_per_layer_input must be at most hidden_size, 64" },
        { "{\"model_type\": \"gemma4_text\", " SIZES
          ", \"hidden_size_per_layer_input\": -1}",
          "hidden_size_per_layer_input must be a number from 0" },
        { "{\"model_type\": \"gemma4_text\", " SIZES
          ", \"hidden_size_per_layer_input\": 8, \"vocab_size_per_layer_input\": 99}",
          "vocab_size_per_layer_input must be vocab_size, 100, not 99" },
        { GEMMA4 ", \"num_kv_shared_layers\": 3}",
          "num_kv_shared_layers must be a number from 0 to 2" },
        { GEMMA4 ", \"num_kv_shared_layers\": -1}",
          "num_kv_shared_layers must be a number from 0 to 2" },
        { GEMMA4 ", \"num_kv_shared_layers\": 1}",
          "layer 2 has no window, but none of the first 2 layers" },
        { "{\"model_type\": \"gemma4_unified_text\", " SIZES
          ", \"num_kv_shared_layers\": 1}",
          "num_kv_shared_layers is not supported in models of type gemma4_unified_text" },
        { GEMMA4 ", \"enable_moe_block\": true}", "num_experts must be a number from 1" },
        { GEMMA4
          ", \"enable_moe_block\": true, \"num_experts\": 4, \"top_k_experts\": 5, "
          "\"moe_intermediate_size\": 8}",
          "num_experts_per_tok must be at most 4, not 5" },
        { "{\"model_type\": \"gemma4_unified_text\", " SIZES
          ", \"enable_moe_block\": true}",
          "enable_moe_block is not supported in models of type gemma4_unified_text" },
        { GEMMA4 ", \"global_head_dim\": 514}", "a head size of 514" },
        { GEMMA4 ", \"global_head_dim\": 7}", "even number, not 7" },
        { GEMMA4 ", \"sliding_window\": 0}", "sliding_window must be" },
        { GEMMA4 ", \"attention_k_eq_v\": true, \"num_global_key_value_heads\": 3}",
          "multiple of the key heads 3" },
        { GEMMA4 ", \"use_bidirectional_attention\": \"all\"}",
          "use_bidirectional_attention: all" },
        { GEMMA4 ", \"sliding_window_pattern\": 2, \"per_layer_config\": {\"1\": "
                 "{\"head_dim\": 8}, \"2\": {\"head_dim\": 8, \"hidden_size\": 9}}}",
          "layer 2 differs" },
        { GEMMA4 ", \"sliding_window_pattern\": 2, \"per_layer_config\": {\"1\": "
                 "{\"head_dim\": 8}, \"2\": {\"head_dim\": 6}}}",
          "layer 2 differs" },
        { GEMMA4 ", \"sliding_window_pattern\": 2, \"per_layer_config\": {\"0\": "
                 "{\"head_dim\": 8}, \"2\": {\"head_dim\": 8}}}",
          "layer 0 differs" },
        { "{\"model_type\": \"gemma4_text\", " SIZES
          ", \"hidden_size_per_layer_input\": 0, \"rope_parameters\": {\"full_attention\": "
          "{\"rope_type\": \"proportional\", \"partial_rotary_factor\": 2}}}",
          "partial_rotary_factor must be at most 1" },
        { "{\"model_type\": \"llama\", " SIZES ", \"rope_theta\": -1}", "rope_theta" },
        { "{\"model_type\": \"llama\", " SIZES
          ", \"rope_scaling\": {\"type\": \"axial\"}}",
          "axial" },
        { "{\"model_type\": \"llama\", " SIZES
          ", \"rope_scaling\": {\"type\": \"linear\"}}",
          "factor" },
        { "{\"model_type\": \"llama\", " SIZES ", \"eos_token_id\": \"x\"}",
          "eos_token_id" },
        { "{\"model_type\": \"llama\", " SIZES ", \"quantization_config\": {}}",
          "quant_method" },
        { "{\"model_type\": \"llama\", " SIZES ", \"vocab_size\": 5}", "JSON" },
    };
    struct model_config config;
    struct error err;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        assert_false(parse(cases[i].text, &config, &err));
        assert_int_equal(err.code, ERROR_DATA);
        if (!strstr(err.text, cases[i].message))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].message);
    }
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
        cmocka_unit_test(test_model_config_padding),
        cmocka_unit_test(test_model_config_unrotated_layers),
        cmocka_unit_test(test_model_config_factors),
        cmocka_unit_test(test_model_config_biases_apart),
        cmocka_unit_test(test_model_config_rope_alpha),
        cmocka_unit_test(test_model_config_published_keys),
        cmocka_unit_test(test_model_config_joins_objects),
        cmocka_unit_test(test_model_config_rejects),
        cmocka_unit_test(test_model_config_reads_shared_models),
        cmocka_unit_test(test_model_config_reports_a_missing_folder),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
