/* train/model/architecture_experts.c - the architectures with a mixture of experts. */
#include "config.h"

#include "train/model/architecture_rows.h"

#include "base/size.h"

static const struct config_keys expert_keys = {
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

/* Qwen 3.5 has no MLP but the experts'. */
static const struct config_keys qwen3_5_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "moe_intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "rms_norm_eps",
    .activation = "hidden_act",
    .window = "sliding_window",
};

/* Of the modules of a block, in transformers 5.24; the matrices of all experts are two
 * parameters there, gate and up and down. */
static const enum module experts_order[] = { MODULE_Q,           MODULE_K,
                                             MODULE_V,           MODULE_O,
                                             MODULE_Q_NORM,      MODULE_K_NORM,
                                             MODULE_ROUTER,      MODULE_EXPERT_GATE,
                                             MODULE_EXPERT_UP,   MODULE_EXPERT_DOWN,
                                             MODULE_SHARED_GATE, MODULE_SHARED_UP,
                                             MODULE_SHARED_DOWN, MODULE_SHARED_ROUTER,
                                             MODULE_GATE,        MODULE_UP,
                                             MODULE_DOWN,        MODULE_NORM1,
                                             MODULE_NORM2,       MODULES };
static const enum module granite_order[] = { MODULE_Q,
                                             MODULE_K,
                                             MODULE_V,
                                             MODULE_O,
                                             MODULE_NORM1,
                                             MODULE_NORM2,
                                             MODULE_ROUTER,
                                             MODULE_EXPERT_GATE,
                                             MODULE_EXPERT_UP,
                                             MODULE_EXPERT_DOWN,
                                             MODULE_SHARED_GATE_UP,
                                             MODULE_SHARED_DOWN,
                                             MODULES };
/* With the router after the experts. */
static const enum module qwen3_moe_order[] = {
    MODULE_Q,           MODULE_K,      MODULE_V,           MODULE_O,
    MODULE_Q_NORM,      MODULE_K_NORM, MODULE_EXPERT_GATE, MODULE_EXPERT_UP,
    MODULE_EXPERT_DOWN, MODULE_ROUTER, MODULE_GATE,        MODULE_UP,
    MODULE_DOWN,        MODULE_NORM1,  MODULE_NORM2,       MODULES
};

/* With the router after the experts, too, and the shared ones last. */
static const enum module glm4_moe_order[] = { MODULE_Q,
                                              MODULE_K,
                                              MODULE_V,
                                              MODULE_O,
                                              MODULE_Q_NORM,
                                              MODULE_K_NORM,
                                              MODULE_EXPERT_GATE,
                                              MODULE_EXPERT_UP,
                                              MODULE_EXPERT_DOWN,
                                              MODULE_ROUTER,
                                              MODULE_SHARED_GATE,
                                              MODULE_SHARED_UP,
                                              MODULE_SHARED_DOWN,
                                              MODULE_GATE,
                                              MODULE_UP,
                                              MODULE_DOWN,
                                              MODULE_NORM1,
                                              MODULE_NORM2,
                                              MODULES };

static const enum module qwen3_5_order[] = { MODULE_DT_BIAS,
                                             MODULE_A_LOG,
                                             MODULE_CONV,
                                             MODULE_V_NORM,
                                             MODULE_OUT,
                                             MODULE_IN_QKV,
                                             MODULE_IN_Z,
                                             MODULE_IN_B,
                                             MODULE_IN_A,
                                             MODULE_Q,
                                             MODULE_K,
                                             MODULE_V,
                                             MODULE_O,
                                             MODULE_Q_NORM,
                                             MODULE_K_NORM,
                                             MODULE_ROUTER,
                                             MODULE_EXPERT_GATE,
                                             MODULE_EXPERT_UP,
                                             MODULE_EXPERT_DOWN,
                                             MODULE_SHARED_GATE,
                                             MODULE_SHARED_UP,
                                             MODULE_SHARED_DOWN,
                                             MODULE_SHARED_ROUTER,
                                             MODULE_NORM1,
                                             MODULE_NORM2,
                                             MODULES };

/* With layers of linear attention, and dense blocks. */
static const enum module qwen3_next_order[] = {
    MODULE_DT_BIAS,   MODULE_A_LOG,       MODULE_CONV,
    MODULE_IN_QKV,    MODULE_IN_B,        MODULE_V_NORM,
    MODULE_OUT,       MODULE_Q,           MODULE_K,
    MODULE_V,         MODULE_O,           MODULE_Q_NORM,
    MODULE_K_NORM,    MODULE_ROUTER,      MODULE_EXPERT_GATE,
    MODULE_EXPERT_UP, MODULE_EXPERT_DOWN, MODULE_SHARED_GATE,
    MODULE_SHARED_UP, MODULE_SHARED_DOWN, MODULE_SHARED_ROUTER,
    MODULE_GATE,      MODULE_UP,          MODULE_DOWN,
    MODULE_NORM1,     MODULE_NORM2,       MODULES
};

#define HEAD_NORMS \
    [MODULE_Q_NORM] = "self_attn.q_norm", [MODULE_K_NORM] = "self_attn.k_norm"
#define MIXTRAL_EXPERTS                                     \
    [MODULE_ROUTER] = "block_sparse_moe.gate",              \
    [MODULE_EXPERT_GATE] = "block_sparse_moe.experts.*.w1", \
    [MODULE_EXPERT_UP] = "block_sparse_moe.experts.*.w3",   \
    [MODULE_EXPERT_DOWN] = "block_sparse_moe.experts.*.w2"
#define QWEN_SHARED                                       \
    [MODULE_SHARED_GATE] = "mlp.shared_expert.gate_proj", \
    [MODULE_SHARED_UP] = "mlp.shared_expert.up_proj",     \
    [MODULE_SHARED_DOWN] = "mlp.shared_expert.down_proj", \
    [MODULE_SHARED_ROUTER] = "mlp.shared_expert_gate"
#define GRANITE_EXPERTS                                            \
    [MODULE_ROUTER] = "block_sparse_moe.router.layer",             \
    [MODULE_EXPERT_GATE] = "block_sparse_moe.experts.*.gate_proj", \
    [MODULE_EXPERT_UP] = "block_sparse_moe.experts.*.up_proj",     \
    [MODULE_EXPERT_DOWN] = "block_sparse_moe.experts.*.down_proj"
#define GRANITE_COLUMNS                                                           \
    .count_key = "num_local_experts", .size_key = "intermediate_size",            \
    .gate_up_tensor = "block_sparse_moe.input_linear.weight",                     \
    .down_tensor = "block_sparse_moe.output_linear.weight", .only_tensors = true, \
    .count = 8, .chosen = 2, .size = 11008, .aux_coefficient = 0.001
#define GRANITE_LIKE                                                                 \
    EXPERTS_BASE, .pad_token_id = -1, .order = granite_order, .norm_eps = 1e-6,      \
                  .qkv_bias = BIASES_FROM_CONFIG, .output_bias = BIASES_FROM_CONFIG, \
                  .factors = { .embed = "embedding_multiplier",                      \
                               .scores = "attention_multiplier",                     \
                               .residual = "residual_multiplier",                    \
                               .logits = "logits_scaling" }
#define EXPERTS_BASE                                                       \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored, \
    .keys = &expert_keys, .dropouts.attention = "attention_dropout",       \
    .activation = "silu", .uses_padding = true
#define NO_PADDING .pad_token_id = -1

/* Sources: transformers/models/NAME/configuration_NAME.py and modeling_NAME.py; names in
 * files: conversion_mapping.py. */
const struct architecture expert_architectures[] = {
    { .model_type = "mixtral",
      .kv_heads = 8,
      EXPERTS_BASE,
      NO_PADDING,
      .order = experts_order,
      .norm_eps = 1e-5,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2, MIXTRAL_EXPERTS },
      .windows = WINDOWS_ALL,
      .theta = 1e6,
      .experts = { .count_key = "num_local_experts",
                   .size_key = "intermediate_size",
                   .count = 8,
                   .chosen = 2,
                   .size = 14336,
                   .aux_coefficient = 0.001 } },
    { .model_type = "phimoe",
      EXPERTS_BASE,
      NO_PADDING,
      .order = experts_order,
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2, MIXTRAL_EXPERTS },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .head_bias_key = "lm_head_bias",
      .windows = WINDOWS_ALL,
      .theta = 1e6,
      .rope_mscales = true,
      .experts = { .count_key = "num_local_experts",
                   .size_key = "intermediate_size",
                   .unknown_to_peft = true,
                   .count = 16,
                   .chosen = 2,
                   .size = 6400,
                   .mixer_jitter = 0.01,
                   .aux_coefficient = 0.001 } },
    { .model_type = "qwen2_moe",
      .kv_heads = 16,
      EXPERTS_BASE,
      NO_PADDING,
      .order = experts_order,
      .norm_eps = 1e-6,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, QWEN_EXPERTS, QWEN_SHARED },
      .qkv_bias = BIASES_BY_DEFAULT,
      .bias_keys.qkv = "qkv_bias",
      .experts = { .count_key = "num_experts",
                   .size_key = "moe_intermediate_size",
                   .shared_size_key = "shared_expert_intermediate_size",
                   .normalize_key = "norm_topk_prob",
                   QWEN_TENSORS,
                   .count = 60,
                   .chosen = 4,
                   .size = 1408,
                   .shared_size = 5632,
                   .aux_coefficient = 0.001,
                   .some_dense = true } },
    { .model_type = "qwen3_moe",
      .kv_heads = 4,
      EXPERTS_BASE,
      NO_PADDING,
      .order = qwen3_moe_order,
      .norm_eps = 1e-6,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, HEAD_NORMS, QWEN_EXPERTS },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .experts = { .count_key = "num_experts",
                   .size_key = "moe_intermediate_size",
                   .normalize_key = "norm_topk_prob",
                   QWEN_TENSORS,
                   .count = 128,
                   .chosen = 8,
                   .size = 768,
                   .aux_coefficient = 0.001,
                   .some_dense = true } },
    { .model_type = "qwen3_next",
      EXPERTS_BASE,
      NO_PADDING,
      .kept = "mtp.",
      .order = qwen3_next_order,
      .norm = NORM_RMS_1,
      .norm_eps = 1e-6,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, HEAD_NORMS, QWEN_EXPERTS,
                 QWEN_SHARED, [MODULE_IN_QKV] = "linear_attn.in_proj_qkvz",
                 [MODULE_IN_B] = "linear_attn.in_proj_ba", DELTA_REST },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .head_size = 256,
      .rotary = 0.25,
      .linear_interval = 4,
      .fused_delta = true,
      .gated_attention = true,
      .experts = { .count_key = "num_experts",
                   .size_key = "moe_intermediate_size",
                   .shared_size_key = "shared_expert_intermediate_size",
                   .normalize_key = "norm_topk_prob",
                   .normalizes = true,
                   QWEN_TENSORS,
                   .count = 512,
                   .chosen = 10,
                   .size = 512,
                   .shared_size = 512,
                   .aux_coefficient = 0.001,
                   .some_dense = true } },
    /* the text model of qwen3_vl_moe; its files of 2025 have transposed experts */
    { .model_type = "qwen3_vl_moe_text",
      .kv_heads = 16,
      EXPERTS_BASE,
      NO_PADDING,
      .order = qwen3_moe_order,
      .norm_eps = 1e-6,
      .theta = 500000,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, HEAD_NORMS, QWEN_EXPERTS },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .experts = { .count_key = "num_experts",
                   .size_key = "moe_intermediate_size",
                   QWEN_TENSORS,
                   .storage = EXPERTS_IN_EITHER,
                   .only_tensors = true,
                   .count = 60,
                   .chosen = 4,
                   .size = 1408,
                   .aux_coefficient = 0.001,
                   .some_dense = true } },
    { .model_type = "qwen3_5_moe_text",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .kept = "mtp.",
      .keys = &qwen3_5_keys,
      .kv_heads = 2,
      .dropouts.attention = "attention_dropout",
      .activation = "silu",
      .uses_padding = true,
      NO_PADDING,
      .order = qwen3_5_order,
      .norm = NORM_RMS_1,
      .norm_eps = 1e-6,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2, HEAD_NORMS,
                 LINEAR_ATTENTION, QWEN_EXPERTS, QWEN_SHARED },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .head_size = 256,
      .rotary = 0.25,
      .linear_interval = 4,
      .gated_attention = true,
      .experts = { .count_key = "num_experts",
                   .size_key = "moe_intermediate_size",
                   .shared_size_key = "shared_expert_intermediate_size",
                   QWEN_TENSORS,
                   .count = 256,
                   .chosen = 8,
                   .size = 512,
                   .shared_size = 512,
                   .aux_coefficient = 0.001 } },
    { .model_type = "glm4_moe",
      .kv_heads = 8,
      EXPERTS_BASE,
      NO_PADDING,
      .keeps_blocks = true,
      .order = glm4_moe_order,
      .norm_eps = 1e-5,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, HEAD_NORMS, QWEN_EXPERTS, CORRECTED_ROUTER,
                 SHARED_EXPERTS },
      .qk_norms_key = "use_qk_norm",
      .qkv_bias = BIASES_FROM_CONFIG,
      .rotary = 0.5,
      .experts = { .count_key = "n_routed_experts",
                   .size_key = "moe_intermediate_size",
                   .shared_count_key = "n_shared_experts",
                   .normalize_key = "norm_topk_prob",
                   .normalizes = true,
                   QWEN_TENSORS,
                   .count = 128,
                   .chosen = 8,
                   .size = 1408,
                   .shared_count = 1,
                   .unbalanced = true,
                   .sigmoid = true,
                   .groups = true,
                   .scale_key = "routed_scaling_factor",
                   .scale = 1,
                   .first_dense_key = "first_k_dense_replace",
                   .first_dense = 1 } },
    { .model_type = "granitemoe",
      GRANITE_LIKE,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2, GRANITE_EXPERTS },
      .experts = { GRANITE_COLUMNS } },
    { .model_type = "granitemoeshared",
      GRANITE_LIKE,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2,
                 GRANITE_EXPERTS, [MODULE_SHARED_GATE_UP] = "shared_mlp.input_linear",
                 [MODULE_SHARED_DOWN] = "shared_mlp.output_linear" },
      .experts = { GRANITE_COLUMNS, .shared_size_key = "shared_intermediate_size" } },
    { .model_type = "olmoe",
      EXPERTS_BASE,
      .pad_token_id = 1,
      .order = experts_order,
      .norm_eps = 1e-5,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2, HEAD_NORMS, QWEN_EXPERTS },
      .whole_qk_norms = true,
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .experts = { .count_key = "num_experts",
                   .size_key = "intermediate_size",
                   .normalize_key = "norm_topk_prob",
                   QWEN_TENSORS,
                   .count = 64,
                   .chosen = 8,
                   .size = 2048,
                   .aux_coefficient = 0.01 } },
};

const size_t expert_architecture_count = TS_COUNT(expert_architectures);
