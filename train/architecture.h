/*
 * train/architecture.h - what sets one transformer apart from another: a row of a table.
 *
 * All are one decoder (train/model_parts.h draws it).  A row says which parts of it there
 * are, what Hugging Face calls them, how config.json spells their sizes, and how their
 * matrices lie in files.
 */
#ifndef TRAIN_ARCHITECTURE_H
#define TRAIN_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>

/* Modules of a model, in the order of its parameters. */
enum module {
    MODULE_EMBED,
    MODULE_NORM1,
    MODULE_Q,
    MODULE_K,
    MODULE_V,
    MODULE_O,
    MODULE_NORM2,
    MODULE_GATE,
    MODULE_UP,
    MODULE_DOWN,
    MODULE_NORM, /* after the last block */
    MODULE_HEAD,
    MODULES
};

/* Does config.json have a word in it? */
enum biases { BIASES_NONE, BIASES_ALWAYS, BIASES_ASKED };

/* Which layers look back only so far. */
enum windows {
    WINDOWS_NONE,
    WINDOWS_UPPER, /* use_sliding_window, from max_window_layers on, or layer_types */
    WINDOWS_ALL,   /* every layer, if sliding_window is a number */
};

/* How config.json spells what every transformer has. */
struct config_keys {
    const char *hidden_size, *intermediate_size, *layers, *heads, *kv_heads;
    const char *max_positions, *norm_eps, *activation;
};

struct architecture {
    const char *model_type; /* "llama" */
    const char *blocks;     /* what the names of blocks begin with: "model.layers." */
    const char *paths[MODULES]; /* behind that and a number in a block; NULL: has none */
    const struct config_keys *keys;
    enum biases qkv_bias, output_bias; /* asked by attention_bias */
    enum biases mlp_bias;              /* asked by mlp_bias */
    enum windows windows;
    size_t window; /* preset of sliding_window; 0: none */
};

/* NULL: there is none of this model_type. */
const struct architecture *architecture_find(const char *model_type);
/* The index-th row, NULL behind the last. */
const struct architecture *architecture_at(size_t index);

/* Is it a part of every block? */
bool module_in_block(enum module module);
/* A linear layer of a block, which can have an adapter. */
bool module_is_linear(enum module module);
/* The last part of its path, as lora_target names it: "q_proj".  NULL: has none. */
const char *architecture_leaf(const struct architecture *a, enum module module);
/* Is `name` the end of the module's path, or does it end in that: "q_proj",
 * "self_attn.q_proj", "model.layers.0.self_attn.q_proj"? */
bool architecture_is_named(const struct architecture *a, enum module module,
                           const char *name, size_t len);
/* Is it the first part of the path of a module of a block ("mlp")? */
bool architecture_is_under(const struct architecture *a, enum module module,
                           const char *name, size_t len);

#endif
