/* train/model/architecture.c - the table of architectures. */
#include "config.h"

#include "train/model/architecture.h"

#include <string.h>

#include "base/size.h"

static const struct config_keys llama_keys = {
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

/* Like Llama's, except for the activation. */
static const struct config_keys gemma2_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "rms_norm_eps",
    .activation = "hidden_activation",
    .window = "sliding_window",
};

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
static const char *const llama_ignored[] = { ".rotary_emb.inv_freq", NULL };
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
static const enum module llama_order[] = { MODULE_Q,     MODULE_K,      MODULE_V,
                                           MODULE_O,     MODULE_Q_NORM, MODULE_K_NORM,
                                           MODULE_GATE,  MODULE_UP,     MODULE_DOWN,
                                           MODULE_NORM1, MODULE_POST1,  MODULE_NORM2,
                                           MODULE_POST2, MODULES };
static const enum module phi3_order[] = { MODULE_O,    MODULE_QKV,   MODULE_GATE_UP,
                                          MODULE_DOWN, MODULE_NORM1, MODULE_NORM2,
                                          MODULES };
static const enum module internlm2_order[] = { MODULE_QKV,   MODULE_O,    MODULE_GATE,
                                               MODULE_UP,    MODULE_DOWN, MODULE_NORM1,
                                               MODULE_NORM2, MODULES };
static const enum module glm_order[] = { MODULE_Q,     MODULE_K,       MODULE_V,
                                         MODULE_O,     MODULE_GATE_UP, MODULE_DOWN,
                                         MODULE_NORM1, MODULE_NORM2,   MODULE_POST1,
                                         MODULE_POST2, MODULES };
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

/* Common to Llama and its many descendants. */
#define LLAMA_ENDS                                                       \
    [MODULE_EMBED] = "model.embed_tokens", [MODULE_NORM] = "model.norm", \
    [MODULE_HEAD] = "lm_head"
#define LLAMA_FRAME LLAMA_ENDS, [MODULE_NORM1] = "input_layernorm"
#define LLAMA_QKV                                                     \
    [MODULE_Q] = "self_attn.q_proj", [MODULE_K] = "self_attn.k_proj", \
    [MODULE_V] = "self_attn.v_proj"
#define LLAMA_O [MODULE_O] = "self_attn.o_proj"
#define LLAMA_MLP                                                 \
    [MODULE_GATE] = "mlp.gate_proj", [MODULE_UP] = "mlp.up_proj", \
    [MODULE_DOWN] = "mlp.down_proj"
#define LLAMA_FUSED_MLP \
    [MODULE_GATE_UP] = "mlp.gate_up_proj", [MODULE_DOWN] = "mlp.down_proj"
#define LLAMA_PATHS LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_MLP
#define LLAMA_NORM2 [MODULE_NORM2] = "post_attention_layernorm"
#define HEAD_NORMS \
    [MODULE_Q_NORM] = "self_attn.q_norm", [MODULE_K_NORM] = "self_attn.k_norm"
#define POST_NORMS                                                \
    [MODULE_POST1] = "post_attention_layernorm", [MODULE_POST2] = \
                                                     "post_feedforward_layernorm"
#define GEMMA2_NORMS                              \
    [MODULE_POST1] = "post_attention_layernorm",  \
    [MODULE_NORM2] = "pre_feedforward_layernorm", \
    [MODULE_POST2] = "post_feedforward_layernorm"
#define LLAMA_BASE                                                         \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored, \
    .order = llama_order, .dropouts.attention = "attention_dropout",       \
    .uses_padding = true
#define LLAMA_LIKE LLAMA_BASE, .activation = "silu", .norm_eps = 1e-6, .pad_token_id = -1
#define BIASES_LISTED                                                  \
    .qkv_bias = BIASES_FROM_CONFIG, .output_bias = BIASES_FROM_CONFIG, \
    .mlp_bias = BIASES_FROM_CONFIG
#define GLM_LIKE                                                                        \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored,              \
    .order = glm_order, .dropouts.attention = "attention_dropout", .keys = &llama_keys, \
    .activation = "silu", .norm_eps = 1.5625e-7, .qkv_bias = BIASES_BY_DEFAULT,         \
    .head_size = 128, .rotary = 0.5, .rotary_interleaved = true, .uses_padding = true,  \
    .pad_token_id = 151329
#define GEMMA_LIKE                                                                       \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored,               \
    .order = llama_order, .dropouts.attention = "attention_dropout", .norm = NORM_RMS_1, \
    .norm_eps = 1e-6, .activation = "gelu_pytorch_tanh", .qkv_bias = BIASES_FROM_CONFIG, \
    .output_bias = BIASES_FROM_CONFIG, .tied = true, .head_size = 256,                   \
    .embed_scaled = true, .uses_padding = true
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

#define COHERE_LIKE                                                                    \
    .base = "model.", .blocks = "model.layers.", .ignored = llama_ignored,             \
    .order = llama_order, .dropouts.attention = "attention_dropout",                   \
    .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_MLP }, .norm = NORM_LAYER_PLAIN, \
    .norm_eps = 1e-5, .activation = "silu", .qkv_bias = BIASES_FROM_CONFIG,            \
    .output_bias = BIASES_FROM_CONFIG, .tied = true, .rotary_interleaved = true,       \
    .parallel = true, .one_norm = true, .uses_padding = true,                          \
    .factors = { .logit_scale = "logit_scale", .logit_default = 0.0625 }
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
static const struct architecture architectures[] = {
    { .model_type = "llama",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      BIASES_LISTED },
    { .model_type = "mistral",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .windows = WINDOWS_LISTED,
      .window = 4096 },
    { .model_type = "ministral3",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .dropouts.attention = "attention_dropout",
      .keys = &llama_keys,
      .order = llama_order,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .activation = "silu",
      .norm_eps = 1e-5,
      .head_size = 128,
      .uses_padding = true,
      .pad_token_id = 11,
      .windows = WINDOWS_ALL,
      .theta = 1e6,
      .needs_rope_type = true },
    { .model_type = "qwen2",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .qkv_bias = BIASES_ALWAYS,
      .windows = WINDOWS_UPPER,
      .window = 4096,
      .window_first = 28 },
    { .model_type = "qwen3",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, HEAD_NORMS },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .head_size = 128,
      .windows = WINDOWS_UPPER,
      .window = 4096,
      .window_first = 28 },
    { .model_type = "granite",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      BIASES_LISTED,
      .factors = { .embed = "embedding_multiplier",
                   .scores = "attention_multiplier",
                   .residual = "residual_multiplier",
                   .logits = "logits_scaling" } },
    { .model_type = "arcee",
      LLAMA_BASE,
      .keys = &llama_keys,
      .activation = "relu2",
      .norm_eps = 1e-5,
      .pad_token_id = -1,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_NORM2,
                 [MODULE_UP] = "mlp.up_proj", [MODULE_DOWN] = "mlp.down_proj" },
      BIASES_LISTED },
    { .model_type = "olmo2",
      LLAMA_BASE,
      .keys = &llama_keys,
      .activation = "silu",
      .norm_eps = 1e-5,
      .pad_token_id = 1,
      .paths = { LLAMA_ENDS, LLAMA_QKV, LLAMA_O, LLAMA_MLP, POST_NORMS, HEAD_NORMS },
      .whole_qk_norms = true,
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG },
    { .model_type = "olmo3",
      LLAMA_BASE,
      .keys = &llama_keys,
      .activation = "silu",
      .norm_eps = 1e-5,
      .pad_token_id = 1,
      .paths = { LLAMA_ENDS, LLAMA_QKV, LLAMA_O, LLAMA_MLP, POST_NORMS, HEAD_NORMS },
      .whole_qk_norms = true,
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .windows = WINDOWS_PATTERN,
      .window = 4096,
      .window_pattern = 4,
      .theta = 5e5,
      .local_theta = 5e5 },
    { .model_type = "exaone4",
      LLAMA_BASE,
      .keys = &llama_keys,
      .activation = "silu",
      .norm_eps = 1e-5,
      .pad_token_id = -1,
      .paths = { LLAMA_ENDS, LLAMA_QKV, LLAMA_O, LLAMA_MLP, POST_NORMS, HEAD_NORMS },
      .windows = WINDOWS_PATTERN,
      .window = 4096,
      .window_pattern = 4,
      .unrotated = UNROTATED_FULL },
    { .model_type = "glm",
      GLM_LIKE,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_FUSED_MLP, LLAMA_NORM2 } },
    { .model_type = "glm4",
      GLM_LIKE,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O, LLAMA_FUSED_MLP,
                 LLAMA_NORM2, [MODULE_POST1] = "post_self_attn_layernorm",
                 [MODULE_POST2] = "post_mlp_layernorm" } },
    { .model_type = "ernie4_5",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .keys = &llama_keys,
      .order = llama_order,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .activation = "silu",
      .norm_eps = 1e-5,
      .head_size = 128,
      BIASES_LISTED,
      .bias_keys = { "use_bias", "use_bias", "use_bias", false },
      .tied = true,
      .theta = 5e5,
      .rotary_interleaved = true,
      .uses_padding = true },
    { .model_type = "hunyuan_v1_dense",
      LLAMA_BASE,
      .keys = &llama_keys,
      .activation = "silu",
      .norm_eps = 1e-5,
      .pad_token_id = 0,
      .paths = { LLAMA_PATHS, LLAMA_NORM2, [MODULE_Q_NORM] = "self_attn.query_layernorm",
                 [MODULE_K_NORM] = "self_attn.key_layernorm" },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .qk_norms_after_rope = true,
      .rope_alpha = true },
    { .model_type = "minicpm",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .tied = true,
      .factors = { .embed = "scale_emb",
                   .residual = "scale_depth",
                   .logits = "dim_model_base",
                   .by_size = true } },
    { .model_type = "phi3",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .dropouts = { .residual = "resid_pdrop", .attention = "attention_dropout" },
      .keys = &llama_keys,
      .order = phi3_order,
      .paths = { [MODULE_EMBED] = "model.embed_tokens",
                 [MODULE_NORM1] = "input_layernorm",
                 [MODULE_QKV] = "self_attn.qkv_proj",
                 [MODULE_O] = "self_attn.o_proj",
                 LLAMA_NORM2,
                 LLAMA_FUSED_MLP,
                 [MODULE_NORM] = "model.norm",
                 [MODULE_HEAD] = "lm_head" },
      .activation = "silu",
      .norm_eps = 1e-5,
      .rotary = 1,
      .original_positions = 4096,
      .uses_padding = true,
      .pad_token_id = 32000,
      .windows = WINDOWS_ALL },
    { .model_type = "seed_oss",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .dropouts = { .residual = "residual_dropout",
                    .attention = "attention_dropout",
                    .default_value = 0.1,
                    .attention_default = 0.1 },
      .keys = &llama_keys,
      .order = llama_order,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .activation = "silu",
      .norm_eps = 1e-6,
      .head_size = 128,
      .qkv_bias = BIASES_BY_DEFAULT,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .bias_keys.output = "attention_out_bias",
      .uses_padding = true,
      .pad_token_id = 1 },
    { .model_type = "smollm3",
      LLAMA_BASE,
      .keys = &llama_keys,
      .activation = "silu",
      .norm_eps = 1e-6,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      BIASES_LISTED,
      .windows = WINDOWS_UNROTATED,
      .unrotated = UNROTATED_LISTED,
      .unrotated_interval = 4,
      .tied = true,
      .theta = 2e6,
      .pad_token_id = 128004 },
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
    { .model_type = "cohere", COHERE_LIKE, .keys = &phi_keys, .theta = 500000 },
    { .model_type = "cohere2",
      COHERE_LIKE,
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
    /* like InternLM 3, by code in their folders: modeling_internlm2.py */
    { .model_type = "internlm2",
      .base = "model.",
      .blocks = "model.layers.",
      .ignored = llama_ignored,
      .keys = &llama_keys,
      .order = internlm2_order,
      .paths = { [MODULE_EMBED] = "model.tok_embeddings",
                 [MODULE_NORM1] = "attention_norm",
                 [MODULE_QKV] = "attention.wqkv",
                 [MODULE_O] = "attention.wo",
                 [MODULE_NORM2] = "ffn_norm",
                 [MODULE_GATE] = "feed_forward.w1",
                 [MODULE_UP] = "feed_forward.w3",
                 [MODULE_DOWN] = "feed_forward.w2",
                 [MODULE_NORM] = "model.norm",
                 [MODULE_HEAD] = "output" },
      .activation = "silu",
      .norm_eps = 1e-6,
      .fused = STORED_HEADS,
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .bias_keys = { .qkv = "bias", .output = "bias", .default_value = true },
      .uses_padding = true },
    { .model_type = "internlm3",
      LLAMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .bias_keys = { "qkv_bias", "bias", "bias", false } },
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
                 [MODULE_UP] = "mlp.fc1",
                 [MODULE_DOWN] = "mlp.fc2",
                 [MODULE_NORM] = "model.final_layernorm",
                 [MODULE_HEAD] = "lm_head" },
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
      .dropouts = { NULL, "hidden_dropout", "attention_dropout", 0, 0, true },
      .order = llama_order,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
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
      .dropouts = { "embedding_dropout", "residual_dropout", "attention_dropout", 0, 0 },
      .order = llama_order,
      .paths = { LLAMA_FRAME, LLAMA_QKV, LLAMA_O,
                 LLAMA_NORM2, [MODULE_UP] = "mlp.c_fc", [MODULE_DOWN] = "mlp.c_proj" },
      .norm = NORM_LAYER,
      .norm_eps = 1e-5,
      .activation = "gelu_pytorch_tanh",
      .qkv_bias = BIASES_FROM_CONFIG,
      .output_bias = BIASES_FROM_CONFIG,
      .mlp_bias = BIASES_FROM_CONFIG,
      .bias_keys = { "use_bias", "use_bias", "use_bias", true },
      .tied = true,
      .uses_padding = true,
      .pad_token_id = -1,
      .windows = WINDOWS_ALL },
    { .model_type = "gemma",
      GEMMA_LIKE,
      .keys = &llama_keys,
      .paths = { LLAMA_PATHS, LLAMA_NORM2 },
      .gelu_is_tanh = true },
    { .model_type = "gemma2",
      GEMMA_LIKE,
      .keys = &gemma2_keys,
      .paths = { LLAMA_PATHS, GEMMA2_NORMS },
      .windows = WINDOWS_PATTERN,
      .window = 4096,
      .window_pattern = 2,
      .score_scalar = 256,
      .score_softcap = 50,
      .logit_softcap = 30 },
    { .model_type = "gemma3_text",
      GEMMA_LIKE,
      .keys = &gemma2_keys,
      .paths = { LLAMA_PATHS, GEMMA2_NORMS, HEAD_NORMS },
      .windows = WINDOWS_PATTERN,
      .window = 4096,
      .window_pattern = 6,
      .theta = 1e6,
      .local_theta = 1e4,
      .score_scalar = 256 },
};

static const bool is_linear[MODULES] = {
    [MODULE_QKV] = true,  [MODULE_Q] = true,  [MODULE_K] = true,
    [MODULE_V] = true,    [MODULE_O] = true,  [MODULE_GATE_UP] = true,
    [MODULE_GATE] = true, [MODULE_UP] = true, [MODULE_DOWN] = true,
};

const struct architecture *architecture_at(size_t index)
{
    return index < TS_COUNT(architectures) ? &architectures[index] : NULL;
}

const struct architecture *architecture_find(const char *model_type)
{
    for (size_t i = 0; i < TS_COUNT(architectures); i++)
        if (strcmp(architectures[i].model_type, model_type) == 0)
            return &architectures[i];
    return NULL;
}

bool architecture_is_gated(const struct architecture *a)
{
    return a->paths[MODULE_GATE] || a->paths[MODULE_GATE_UP];
}

bool module_in_block(enum module module)
{
    return module >= MODULE_NORM1 && module < MODULE_NORM;
}

bool module_is_linear(enum module module)
{
    return is_linear[module];
}

const char *architecture_leaf(const struct architecture *a, enum module module)
{
    const char *path = a->paths[module], *dot = path ? strrchr(path, '.') : NULL;

    return dot ? dot + 1 : path;
}

void architecture_name(const struct architecture *a, enum module module, size_t layer,
                       struct text *out)
{
    text_reset(out);
    if (module_in_block(module))
        text_addf(out, "%s%zu.", a->blocks, layer);
    text_adds(out, a->paths[module]);
}

/* Return whether the path `whole` ends in `end`, at its start or after a dot. */
static bool ends_in(const char *whole, size_t len, const char *end, size_t end_len)
{
    if (end_len == 0 || len < end_len || memcmp(whole + len - end_len, end, end_len) != 0)
        return false;
    return len == end_len || whole[len - end_len - 1] == '.';
}

bool architecture_is_named(const struct architecture *a, enum module module,
                           const char *name, size_t len)
{
    const char *path = a->paths[module];

    return path && (ends_in(path, strlen(path), name, len) ||
                    ends_in(name, len, path, strlen(path)));
}

bool architecture_is_under(const struct architecture *a, enum module module,
                           const char *name, size_t len)
{
    const char *path = a->paths[module];

    return path && module_in_block(module) && strcspn(path, ".") == len &&
           strncmp(path, name, len) == 0;
}
