/* tests/unit/test_latent_config.c - the settings of latent attention, and of the experts next
 * to it, in configs as they were published, and those that are not supported. */
#include "config.h"

#include "tests/unit/unit.h"

#include <math.h>

#include "train/model/expert_config.h"
#include "train/model/model_config.h"
#include "train/model/shapes.h"

/* deepseek-ai/DeepSeek-V2-Lite */
#define V2_LITE                                                                        \
    "\"model_type\": \"deepseek_v2\", \"vocab_size\": 102400, \"hidden_size\": 2048, " \
    "\"intermediate_size\": 10944, \"moe_intermediate_size\": 1408, "                  \
    "\"num_hidden_layers\": 27, \"num_attention_heads\": 16, "                         \
    "\"num_key_value_heads\": 16, \"n_shared_experts\": 2, \"n_routed_experts\": 64, " \
    "\"ep_size\": 1, \"kv_lora_rank\": 512, \"q_lora_rank\": null, "                   \
    "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"qk_nope_head_dim\": 128, "       \
    "\"n_group\": 1, \"topk_group\": 1, \"num_experts_per_tok\": 6, "                  \
    "\"moe_layer_freq\": 1, \"first_k_dense_replace\": 1, \"norm_topk_prob\": false, " \
    "\"scoring_func\": \"softmax\", \"aux_loss_alpha\": 0.001, \"seq_aux\": true, "    \
    "\"routed_scaling_factor\": 1.0, \"max_position_embeddings\": 163840, "            \
    "\"rope_theta\": 10000, \"rope_scaling\": {\"beta_fast\": 32, \"beta_slow\": 1, "  \
    "\"factor\": 40, \"mscale\": 0.707, \"mscale_all_dim\": 0.707, "                   \
    "\"original_max_position_embeddings\": 4096, \"type\": \"yarn\"}, "                \
    "\"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-06, \"attention_bias\": false, "   \
    "\"topk_method\": \"greedy\""

/* deepseek-ai/DeepSeek-V3, without its quantization_config */
#define V3                                                                              \
    "\"model_type\": \"deepseek_v3\", \"vocab_size\": 129280, \"hidden_size\": 7168, "  \
    "\"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "                   \
    "\"num_hidden_layers\": 61, \"num_nextn_predict_layers\": 1, "                      \
    "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, "                      \
    "\"n_shared_experts\": 1, \"n_routed_experts\": 256, \"ep_size\": 1, "              \
    "\"routed_scaling_factor\": 2.5, \"kv_lora_rank\": 512, \"q_lora_rank\": 1536, "    \
    "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"qk_nope_head_dim\": 128, "        \
    "\"topk_method\": \"noaux_tc\", \"n_group\": 8, \"topk_group\": 4, "                \
    "\"num_experts_per_tok\": 8, \"moe_layer_freq\": 1, \"first_k_dense_replace\": 3, " \
    "\"norm_topk_prob\": true, \"scoring_func\": \"sigmoid\", \"rope_theta\": 10000, "  \
    "\"rope_scaling\": {\"beta_fast\": 32, \"beta_slow\": 1, \"factor\": 40, "          \
    "\"mscale\": 1.0, \"mscale_all_dim\": 1.0, "                                        \
    "\"original_max_position_embeddings\": 4096, \"type\": \"yarn\"}, "                 \
    "\"max_position_embeddings\": 163840, \"attention_bias\": false"

/* baidu/ERNIE-4.5-21B-A3B-PT */
#define ERNIE                                                                           \
    "\"model_type\": \"ernie4_5_moe\", \"vocab_size\": 103424, \"hidden_size\": 2560, " \
    "\"intermediate_size\": 12288, \"num_hidden_layers\": 28, "                         \
    "\"num_attention_heads\": 20, \"num_key_value_heads\": 4, \"pad_token_id\": 0, "    \
    "\"max_position_embeddings\": 131072, \"rms_norm_eps\": 1e-05, "                    \
    "\"rope_theta\": 500000, \"use_bias\": false, \"tie_word_embeddings\": true, "      \
    "\"moe_num_experts\": 64, \"moe_num_shared_experts\": 2, "                          \
    "\"moe_layer_start_index\": 1, \"moe_layer_end_index\": 27, "                       \
    "\"moe_layer_interval\": 1, \"moe_k\": 6, \"moe_intermediate_size\": 1536"

static struct arena *arena;

static bool parse(const char *keys, struct model_config *out, struct error *err)
{
    const char *text = arena_printf(arena, "{%s}", keys);

    *err = (struct error) { 0 };
    return model_config_parse(text, strlen(text), "config.json", arena, out, err);
}

static void test_v2_lite_has_queries_without_a_latent(void **state)
{
    struct model_config c;
    struct error err;
    double scale = 0.1 * 0.707 * log(40) + 1;

    (void)state;
    assert_true(parse(V2_LITE, &c, &err));
    assert_int_equal(c.latent.q_rank, 0);
    assert_int_equal(c.latent.kv_rank, 512);
    assert_int_equal(c.head_size, 192);
    assert_int_equal(c.rotary, 64);
    assert_int_equal(latent_q_columns(&c), 16 * 192);
    assert_int_equal(latent_kv_columns(&c), 16 * 256);
    assert_true(fabs(c.score_scale - scale * scale / sqrt(192)) < 1e-12);
    assert_non_null(c.architecture->paths[MODULE_Q]);
    assert_null(c.architecture->paths[MODULE_Q_A]);
    assert_null(c.architecture->paths[MODULE_Q_NORM]);
    assert_int_equal(c.expert_groups, 0);
    assert_int_equal(c.shared_size, 2 * 1408);
    assert_int_equal(c.sparse_layers, 26);
    assert_false(c.normalizes_experts);
}

static void test_v3_has_groups_and_a_block_that_predicts(void **state)
{
    struct model_config c;
    struct error err;

    (void)state;
    assert_true(parse(V3, &c, &err));
    assert_int_equal(c.latent.q_rank, 1536);
    assert_null(c.architecture->paths[MODULE_Q]);
    assert_int_equal(c.expert_groups, 8);
    assert_int_equal(c.expert_groups_kept, 4);
    assert_true(c.normalizes_experts && c.expert_scale == 2.5);
    assert_int_equal(c.sparse_layers, 58);
    assert_true(
        architecture_keeps(c.architecture, "model.layers.61.shared_head.norm.weight"));
    assert_false(
        architecture_keeps(c.architecture, "model.layers.60.input_layernorm.weight"));
    assert_false(architecture_keeps(c.architecture, "model.layers.62.enorm.weight"));
    assert_true(c.architecture->rotary_interleaved);
}

static const char *replaced(const char *keys, const char *part, const char *by)
{
    const char *at = strstr(keys, part);

    assert_non_null(at);
    return arena_printf(arena, "%.*s%s%s", (int)(at - keys), keys, by, at + strlen(part));
}

static void test_other_settings_are_refused(void **state)
{
    static const struct {
        const char *keys, *part, *by, *says;
    } cases[] = {
        { V3, "\"num_key_value_heads\": 128", "\"num_key_value_heads\": 64",
          "num_key_value_heads 64 must be num_attention_heads 128" },
        { V3, "\"qk_rope_head_dim\": 64", "\"qk_rope_head_dim\": 63",
          "qk_rope_head_dim must be even" },
        { V3, "\"qk_nope_head_dim\": 128", "\"qk_nope_head_dim\": 512",
          "a head size of 576 is not supported" },
        { V3, "\"kv_lora_rank\": 512", "\"kv_lora_rank\": 0", "kv_lora_rank must be" },
        { V3, "\"scoring_func\": \"sigmoid\"", "\"scoring_func\": \"softmax\"",
          "scoring_func must be sigmoid" },
        { V3, "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2",
          "moe_layer_freq must be 1" },
        { V3, "\"n_group\": 8", "\"n_group\": 7", "n_group 7 must divide" },
        { V2_LITE, "\"norm_topk_prob\": false", "\"norm_topk_prob\": true",
          "norm_topk_prob is not supported" },
        { V3, "\"attention_bias\": false",
          "\"quantization_config\": {\"quant_method\": \"fp8\", \"fmt\": \"e4m3\", "
          "\"weight_block_size\": [128]}",
          "weight_block_size must be a list of two sizes" },
        { ERNIE, "\"use_bias\": false", "\"output_router_logits\": true",
          "output_router_logits must be false" },
        { ERNIE, "\"moe_layer_end_index\": 27",
          "\"moe_layer_end_index\": 27, \"moe_norm_min\": 0.5",
          "moe_norm_min must be at most 0.09375, the least sum of the weights of 6 of 64" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct model_config c;
        struct error err;
        bool ok = parse(replaced(cases[i].keys, cases[i].part, cases[i].by), &c, &err);

        if (ok || !strstr(err.text, cases[i].says))
            fail_msg("%s: %s", cases[i].by, ok ? "accepted" : err.text);
    }
}

static void test_ernie_has_experts_in_a_range_and_no_balance(void **state)
{
    struct plan plan = { .method = METHOD_FULL,
                         .precision = { .compute = FORMAT_FP32,
                                        .trainable = FORMAT_FP32,
                                        .frozen = FORMAT_FP32 },
                         .per_device_train_batch_size = 1,
                         .cutoff_len = 1 };
    struct model_config c;
    struct error err;
    struct lora lora;

    (void)state;
    assert_true(parse(ERNIE, &c, &err));
    assert_int_equal(c.sparse_layers, 27);
    assert_int_equal(c.chosen_experts, 6);
    assert_int_equal(c.shared_size, 2 * 1536);
    assert_true(shapes_check(&plan, &c, &lora, &err));
    plan.moe_aux_loss_coef = 0.001;
    assert_false(shapes_check(&plan, &c, &lora, &err));
    assert_non_null(strstr(err.text, "moe_aux_loss_coef is not supported"));
    plan.external = true;
    err = (struct error) { 0 };
    assert_true(shapes_check(&plan, &c, &lora, &err));
}

/* Only the method that is named limits the choice to groups. */
static void test_v2_chooses_within_groups_by_one_method(void **state)
{
    const char *groups = replaced(V2_LITE, "\"n_group\": 1, \"topk_group\": 1",
                                  "\"n_group\": 8, \"topk_group\": 3");
    struct model_config c;
    struct error err;

    (void)state;
    assert_true(parse(groups, &c, &err));
    assert_int_equal(c.expert_groups, 0);
    groups = replaced(groups, "\"greedy\"", "\"group_limited_greedy\"");
    assert_true(parse(groups, &c, &err));
    assert_int_equal(c.expert_groups, 8);
    assert_int_equal(c.expert_groups_kept, 3);
    assert_false(
        parse(replaced(groups, "\"group_limited_greedy\"", "\"noaux_tc\""), &c, &err));
    assert_non_null(strstr(err.text, "topk_method must be greedy or"));
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
        cmocka_unit_test(test_v2_lite_has_queries_without_a_latent),
        cmocka_unit_test(test_v3_has_groups_and_a_block_that_predicts),
        cmocka_unit_test(test_other_settings_are_refused),
        cmocka_unit_test(test_ernie_has_experts_in_a_range_and_no_balance),
        cmocka_unit_test(test_v2_chooses_within_groups_by_one_method),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
