/* train/architecture.c - the architectures. */
#include "config.h"

#include "train/architecture.h"

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
};

/* What Llama's many descendants have in common. */
#define LLAMA_NAMES                                                                     \
    .keys = &llama_keys, .blocks = "model.layers.",                                     \
    .paths = {                                                                          \
        [MODULE_EMBED] = "model.embed_tokens", [MODULE_NORM1] = "input_layernorm",      \
        [MODULE_Q] = "self_attn.q_proj",       [MODULE_K] = "self_attn.k_proj",         \
        [MODULE_V] = "self_attn.v_proj",       [MODULE_O] = "self_attn.o_proj",         \
        [MODULE_GATE] = "mlp.gate_proj",       [MODULE_UP] = "mlp.up_proj",             \
        [MODULE_DOWN] = "mlp.down_proj",       [MODULE_NORM2] = "post_attention_layernorm", \
        [MODULE_NORM] = "model.norm",          [MODULE_HEAD] = "lm_head",               \
    }

/* Sources: transformers/models/NAME/configuration_NAME.py and modeling_NAME.py. */
static const struct architecture architectures[] = {
    { .model_type = "llama",
      LLAMA_NAMES,
      .qkv_bias = BIASES_ASKED,
      .output_bias = BIASES_ASKED,
      .mlp_bias = BIASES_ASKED },
    { .model_type = "mistral", LLAMA_NAMES, .windows = WINDOWS_ALL, .window = 4096 },
    { .model_type = "qwen2",
      LLAMA_NAMES,
      .qkv_bias = BIASES_ALWAYS,
      .windows = WINDOWS_UPPER },
};

static const bool linears[MODULES] = {
    [MODULE_Q] = true,    [MODULE_K] = true,  [MODULE_V] = true,    [MODULE_O] = true,
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

bool module_in_block(enum module module)
{
    return module > MODULE_EMBED && module < MODULE_NORM;
}

bool module_is_linear(enum module module)
{
    return linears[module];
}

const char *architecture_leaf(const struct architecture *a, enum module module)
{
    const char *path = a->paths[module], *dot = path ? strrchr(path, '.') : NULL;

    return dot ? dot + 1 : path;
}

/* Does `whole` end in `end`, as a path: at its beginning or behind a dot? */
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
