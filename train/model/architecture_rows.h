/*
 * train/model/architecture_rows.h - private to the tables of architectures: what rows of
 * both share.
 */
#ifndef TRAIN_MODEL_ARCHITECTURE_ROWS_H
#define TRAIN_MODEL_ARCHITECTURE_ROWS_H

#include "train/model/architecture.h"

/* The tables: of models with RMSNorm, of models with LayerNorm, of models with experts, of
 * models with latent attention, of models that transformers does not have, of models with
 * short convolutions, and of models with state spaces. */
extern const struct architecture rms_architectures[], layernorm_architectures[],
    expert_architectures[], latent_architectures[], own_architectures[],
    conv_architectures[], hybrid_architectures[];
extern const size_t rms_architecture_count, layernorm_architecture_count,
    expert_architecture_count, latent_architecture_count, own_architecture_count,
    conv_architecture_count, hybrid_architecture_count;

/* Masks and frequencies that follow from config.json. */
extern const char *const llama_ignored[];
/* Order of the modules of a block in transformers; architecture_rms.c says which. */
extern const enum module llama_order[];

/* Common to Llama and its many descendants. */
#define LLAMA_ENDS_WITHOUT_NORM \
    [MODULE_EMBED] = "model.embed_tokens", [MODULE_HEAD] = "lm_head"
#define LLAMA_ENDS  LLAMA_ENDS_WITHOUT_NORM, [MODULE_NORM] = "model.norm"
#define LLAMA_FRAME LLAMA_ENDS, [MODULE_NORM1] = "input_layernorm"
#define LLAMA_QKV                                                     \
    [MODULE_Q] = "self_attn.q_proj", [MODULE_K] = "self_attn.k_proj", \
    [MODULE_V] = "self_attn.v_proj"
#define LLAMA_O [MODULE_O] = "self_attn.o_proj"
#define LLAMA_MLP                                                 \
    [MODULE_GATE] = "mlp.gate_proj", [MODULE_UP] = "mlp.up_proj", \
    [MODULE_DOWN] = "mlp.down_proj"
#define LINEAR_ATTENTION                                                              \
    [MODULE_IN_QKV] = "linear_attn.in_proj_qkv",                                      \
    [MODULE_IN_Z] = "linear_attn.in_proj_z", [MODULE_IN_B] = "linear_attn.in_proj_b", \
    [MODULE_IN_A] = "linear_attn.in_proj_a", DELTA_REST
#define DELTA_REST                                                                  \
    [MODULE_CONV] = "linear_attn.conv1d", [MODULE_A_LOG] = "linear_attn.A_log",     \
    [MODULE_DT_BIAS] = "linear_attn.dt_bias", [MODULE_V_NORM] = "linear_attn.norm", \
    [MODULE_OUT] = "linear_attn.out_proj"
#define QWEN_EXPERTS                                                                \
    [MODULE_ROUTER] = "mlp.gate", [MODULE_EXPERT_GATE] = "mlp.experts.*.gate_proj", \
    [MODULE_EXPERT_UP] = "mlp.experts.*.up_proj",                                   \
    [MODULE_EXPERT_DOWN] = "mlp.experts.*.down_proj"
#define QWEN_TENSORS                              \
    .gate_up_tensor = "mlp.experts.gate_up_proj", \
    .down_tensor = "mlp.experts.down_proj", .parameters = "mlp.experts"
#define CORRECTED_ROUTER [MODULE_ROUTER_BIAS] = "mlp.gate.e_score_correction_bias"
#define SHARED_EXPERTS                                     \
    [MODULE_SHARED_GATE] = "mlp.shared_experts.gate_proj", \
    [MODULE_SHARED_UP] = "mlp.shared_experts.up_proj",     \
    [MODULE_SHARED_DOWN] = "mlp.shared_experts.down_proj"
#define GRANITE_EXPERTS                                            \
    [MODULE_ROUTER] = "block_sparse_moe.router.layer",             \
    [MODULE_EXPERT_GATE] = "block_sparse_moe.experts.*.gate_proj", \
    [MODULE_EXPERT_UP] = "block_sparse_moe.experts.*.up_proj",     \
    [MODULE_EXPERT_DOWN] = "block_sparse_moe.experts.*.down_proj"
#define GRANITE_COLUMNS                                                               \
    .count_key = "num_local_experts", .size_key = "intermediate_size",                \
    .gate_up_tensor = "block_sparse_moe.input_linear.weight",                         \
    .down_tensor = "block_sparse_moe.output_linear.weight", .only_tensors = true,     \
    .parameters = "block_sparse_moe.experts", .count = 8, .chosen = 2, .size = 11008, \
    .aux_coefficient = 0.001
#define LLAMA_PATHS LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_MLP
/* Gemma 4: with experts or without. */
#define GEMMA4_LIKE                                                                    \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored,             \
    .dropouts.attention = "attention_dropout", .norm_eps = 1e-6,                       \
    .activation = "gelu_pytorch_tanh", .qkv_bias = BIASES_FROM_CONFIG,                 \
    .output_bias = BIASES_FROM_CONFIG, .tied = true, .head_size = 256,                 \
    .full_head_size = 512, .embed_scaled = true, .uses_padding = true,                 \
    .windows = WINDOWS_PATTERN, .window_pattern = 6, .theta = 1e6, .local_theta = 1e4, \
    .proportional = 0.25, .unscaled_scores = true, .value_norms = true,                \
    .caps_logits = true
#define LLAMA_NORM2 [MODULE_NORM2] = "post_attention_layernorm"

#endif
