/* train/model/architecture_own.c - architectures that transformers does not have: a Llama with
 * other names, by code in their folders. */
#include "config.h"

#include "train/model/architecture_rows.h"

#include "base/size.h"

static const struct config_keys exaone_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_layers",
    .heads = "num_attention_heads",
    .kv_heads = "num_key_value_heads",
    .max_positions = "max_position_embeddings",
    .norm_eps = "layer_norm_epsilon",
    .activation = "activation_function",
};

/* From seq_length on, and not in training, Qwen scales attention and rotation. */
static const struct config_keys qwen_keys = {
    .hidden_size = "hidden_size",
    .intermediate_size = "intermediate_size",
    .layers = "num_hidden_layers",
    .heads = "num_attention_heads",
    .max_positions = "seq_length",
    .norm_eps = "layer_norm_epsilon",
};

/* Order of the modules of a block in the __init__ of the classes of modeling_NAME.py. */
static const enum module exaone_order[] = { MODULE_NORM1, MODULE_K,  MODULE_V,
                                            MODULE_Q,     MODULE_O,  MODULE_NORM2,
                                            MODULE_GATE,  MODULE_UP, MODULE_DOWN,
                                            MODULES };
static const enum module qwen_order[] = { MODULE_NORM1, MODULE_QKV, MODULE_O,
                                          MODULE_NORM2, MODULE_UP,  MODULE_GATE,
                                          MODULE_DOWN,  MODULES };

#define GPT_FRAME                                                \
    [MODULE_EMBED] = "transformer.wte", [MODULE_NORM1] = "ln_1", \
    [MODULE_NORM2] = "ln_2", [MODULE_NORM] = "transformer.ln_f", \
    [MODULE_HEAD] = "lm_head", [MODULE_DOWN] = "mlp.c_proj"
#define OWN_LIKE                                                              \
    .has_own_code = true, .base = "transformer.", .blocks = "transformer.h.", \
    .ignored = llama_ignored, .activation = "silu", .norms_decay = true

/* Sources: configuration_NAME.py and modeling_NAME.py in the folders. */
const struct architecture own_architectures[] = {
    { .model_type = "exaone",
      OWN_LIKE,
      .keys = &exaone_keys,
      .order = exaone_order,
      .dropouts = { .embed = "embed_dropout", .attention = "attention_dropout" },
      .paths = { GPT_FRAME, [MODULE_Q] = "attn.attention.q_proj",
                 [MODULE_K] = "attn.attention.k_proj",
                 [MODULE_V] = "attn.attention.v_proj",
                 [MODULE_O] = "attn.attention.out_proj", [MODULE_GATE] = "mlp.c_fc_0",
                 [MODULE_UP] = "mlp.c_fc_1" },
      .norm_eps = 1e-5,
      .mlp_ratio = 4,
      .tied = true,
      .uses_padding = true,
      .pad_token_id = -1 },
    { .model_type = "qwen",
      OWN_LIKE,
      .keys = &qwen_keys,
      .order = qwen_order,
      .dropouts = { .embed = "emb_dropout_prob", .attention = "attn_dropout_prob" },
      .paths = { GPT_FRAME, [MODULE_QKV] = "attn.c_attn", [MODULE_O] = "attn.c_proj",
                 [MODULE_UP] = "mlp.w1", [MODULE_GATE] = "mlp.w2" },
      .norm_eps = 1e-6,
      .joined_mlp_size = true,
      .rotary = 1,
      .qkv_bias = BIASES_ALWAYS,
      .small_outputs = true },
};

const size_t own_architecture_count = TS_COUNT(own_architectures);
