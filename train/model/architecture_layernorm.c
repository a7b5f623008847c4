/* train/model/architecture_layernorm.c - the architectures with LayerNorm: GPT-2 and others. */
#include "config.h"

#include "train/model/architecture_rows.h"

#include "base/size.h"

static const struct config_keys starcoder2_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "norm_epsilon",
    .activation = "hidden_act",
    .window = "sliding_window",
};

static const struct config_keys phi_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "layer_norm_eps",
    .activation = "hidden_act",
};

static const struct config_keys cohere2_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "layer_norm_eps",
    .activation = "hidden_act",
    .window = "sliding_window",
};

static const struct config_keys falcon_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "ffn_hidden_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_kv_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "layer_norm_epsilon",
    .activation = "activation",
};

static const char *const bloom_others[][2] = {
    { "hidden_size", "n_embed" },
    { "n_layer", "num_hidden_layers" },
    { "n_head", "num_attention_heads" },
    { NULL, NULL },
};
static const struct config_keys bloom_keys = {
    .hidden_size = "hidden_size", /* the MLP always has four times as many columns */
    .others = bloom_others,
    .layers = "n_layer",
    .heads = "n_head",
    .max_positions = "seq_length",
    .norm_eps = "layer_norm_epsilon",
};

static const struct config_keys nemotron_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "norm_eps",
    .activation = "hidden_act",
};

static const struct config_keys opt_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "ffn_dim",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .max_positions = "max_position_embeddings",
    .activation = "activation_function",
};

static const struct config_keys gpt2_keys = {
    .hidden_size = "n_embd",
    .intermediate_size = "n_inner",
    .layers = "n_layer",
    .heads = "n_head",
    .max_positions = "n_positions",
    .norm_eps = "layer_norm_epsilon",
    .activation = "activation_function",
};

static const struct config_keys gpt_neo_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_layers",
    .heads = "num_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "layer_norm_epsilon",
    .activation = "activation_function",
    .window = "window_size",
};

static const struct config_keys gpt_neox_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "layer_norm_eps",
    .activation = "hidden_act",
};

/* Masks and frequencies that follow from config.json. */
static const char *const falcon_ignored[] = { ".self_attention.rotary_emb.inv_freq",
                                              ".self_attention.maybe_rotary.inv_freq",
                                              NULL };
static const char *const none_ignored[] = { NULL };
static const char *const gpt2_ignored[] = { ".attn.bias", ".attn.masked_bias", NULL };
static const char *const gpt_neo_ignored[] = { ".attn.attention.bias",
                                               ".attn.attention.masked_bias", NULL };
static const char *const gpt_neox_ignored[] = { ".attention.bias",
                                                ".attention.masked_bias",
                                                ".attention.rotary_emb.inv_freq", NULL };

/* Order of the modules of a block in transformers 4.57 and 5.24, in the __init__ of the
 * classes of modeling_NAME.py. */
static const enum module gpt2_order[] = { MODULE_NORM1, MODULE_QKV, MODULE_O,
                                          MODULE_NORM2, MODULE_UP,  MODULE_DOWN,
                                          MODULES };
static const enum module gptj_order[] = { MODULE_NORM1, MODULE_K,  MODULE_V,    MODULE_Q,
                                          MODULE_O,     MODULE_UP, MODULE_DOWN, MODULES };
static const enum module gpt_neo_order[] = { MODULE_NORM1, MODULE_K,    MODULE_V,
                                             MODULE_Q,     MODULE_O,    MODULE_NORM2,
                                             MODULE_UP,    MODULE_DOWN, MODULES };
static const enum module gpt_neox_order[] = { MODULE_NORM1, MODULE_NORM2, MODULE_QKV,
                                              MODULE_O,     MODULE_UP,    MODULE_DOWN,
                                              MODULES };
static const enum module opt_order[] = { MODULE_K,    MODULE_V,     MODULE_Q,
                                         MODULE_O,    MODULE_NORM1, MODULE_UP,
                                         MODULE_DOWN, MODULE_NORM2, MODULES };
static const enum module falcon_order[] = { MODULE_QKV,  MODULE_O,     MODULE_UP,
                                            MODULE_DOWN, MODULE_NORM2, MODULE_NORM1,
                                            MODULES };
static const enum module falcon_40b_order[] = { MODULE_QKV,  MODULE_O,     MODULE_UP,
                                                MODULE_DOWN, MODULE_NORM1, MODULE_NORM2,
                                                MODULES };

#define GPT2_LIKE                                                             \
    .base = "transformer.", .blocks = "transformer.h.", .norm = NORM_LAYER,   \
    .norm_eps = 1e-5, .activation = "gelu_new", .mlp_ratio = 4, .tied = true, \
    .output_bias = BIASES_ALWAYS, .mlp_bias = BIASES_ALWAYS
#define GPT2_DROPOUTS                                       \
    {                                                       \
        "embd_pdrop", "resid_pdrop", "attn_pdrop", 0.1, 0.1 \
    }
#define GPT2_PATHS                                                              \
    [MODULE_EMBED] = "transformer.wte", [MODULE_POSITIONS] = "transformer.wpe", \
    [MODULE_NORM1] = "ln_1", [MODULE_NORM2] = "ln_2", [MODULE_UP] = "mlp.c_fc", \
    [MODULE_DOWN] = "mlp.c_proj", [MODULE_NORM] = "transformer.ln_f",           \
    [MODULE_HEAD] = "lm_head"
#define COHERE_LIKE                                                                  \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored,           \
    .order = llama_order, .dropouts.attention = "attention_dropout",                 \
    .norm = NORM_LAYER_PLAIN, .norm_eps = 1e-5, .activation = "silu",                \
    .qkv_bias = BIASES_FROM_CONFIG, .output_bias = BIASES_FROM_CONFIG, .tied = true, \
    .rotary_interleaved = true, .parallel = true, .one_norm = true,                  \
    .uses_padding = true,                                                            \
    .factors = { .logit_scale = "logit_scale", .logit_default = 0.0625 }
#define COHERE_PATHS LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_MLP
#define FALCON_LIKE                                                                    \
    .base = "transformer.", .blocks = "transformer.h.", .keys = &falcon_keys,          \
    .ignored = falcon_ignored, .norms_key = "num_ln_in_parallel_attn",                 \
    .norm = NORM_LAYER, .norm_eps = 1e-5, .fused = STORED_HEADS, .activation = "gelu", \
    .mlp_ratio = 4, .qkv_bias = BIASES_FROM_CONFIG, .output_bias = BIASES_FROM_CONFIG, \
    .mlp_bias = BIASES_FROM_CONFIG, .bias_keys = { "bias", "bias", "bias", false },    \
    .zero_keys = { "hidden_dropout", "attention_dropout" }, .tied = true,              \
    .one_kv_head_key = "multi_query", .groups_key = "new_decoder_architecture",        \
    .parallel = true, .parallel_key = "parallel_attn"
#define FALCON_PATHS                                                         \
    [MODULE_EMBED] = "transformer.word_embeddings",                          \
    [MODULE_QKV] = "self_attention.query_key_value",                         \
    [MODULE_O] = "self_attention.dense", [MODULE_UP] = "mlp.dense_h_to_4h",  \
    [MODULE_DOWN] = "mlp.dense_4h_to_h", [MODULE_NORM] = "transformer.ln_f", \
    [MODULE_HEAD] = "lm_head"

/* Sources: transformers/models/NAME/configuration_NAME.py and modeling_NAME.py. */
const struct architecture layernorm_architectures[] = {
    { .model_type = "gpt2",
      GPT2_LIKE,
      .keys = &gpt2_keys,
      .ignored = gpt2_ignored,
      .dropouts = GPT2_DROPOUTS,
      .order = gpt2_order,
      .paths = { GPT2_PATHS, [MODULE_QKV] = "attn.c_attn", [MODULE_O] = "attn.c_proj" },
      .linear = STORED_COLUMNS,
      .fused = STORED_COLUMNS,
      .qkv_bias = BIASES_ALWAYS,
      .small_outputs = true },
    { .model_type = "gpt_neo",
      GPT2_LIKE,
      .keys = &gpt_neo_keys,
      .ignored = gpt_neo_ignored,
      .dropouts = { "embed_dropout", "resid_dropout", "attention_dropout", 0, 0 },
      .order = gpt_neo_order,
      .paths = { GPT2_PATHS, [MODULE_Q] = "attn.attention.q_proj",
                 [MODULE_K] = "attn.attention.k_proj",
                 [MODULE_V] = "attn.attention.v_proj",
                 [MODULE_O] = "attn.attention.out_proj" },
      .windows = WINDOWS_LOCAL,
      .window = 256,
      .unscaled_scores = true },
    { .model_type = "gpt_neox",
      .base = "gpt_neox.",
      .blocks = "gpt_neox.layers.",
      .keys = &gpt_neox_keys,
      .ignored = gpt_neox_ignored,
      .dropouts = { "hidden_dropout", "hidden_dropout", "attention_dropout", 0, 0 },
      .order = gpt_neox_order,
      .paths = { [MODULE_EMBED] = "gpt_neox.embed_in",
                 [MODULE_NORM1] = "input_layernorm",
                 [MODULE_QKV] = "attention.query_key_value",
                 [MODULE_O] = "attention.dense",
                 [MODULE_NORM2] = "post_attention_layernorm",
                 [MODULE_UP] = "mlp.dense_h_to_4h",
                 [MODULE_DOWN] = "mlp.dense_4h_to_h",
                 [MODULE_NORM] = "gpt_neox.final_layer_norm",
                 [MODULE_HEAD] = "embed_out" },
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .fused = STORED_HEADS,
      .activation = "gelu",
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .bias_keys.default_value = true,
      .mlp_bias = BIASES_ALWAYS,
      .rotary = 0.25,
      .parallel = true,
      .parallel_key = "use_parallel_residual" },
    { .model_type = "cohere",
      COHERE_LIKE,
      .keys = &phi_keys,
      .paths = { COHERE_PATHS, [MODULE_Q_NORM] = "self_attn.q_norm",
                 [MODULE_K_NORM] = "self_attn.k_norm" },
      .qk_norms_key = "use_qk_norm",
      .qk_norms_by_head = true,
      .theta = 500000 },
    { .model_type = "cohere2",
      COHERE_LIKE,
      .paths = { COHERE_PATHS },
      .keys = &cohere2_keys,
      .windows = WINDOWS_PATTERN,
      .window = 4096,
      .window_pattern = 4,
      .unrotated = UNROTATED_FULL },
    { .model_type = "falcon",
      FALCON_LIKE,
      .norms = 1,
      .order = falcon_order,
      .paths = { FALCON_PATHS, [MODULE_NORM1] = "input_layernorm", LLAMA_NORM2 },
      .one_norm = true },
    { .model_type = "falcon",
      FALCON_LIKE,
      .norms = 2,
      .order = falcon_40b_order,
      .paths = { FALCON_PATHS, [MODULE_NORM1] = "ln_attn", [MODULE_NORM2] = "ln_mlp" } },
    { .model_type = "bloom",
      .base = "transformer.",
      .blocks = "transformer.h.",
      .keys = &bloom_keys,
      .ignored = none_ignored,
      .dropouts = { NULL, "hidden_dropout", "attention_dropout", 0, 0 },
      .order = gpt2_order,
      .paths = { FALCON_PATHS,
                 [MODULE_EMBED_NORM] = "transformer.word_embeddings_layernorm",
                 [MODULE_NORM1] = "input_layernorm", LLAMA_NORM2 },
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .fused = STORED_HEADS,
      .activation = "gelu_new",
      .mlp_ratio = 4,
      .qkv_bias = BIASES_ALWAYS,
      .output_bias = BIASES_ALWAYS,
      .mlp_bias = BIASES_ALWAYS,
      .tied = true,
      .alibi = 8 },
    { .model_type = "gpt_bigcode",
      GPT2_LIKE,
      .keys = &gpt2_keys,
      .ignored = gpt2_ignored,
      .dropouts = GPT2_DROPOUTS,
      .order = gpt2_order,
      .paths = { GPT2_PATHS, [MODULE_QKV] = "attn.c_attn", [MODULE_O] = "attn.c_proj" },
      .fused = STORED_HEADS,
      .qkv_bias = BIASES_ALWAYS,
      .one_kv_head_key = "multi_query",
      .small_outputs = true },
    { .model_type = "gptj",
      .base = "transformer.",
      .blocks = "transformer.h.",
      .keys = &gpt2_keys,
      .ignored = gpt2_ignored,
      .dropouts = { "embd_pdrop", "resid_pdrop", "attn_pdrop", 0, 0 },
      .order = gptj_order,
      .paths = { [MODULE_EMBED] = "transformer.wte",
                 [MODULE_NORM1] = "ln_1",
                 [MODULE_Q] = "attn.q_proj",
                 [MODULE_K] = "attn.k_proj",
                 [MODULE_V] = "attn.v_proj",
                 [MODULE_O] = "attn.out_proj",
                 [MODULE_UP] = "mlp.fc_in",
                 [MODULE_DOWN] = "mlp.fc_out",
                 [MODULE_NORM] = "transformer.ln_f",
                 [MODULE_HEAD] = "lm_head" },
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .activation = "gelu_new",
      .mlp_ratio = 4,
      .mlp_bias = BIASES_ALWAYS,
      .head_bias = true,
      .rotary_size = 64,
      .rotary_interleaved = true,
      .parallel = true,
      .one_norm = true },
    { .model_type = "nemotron",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .keys = &nemotron_keys,
      .dropouts.attention = "attention_dropout",
      .order = llama_order,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2,
                 [MODULE_UP] = "mlp.up_proj", [MODULE_DOWN] = "mlp.down_proj" },
      .norm = NORM_LAYER_1,
      .norm_eps = 1e-5,
      .init_range = 0.0134,
      .activation = "relu2",
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .rotary = 0.5,
      .uses_padding = true,
      .pad_token_id = -1 },
    { .model_type = "opt",
      .base = "model.",
      .blocks = "model.decoder.layers.",
      .keys = &opt_keys,
      .ignored = none_ignored,
      .dropouts = { NULL, "dropout", "attention_dropout", 0.1, 0 },
      .order = opt_order,
      .paths = { [MODULE_EMBED] = "model.decoder.embed_tokens",
                 [MODULE_POSITIONS] = "model.decoder.embed_positions",
                 [MODULE_NORM1] = "self_attn_layer_norm",
                 LLAMA_QKV,
                 [MODULE_O] = "self_attn.out_proj",
                 [MODULE_NORM2] = "final_layer_norm",
                 [MODULE_UP] = "fc1",
                 [MODULE_DOWN] = "fc2",
                 [MODULE_NORM] = "model.decoder.final_layer_norm",
                 [MODULE_HEAD] = "lm_head" },
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .activation = "relu",
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .bias_keys = { "enable_bias", "enable_bias", "enable_bias", true },
      .tied = true,
      .zero_keys = { "layerdrop" },
      .init_key = "init_std",
      .uses_padding = true,
      .pad_token_id = 1,
      .position_offset = 2,
      .norm_first = true },
    { .model_type = "phi",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .keys = &phi_keys,
      .dropouts = { "embd_pdrop", "resid_pdrop", "attention_dropout", 0, 0 },
      .order = llama_order,
      .paths = { [MODULE_EMBED] = "model.embed_tokens",
                 [MODULE_NORM1] = "input_layernorm",
                 LLAMA_QKV,
                 [MODULE_O] = "self_attn.dense",
                 [MODULE_Q_NORM] = "self_attn.q_layernorm",
                 [MODULE_K_NORM] = "self_attn.k_layernorm",
                 [MODULE_UP] = "mlp.fc1",
                 [MODULE_DOWN] = "mlp.fc2",
                 [MODULE_NORM] = "model.final_layernorm",
                 [MODULE_HEAD] = "lm_head" },
      .qk_norms_key = "qk_layernorm",
      .biased_qk_norms = true,
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .activation = "gelu_new",
      .qkv_bias = BIASES_ALWAYS,
      .output_bias = BIASES_ALWAYS,
      .mlp_bias = BIASES_ALWAYS,
      .head_bias = true,
      .rotary = 0.5,
      .parallel = true,
      .one_norm = true,
      .uses_padding = true,
      .pad_token_id = -1 },
    { .model_type = "stablelm",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .keys = &phi_keys,
      .kv_heads = 32,
      .dropouts = { NULL, "hidden_dropout", "attention_dropout", 0, 0, true },
      .order = llama_order,
      .paths = { LLAMA_PATHS,
                 LLAMA_NORM2, [MODULE_Q_NORM] = "self_attn.q_layernorm.norms.*",
                 [MODULE_K_NORM] = "self_attn.k_layernorm.norms.*" },
      .qk_norms_key = "qk_layernorm",
      .qk_norms_by_head = true,
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .activation = "silu",
      .qkv_bias = BIASES_FROM_CONFIG,
      .bias_keys = { .qkv = "use_qkv_bias" },
      .rotary = 0.25,
      .parallel_key = "use_parallel_residual",
      .one_norm = true,
      .uses_padding = true,
      .pad_token_id = -1 },
    { .model_type = "starcoder2",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .keys = &starcoder2_keys,
      .kv_heads = 2,
      .dropouts = { "embedding_dropout", "residual_dropout", "attention_dropout", 0, 0 },
      .order = llama_order,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O,
                 LLAMA_NORM2, [MODULE_UP] = "mlp.c_fc", [MODULE_DOWN] = "mlp.c_proj" },
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .init_range = 0.018042,
      .activation = "gelu_pytorch_tanh",
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .bias_keys = { "use_bias", "use_bias", "use_bias", true },
      .tied = true,
      .uses_padding = true,
      .pad_token_id = -1,
      .windows = WINDOWS_ALL },
};

const size_t layernorm_architecture_count = TS_COUNT(layernorm_architectures);
