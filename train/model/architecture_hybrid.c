/* train/model/architecture_hybrid.c - the architectures with state space models (Mamba-2). */
#include "config.h"

#include "train/model/architecture_rows.h"

#include "base/size.h"

static const struct config_keys hybrid_keys = {
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

/* Of the modules of a block, in transformers 5.24; parameters of a class come before its
 * modules. */
static const enum module falcon_h1_order[] = {
    MODULE_GATE,  MODULE_UP,   MODULE_DOWN,    MODULE_DT_BIAS, MODULE_A_LOG,
    MODULE_SKIP,  MODULE_CONV, MODULE_SCAN_IN, MODULE_V_NORM,  MODULE_SCAN_OUT,
    MODULE_Q,     MODULE_K,    MODULE_V,       MODULE_O,       MODULE_NORM1,
    MODULE_NORM2, MODULES
};

static const enum module granite_hybrid_order[] = { MODULE_NORM1,
                                                    MODULE_NORM2,
                                                    MODULE_ROUTER,
                                                    MODULE_EXPERT_GATE,
                                                    MODULE_EXPERT_UP,
                                                    MODULE_EXPERT_DOWN,
                                                    MODULE_SHARED_GATE_UP,
                                                    MODULE_SHARED_DOWN,
                                                    MODULE_GATE_UP,
                                                    MODULE_DOWN,
                                                    MODULE_DT_BIAS,
                                                    MODULE_A_LOG,
                                                    MODULE_SKIP,
                                                    MODULE_CONV,
                                                    MODULE_SCAN_IN,
                                                    MODULE_V_NORM,
                                                    MODULE_SCAN_OUT,
                                                    MODULE_Q,
                                                    MODULE_K,
                                                    MODULE_V,
                                                    MODULE_O,
                                                    MODULES };

#define MAMBA_PATHS                                                     \
    [MODULE_SCAN_IN] = "mamba.in_proj", [MODULE_CONV] = "mamba.conv1d", \
    [MODULE_A_LOG] = "mamba.A_log", [MODULE_DT_BIAS] = "mamba.dt_bias", \
    [MODULE_SKIP] = "mamba.D", [MODULE_V_NORM] = "mamba.norm",          \
    [MODULE_SCAN_OUT] = "mamba.out_proj"
#define MAMBA_KEYS                                                                      \
    .heads_key = "mamba_n_heads", .size_key = "mamba_d_head",                           \
    .groups_key = "mamba_n_groups", .depth_key = "mamba_d_state",                       \
    .taps_key = "mamba_d_conv", .expand_key = "mamba_expand",                           \
    .conv_bias_key = "mamba_conv_bias", .in_bias_key = "mamba_proj_bias", .heads = 128, \
    .groups = 1, .depth = 256

/* Sources: transformers/models/NAME/configuration_NAME.py and modeling_NAME.py. */
const struct architecture hybrid_architectures[] = {
    { .model_type = "falcon_h1",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .dropouts.attention = "attention_dropout",
      .keys = &hybrid_keys,
      .kv_heads = 8,
      .order = falcon_h1_order,
      .paths = { LLAMA_ENDS_WITHOUT_NORM, LLAMA_QKV, LLAMA_O,
                 MAMBA_PATHS, [MODULE_NORM] = "model.final_layernorm",
                 [MODULE_NORM1] = "input_layernorm", [MODULE_NORM2] = "pre_ff_layernorm",
                 [MODULE_GATE] = "feed_forward.gate_proj",
                 [MODULE_UP] = "feed_forward.up_proj",
                 [MODULE_DOWN] = "feed_forward.down_proj" },
      .activation = "silu",
      .norm_eps = 1e-5,
      .uses_padding = true,
      .pad_token_id = 0,
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .factors = { .embed = "embedding_multiplier",
                   .logit_scale = "lm_head_multiplier",
                   .logit_default = 1 },
      .ssm = { MAMBA_KEYS, .inner_key = "mamba_d_ssm", .inner = 1024,
               .out_bias_key = "projectors_bias", .norm_key = "mamba_rms_norm",
               .norm_first_key = "mamba_norm_before_gate", .next_to_attention = true,
               .refused_by_peft = true, .factors = true } },
    { .model_type = "granitemoehybrid",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .dropouts.attention = "attention_dropout",
      .keys = &hybrid_keys,
      .order = granite_hybrid_order,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2, MAMBA_PATHS,
                 GRANITE_EXPERTS, [MODULE_SHARED_GATE_UP] = "shared_mlp.input_linear",
                 [MODULE_SHARED_DOWN] = "shared_mlp.output_linear" },
      .activation = "silu",
      .norm_eps = 1e-6,
      .uses_padding = true,
      .pad_token_id = -1,
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .factors = { .embed = "embedding_multiplier",
                   .scores = "attention_multiplier",
                   .residual = "residual_multiplier",
                   .logits = "logits_scaling" },
      .experts = { GRANITE_COLUMNS, .shared_size_key = "shared_intermediate_size",
                   .shared_size = 1024, .none_is_dense = true },
      .ssm = { MAMBA_KEYS, .out_bias_key = "mamba_proj_bias",
               .norm = SCAN_NORM_AFTER_GATE,
               .positions_key = "position_embedding_type" } },
};

const size_t hybrid_architecture_count = TS_COUNT(hybrid_architectures);
