/*
 * train/model/architecture.h - what sets one transformer apart from another: a row of a table.
 *
 * All are one decoder (train/model/model_parts.h draws it).  A row says which parts of it there
 * are, what Hugging Face calls them, how config.json spells their sizes, and how their
 * matrices lie in files.
 */
#ifndef TRAIN_MODEL_ARCHITECTURE_H
#define TRAIN_MODEL_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Modules of a model, in the order of its parameters. */
enum module {
    MODULE_EMBED,
    MODULE_POSITIONS, /* learned, one a place */
    MODULE_NORM1,
    MODULE_QKV, /* q, k and v in one */
    MODULE_Q,
    MODULE_K,
    MODULE_V,
    MODULE_Q_NORM, /* of each head */
    MODULE_K_NORM,
    MODULE_O,
    MODULE_POST1, /* norm of what attention adds */
    MODULE_NORM2,
    MODULE_GATE_UP, /* both in one */
    MODULE_GATE,
    MODULE_UP,
    MODULE_DOWN,
    MODULE_POST2, /* norm of what the MLP adds */
    MODULE_NORM,  /* after the last block */
    MODULE_HEAD,
    MODULES
};

/* Does config.json have a word in it? */
enum biases { BIASES_NONE, BIASES_ALWAYS, BIASES_ASKED };

/* Which layers look back only so far. */
enum windows {
    WINDOWS_NONE,
    WINDOWS_UPPER,   /* use_sliding_window, from max_window_layers on, or layer_types */
    WINDOWS_ALL,     /* every layer, if sliding_window is a number */
    WINDOWS_LISTED,  /* the same, or those of layer_types */
    WINDOWS_LOCAL,   /* those that attention_types (attention_layers) calls local */
    WINDOWS_PATTERN, /* all but every sliding_window_pattern-th, or layer_types */
};

enum norm_kind {
    NORM_RMS,   /* x / rms * w */
    NORM_RMS_1, /* x / rms * (1 + w) */
    NORM_LAYER, /* (x - mean) / deviation * w + b */
};

/* How a matrix, or a bias, lies in a file. */
enum storage {
    STORED_ROWS,    /* [out][in], as products want it */
    STORED_COLUMNS, /* [in][out], transformers' Conv1D */
    STORED_HEADS,   /* rows of q, k and v of one head, then of the next */
};

/* How config.json spells what every transformer has; NULL: it is not said. */
struct config_keys {
    const char *hidden_size, *intermediate_size, *layers, *heads, *kv_heads;
    const char *max_positions, *norm_eps, *activation, *window;
};

/* How it spells what is dropped in training: of the embeddings, of what attention and the
 * MLP add to the stream, of attention's weights.  NULL: there is no such. */
struct dropout_keys {
    const char *embed, *added, *attention;
    double default_value; /* of each */
};

struct architecture {
    const char *model_type; /* "llama" */
    /* what all names of the model below the head begin with; files of that alone are
     * without it: "model." */
    const char *base;
    const char *blocks;         /* what the names of blocks begin with: "model.layers." */
    const char *paths[MODULES]; /* behind that and a number in a block; NULL: has none */
    /* how names end that older files have besides, to NULL */
    const char *const *ignored;
    const struct config_keys *keys;

    enum norm_kind norm;
    enum storage linear, fused;        /* linear layers; q, k and v in one */
    enum biases qkv_bias, output_bias; /* asked by attention_bias */
    enum biases mlp_bias;              /* asked by mlp_bias */
    enum windows windows;
    bool attention_bias; /* defaults of config.json */
    bool tied;
    const char *activation; /* "silu" */
    struct dropout_keys dropouts;
    size_t wider; /* the MLP than the model, where its size is null */
    size_t window, window_pattern;
    size_t window_first; /* of max_window_layers */
    size_t head_size;    /* 0: width / heads */
    double norm_eps;
    double rotary;      /* share of a head that is turned; 0: all */
    double theta;       /* default of rope_theta; 0: 10000 */
    double local_theta; /* of layers with a window; 0: as all */
    /* query_pre_attn_scalar: scores are divided by its root; 0: by that of the head's
     * size */
    double score_scalar;
    double score_softcap, logit_softcap; /* ..._logit_softcapping; 0: none */

    bool pads; /* pad_token_id counts; its default, -1: none */
    int64_t pad_token_id;
    bool unscaled;      /* scores are not divided at all */
    bool embed_scaled;  /* embeddings are multiplied by the root of the width */
    bool may_parallel;  /* use_parallel_residual counts; its default is true */
    bool small_outputs; /* o and down begin with std / sqrt(2 layers) */
    bool gelu_is_tanh;  /* "gelu" in config.json means gelu_pytorch_tanh */
};

/* NULL: there is none of this model_type. */
const struct architecture *architecture_find(const char *model_type);
/* The index-th row, NULL behind the last. */
const struct architecture *architecture_at(size_t index);

/* Is it a part of every block? */
bool module_in_block(enum module module);
/* A linear layer of a block, which can have an adapter. */
bool module_is_linear(enum module module);
/* Does the activation gate a second product, or stand alone? */
bool architecture_is_gated(const struct architecture *a);
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
