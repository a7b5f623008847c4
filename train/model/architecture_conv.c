/* train/model/architecture_conv.c - the architectures with short convolutions: LFM2. */
#include "config.h"

#include "train/model/architecture_rows.h"

#include "base/size.h"

/* Files have no key for the activation, and transformers reads none. */
static const struct config_keys conv_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "norm_eps",
    .window = "sliding_window",
};

/* Of the modules of a block, in transformers 5.24. */
static const enum module lfm2_order[] = {
    MODULE_Q,         MODULE_K,           MODULE_V,      MODULE_O,    MODULE_Q_NORM,
    MODULE_K_NORM,    MODULE_CONV,        MODULE_IN_QKV, MODULE_OUT,  MODULE_EXPERT_GATE,
    MODULE_EXPERT_UP, MODULE_EXPERT_DOWN, MODULE_ROUTER, MODULE_GATE, MODULE_UP,
    MODULE_DOWN,      MODULE_NORM1,       MODULE_NORM2,  MODULES
};

#define LFM2_LIKE                                                                 \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored,        \
    .keys = &conv_keys, .kv_heads = 8, .order = lfm2_order, .activation = "silu", \
    .norm_eps = 1e-5, .uses_padding = true, .pad_token_id = 0, .tied = true,      \
    .theta = 1e6, .short_convs = true
#define LFM2_PATHS                                                                   \
    LLAMA_ENDS_WITHOUT_NORM, LLAMA_QKV,                                              \
        [MODULE_NORM] = "model.embedding_norm", [MODULE_NORM1] = "operator_norm",    \
        [MODULE_NORM2] = "ffn_norm", [MODULE_O] = "self_attn.out_proj",              \
        [MODULE_Q_NORM] = "self_attn.q_layernorm",                                   \
        [MODULE_K_NORM] = "self_attn.k_layernorm", [MODULE_IN_QKV] = "conv.in_proj", \
        [MODULE_CONV] = "conv.conv", [MODULE_OUT] = "conv.out_proj",                 \
        [MODULE_GATE] = "feed_forward.w1", [MODULE_UP] = "feed_forward.w3",          \
        [MODULE_DOWN] = "feed_forward.w2"

/* Sources: transformers/models/NAME/configuration_NAME.py and modeling_NAME.py; names in
 * files: conversion_mapping.py. */
const struct architecture conv_architectures[] = {
    { .model_type = "lfm2", LFM2_LIKE, .adjusts_mlp = true, .paths = { LFM2_PATHS } },
    { .model_type = "lfm2_moe",
      LFM2_LIKE,
      .paths = { LFM2_PATHS, [MODULE_ROUTER] = "feed_forward.gate",
                 [MODULE_ROUTER_BIAS] = "feed_forward.expert_bias",
                 [MODULE_EXPERT_GATE] = "feed_forward.experts.*.w1",
                 [MODULE_EXPERT_UP] = "feed_forward.experts.*.w3",
                 [MODULE_EXPERT_DOWN] = "feed_forward.experts.*.w2" },
      .experts = { .count_key = "num_experts",
                   .size_key = "moe_intermediate_size",
                   .normalize_key = "norm_topk_prob",
                   .normalizes = true,
                   .least_sum = 1e-6,
                   .correction_key = "use_expert_bias",
                   .gate_up_tensor = "feed_forward.experts.gate_up_proj",
                   .down_tensor = "feed_forward.experts.down_proj",
                   .parameters = "feed_forward.experts",
                   .unknown_to_peft = true,
                   .count = 32,
                   .chosen = 4,
                   .size = 1792,
                   .unbalanced = true,
                   .sigmoid = true,
                   .scale_key = "routed_scaling_factor",
                   .scale = 1,
                   .first_dense_key = "num_dense_layers",
                   .first_dense = 2 } },
};

const size_t conv_architecture_count = TS_COUNT(conv_architectures);
