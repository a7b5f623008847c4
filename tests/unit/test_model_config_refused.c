/* tests/unit/test_model_config_refused.c - refuses config.json files that are damaged or not
 * supported. */
#include "config.h"

#include "base/size.h"
#include "tests/unit/unit_config.h"

static void test_model_config_rejects(void **state)
{
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "[1]", "object" },
        { "{", "JSON" },
        { "{\"model_type\": \"bert\", " SIZES "}",
          "model_type \"bert\" is not supported" },
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model_config_rejects),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
