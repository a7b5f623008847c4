/*
 * train/model/model_config.h - what config.json says of a model, old style and new.
 *
 * Old (transformers 4): rope_theta, rope_scaling {type or rope_type, factor, ...},
 * torch_dtype. New (transformers 5): rope_parameters {rope_theta, rope_type, ...}, dtype.
 * Both are read.
 */
#ifndef TRAIN_MODEL_MODEL_CONFIG_H
#define TRAIN_MODEL_MODEL_CONFIG_H

#include "base/arena.h"
#include "kernels/ops.h"
#include "precision/format.h"
#include "train/model/architecture.h"
#include "train/model/quantised_config.h"
#include "train/files/safetensors.h"

enum rope_kind { ROPE_DEFAULT, ROPE_LINEAR, ROPE_LLAMA3 };

struct rope {
    enum rope_kind kind;
    double theta;                             /* base; default 10000 */
    double factor;                            /* linear, llama3 */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double original_max_positions;            /* llama3 */
};

struct model_config {
    const struct architecture *architecture;
    size_t vocab_size, hidden_size, intermediate_size;
    size_t layers, heads, kv_heads, head_size;
    size_t max_positions;
    size_t sliding_window; /* 0: none */
    const bool *windowed;  /* by layer, whether the window applies; NULL: to none */
    double norm_eps;
    double initializer_range;
    enum activation activation;
    bool parallel;       /* attention and MLP read the same input */
    double embed_scale;  /* what embeddings are multiplied by; 0: by nothing */
    double score_scale;  /* q k is multiplied by it */
    bool score_by_layer; /* and divided by the number of the layer, from 1 */
    double score_softcap, logit_softcap; /* 0: none */
    size_t rotary; /* columns of a head that are turned; 0: none, positions are learned */
    struct rope rope;
    struct rope rope_local; /* of layers with a window, where has_local */
    bool has_local;
    /* 0 to below 1; dropout_keys */
    double embed_dropout, residual_dropout, attention_dropout;
    bool tied; /* lm_head shares embed_tokens */
    bool qkv_bias, output_bias, mlp_bias;
    /* torch_dtype / dtype; FORMAT_COUNT where not said */
    enum format dtype;
    /* linear layers of blocks in 4 bits in the files */
    struct quantised_config quantised;
    int64_t bos_token_id; /* -1: none */
    int64_t padding;      /* the token whose embedding no lookup trains; -1: none */
    int64_t eos_token_ids[8];
    size_t eos_tokens;
    const char *text; /* config.json as it was, in the arena */
    size_t text_len;
};

/* Read `dir`/config.json.  ERROR_DATA naming the file, the key and what is supported. */
bool model_config_read(const char *dir, struct arena *arena, struct model_config *out,
                       struct error *err);
/* The same from a text; `file` is named in errors. */
bool model_config_parse(const char *data, size_t len, const char *file,
                        struct arena *arena, struct model_config *out, struct error *err);

/* What weights are computed with as they are stored: the format of most of the files'
 * bytes, of a base in 4 bits the one it was made from.  FORMAT_COUNT: not known. */
enum format model_config_stored(const struct model_config *config,
                                const struct safetensors *files);

/* Has the model learned embeddings of so many places, or does it want none?  ERROR_DATA
 * with the remedy. */
bool model_config_check_places(const struct model_config *config, size_t places,
                               struct error *err);

#endif
