/* train/model/architecture_latent.c - the architectures with multi-head latent attention. */
#include "config.h"

#include "train/model/architecture_rows.h"

#include "base/size.h"

static const struct config_keys latent_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "rms_norm_eps",
    .activation = "hidden_act",
    .window = "sliding_window",
};

/* Of the modules of a block, in transformers 5.24. */
static const enum module latent_order[] = {
    MODULE_Q,           MODULE_Q_A,         MODULE_Q_NORM,
    MODULE_Q_B,         MODULE_KV_A,        MODULE_K_NORM,
    MODULE_KV_B,        MODULE_O,           MODULE_EXPERT_GATE,
    MODULE_EXPERT_UP,   MODULE_EXPERT_DOWN, MODULE_ROUTER,
    MODULE_SHARED_GATE, MODULE_SHARED_UP,   MODULE_SHARED_DOWN,
    MODULE_GATE,        MODULE_UP,          MODULE_DOWN,
    MODULE_NORM1,       MODULE_NORM2,       MODULES
};

/* config.json decides whether q has a latent. */
#define LATENT_ATTENTION                                                              \
    [MODULE_Q] = "self_attn.q_proj", [MODULE_Q_A] = "self_attn.q_a_proj",             \
    [MODULE_Q_NORM] = "self_attn.q_a_layernorm", [MODULE_Q_B] = "self_attn.q_b_proj", \
    [MODULE_KV_A] = "self_attn.kv_a_proj_with_mqa",                                   \
    [MODULE_K_NORM] = "self_attn.kv_a_layernorm", [MODULE_KV_B] = "self_attn.kv_b_proj"
#define LATENT_PATHS LLAMA_FRAME, LATENT_ATTENTION, LLAMA_O, LLAMA_MLP, LLAMA_NORM2
#define LATENT_BASE                                                        \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored, \
    .keys = &latent_keys, .dropouts.attention = "attention_dropout",       \
    .activation = "silu", .uses_padding = true, .pad_token_id = -1,        \
    .order = latent_order, .qkv_bias = BIASES_FROM_CONFIG,                 \
    .output_bias = BIASES_FROM_CONFIG, .rotary_interleaved = true
#define DEEPSEEK_LATENT         \
    .latent = { .kv_rank = 512, \
                .q_rank = 1536, \
                .plain = 128,   \
                .rotated = 64,  \
                .value = 128,   \
                .norm_eps = 1e-6 }
#define DEEPSEEK_EXPERTS                                                       \
    .count_key = "n_routed_experts", .size_key = "moe_intermediate_size",      \
    .shared_count_key = "n_shared_experts", .normalize_key = "norm_topk_prob", \
    QWEN_TENSORS, .unbalanced = true, .groups = true,                          \
    .scale_key = "routed_scaling_factor"
#define DEEPSEEK_V3                                                                  \
    LATENT_BASE,                                                                     \
        .keeps_blocks = true, .norm_eps = 1e-6, .interleave_key = "rope_interleave", \
        .paths = { LATENT_PATHS, QWEN_EXPERTS, CORRECTED_ROUTER, SHARED_EXPERTS },   \
        DEEPSEEK_LATENT,                                                             \
        .experts = { DEEPSEEK_EXPERTS,                                               \
                     .count = 256,                                                   \
                     .chosen = 8,                                                    \
                     .size = 2048,                                                   \
                     .shared_count = 1,                                              \
                     .normalizes = true,                                             \
                     .sigmoid = true,                                                \
                     .group_count = 8,                                               \
                     .groups_kept = 4,                                               \
                     .scale = 2.5,                                                   \
                     .first_dense_key = "first_k_dense_replace",                     \
                     .first_dense = 3 }

/* Sources: transformers/models/NAME/configuration_NAME.py and modeling_NAME.py; the
 * modeling_deepseek.py of the folders of DeepSeek, Moonlight and Kimi K2 has the same
 * names. */
const struct architecture latent_architectures[] = {
    { .model_type = "deepseek_v2",
      LATENT_BASE,
      .norm_eps = 1e-6,
      .mlp_bias = BIASES_FROM_CONFIG,
      .paths = { LATENT_PATHS, QWEN_EXPERTS, SHARED_EXPERTS },
      DEEPSEEK_LATENT,
      .experts = { DEEPSEEK_EXPERTS, .never_normalizes = true,
                   .method_key = "topk_method", .count = 64, .chosen = 6, .size = 1407,
                   .shared_count = 2, .group_count = 1, .groups_kept = 1, .scale = 1,
                   .first_dense_key = "first_k_dense_replace" } },
    { .model_type = "deepseek_v3", DEEPSEEK_V3 },
    { .model_type = "kimi_k2", DEEPSEEK_V3, .has_own_code = true },
    { .model_type = "glm4_moe_lite",
      LATENT_BASE,
      .keeps_blocks = true,
      .norm_eps = 1e-5,
      .interleave_key = "rope_interleave",
      .paths = { LATENT_PATHS, QWEN_EXPERTS, CORRECTED_ROUTER, SHARED_EXPERTS },
      .latent = { .kv_rank = 512,
                  .q_rank = 768,
                  .plain = 192,
                  .rotated = 64,
                  .value = 256,
                  .norm_eps = 1e-6 },
      .experts = { DEEPSEEK_EXPERTS, .count = 64, .chosen = 4, .size = 1536,
                   .shared_count = 1, .normalizes = true, .sigmoid = true,
                   .group_count = 1, .groups_kept = 1, .scale = 1.8,
                   .types_key = "mlp_layer_types", .first_dense = 1 } },
    { .model_type = "mistral4",
      LATENT_BASE,
      .norm_eps = 1e-6,
      .interleave_key = "rope_interleave",
      .paths = { LATENT_PATHS, QWEN_EXPERTS, SHARED_EXPERTS },
      .scales_queries = true,
      .needs_rope_type = true,
      .latent = { .kv_rank = 256,
                  .q_rank = 1024,
                  .plain = 64,
                  .rotated = 64,
                  .value = 128,
                  .norm_eps = 1e-6 },
      .experts = { DEEPSEEK_EXPERTS, .count = 128, .chosen = 4, .size = 2048,
                   .shared_count = 1, .normalizes = true, .group_pairs = true,
                   .group_count = 1, .groups_kept = 1, .scale = 1,
                   .first_dense_key = "first_k_dense_replace" } },
    { .model_type = "youtu",
      LATENT_BASE,
      .norm_eps = 1e-6,
      .interleave_key = "rope_interleave",
      .paths = { LATENT_PATHS },
      .tied = true,
      .init_by_size = true,
      DEEPSEEK_LATENT },
    { .model_type = "youtu_llm",
      LATENT_BASE,
      .norm_eps = 1e-6,
      .interleave_key = "rope_interleave",
      .paths = { LATENT_PATHS },
      .tied = true,
      .init_by_size = true,
      .has_own_code = true,
      DEEPSEEK_LATENT },
};

const size_t latent_architecture_count = TS_COUNT(latent_architectures);
