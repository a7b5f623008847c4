/*
 * train/model/model_config.h - the config.json of a model, in the old and the new style.
 *
 * Old (transformers 4): rope_theta, rope_scaling {type or rope_type, factor, ...},
 * torch_dtype.  New (transformers 5): rope_parameters {rope_theta, rope_type, ...},
 * dtype.  Both are supported.
 */
#ifndef TRAIN_MODEL_MODEL_CONFIG_H
#define TRAIN_MODEL_MODEL_CONFIG_H

#include "base/arena.h"
#include "kernels/ops.h"
#include "precision/format.h"
#include "train/model/architecture.h"
#include "train/model/encoder_list.h"
#include "train/model/media_config.h"
#include "train/model/multimodal.h"
#include "train/model/packed_config.h"
#include "train/model/quantized_config.h"
#include "train/model/rope.h"
#include "train/files/safetensors.h"

enum { COLUMN_FACTORS_MAX = 8, MODEL_LAYERS_MAX = 4096 };

/*
 * Queries of position p are multiplied by 1 + beta log(1 + floor((p + ahead) / interval)).
 * Nakanishi, "Scalable-Softmax Is Superior for Attention", 2025; transformers,
 * models/llama4/modeling_llama4.py and models/ministral3/modeling_ministral3.py.
 */
struct query_scaling {
    double beta; /* 0: queries are not scaled */
    double interval;
    size_t ahead;
    bool unrotated; /* only in layers that do not rotate q and k */
};

struct model_config {
    const struct architecture *architecture;
    const struct multimodal *multimodal; /* NULL: the whole model is a text model */
    struct media_config media;
    struct encoder_list encoder; /* empty, unless tower_trained_list filled it */
    size_t vocab_size, hidden_size, intermediate_size;
    size_t more_embeddings; /* rows of the embeddings after vocab_size, without logits */
    /* vocabulary_growth.h: rows of the files' embeddings, 0: vocab_size; and new tokens */
    size_t stored_vocab, new_token_count;
    const uint32_t *new_tokens;
    bool adapter_tokens; /* the adapter has embeddings, for the tokens of its tokenizer */
    size_t layers, heads, kv_heads, head_size;
    /* of layers without a window; 0: like the others */
    size_t full_kv_heads, full_head_size;
    bool shares_values; /* these layers have no v: it is k before its norm */
    size_t
        layer_inputs; /* columns of the input that each layer has of its own; 0: none */
    /* so many of the last layers use the keys and values of earlier ones (shared_keys.h), and
     * have MLPs of twice the size */
    size_t sharing_layers;
    bool wide_sharing;
    /* by layer, whether it has cross-attention to the rows of images (cross_layers.h); NULL:
     * none has */
    const bool *crosses;
    size_t cross_layers;                             /* that have */
    size_t experts;                                  /* 0: none */
    size_t chosen_experts, expert_size, shared_size; /* of rows; of MLPs, 0: none */
    const bool *sparse;      /* by layer, whether it has experts; NULL: none has */
    size_t sparse_layers;    /* that have */
    bool normalizes_experts; /* the weights of those of a row have the sum 1 */
    double expert_scale;     /* factor of these weights */
    double router_jitter;    /* sparsemixer: of op_route */
    double input_jitter; /* of op_jitter in training, which sparsemixer applies twice */
    double clamp_alpha, clamp_limit; /* of op_clamped; 0: the activation is another */
    /* groups of experts, and those of which they are chosen for a row; 0: no groups */
    size_t expert_groups, expert_groups_kept;
    double aux_coefficient; /* of the load balancing loss; 0: there is none */
    size_t max_positions;
    size_t sliding_window; /* 0: none */
    const bool *windowed;  /* by layer, whether the window applies; NULL: to none */
    double norm_eps;
    double initializer_range, embedding_range; /* deviations of initial weights */
    enum activation activation;
    bool learned_slopes;   /* the activation is op_xielu instead */
    bool parallel;         /* attention and MLP read the same input */
    bool one_norm;         /* and the output of the same norm */
    double embed_scale;    /* factor of the embeddings; 0: none */
    double residual_scale; /* factor of what is added to the residual; 1: none */
    double logit_scale;    /* factor of the logits; 1: none */
    double score_scale;    /* factor of q k */
    bool score_by_layer;   /* divide scores by the layer's number, from 1 */
    double score_softcap, logit_softcap; /* 0: none */
    double qkv_limit;                    /* of op_clip, of q, k and v; 0: none */
    double alibi; /* `most` of the slopes of linear biases; 0: none */
    /* columns of a head that are rotated; 0: none, positions are learned */
    size_t rotary, rotary_local; /* the second with rope_local */
    bool expert_layers;          /* weights_have_expert_layers */
    const bool *rotated;         /* by layer, whether they are; NULL: in all */
    /* rows of a chunk: in these layers, a row sees only those of its chunk of its sequence;
     * 0: none, and NULL */
    size_t attention_chunk;
    const bool *chunked; /* by layer */
    struct query_scaling query_scaling;
    struct rope rope;
    struct rope rope_local; /* for layers with a window, if has_local */
    bool has_local;
    struct latent_attention { /* kv_rank 0: none; q_rank 0: q has no latent */
        size_t q_rank, kv_rank, plain, rotated, value;
    } latent;
    /* by layer, whether it has linear attention, or a short convolution, in place of
     * attention; NULL: none has */
    const bool *linear;
    struct linear_attention { /* of these layers; 0 heads: of short convolutions */
        size_t heads, key_heads, key_size, value_size, taps;
        bool bias; /* short convolutions and their linear layers have biases */
    } delta;
    /* of layers with a state space model, in place of attention (linear) or, NULL, next to
     * it; 0 heads: there are none */
    struct state_space {
        size_t heads, size, groups, depth,
            taps; /* of op_scan: H, P, G, D; of op_conv: J */
        bool conv_bias, in_bias, out_bias;
        enum scan_norm norm;
        double low, high;  /* of steps */
        double out_factor; /* of what it adds to the residual */
    } ssm;
    /* factors of columns of the outputs of the first layers of a block */
    struct column_factor {
        size_t first, count;
        double factor;
    } column_factors[COLUMN_FACTORS_MAX];
    size_t column_factor_count;
    /* of what attention adds to the residual; of the input of the activation and of what the
     * MLP adds; 1: none */
    double attention_factor, gate_factor, down_factor;
    /* 0 to below 1; dropout_keys */
    double embed_dropout, residual_dropout, attention_dropout;
    bool tied;   /* lm_head shares embed_tokens */
    bool untied; /* only in the files: plan_config.h */
    /* the head computes a score: score_head.h, which sets all of these; token_head: the path
     * of the head in the table; score_end: a token after an answer, which gets no score, -1:
     * none */
    enum score_kind { SCORE_NONE, SCORE_LINEAR, SCORE_VALUE } scores;
    const char *token_head;
    int64_t score_end;
    bool qkv_bias, output_bias, mlp_bias, head_bias;
    /* torch_dtype / dtype; FORMAT_COUNT if absent */
    enum format dtype;
    /* whether the files have linear layers of blocks in 4 bits */
    struct quantized_config quantized;
    struct packed_config
        packed;           /* weights in few bits that are dequantized when loaded */
    int64_t bos_token_id; /* -1: none */
    int64_t padding;      /* token whose embedding gets no gradient; -1: none */
    int64_t eos_token_ids[8];
    size_t eos_tokens;
    const char *text; /* the original config.json, in the arena */
    size_t text_len;
};

/* Read `dir`/config.json.  ERROR_DATA names the file, the key and what is supported.
 * out->dtype is set also for a model that is not supported: FORMAT_COUNT if unknown. */
bool model_config_read(const char *dir, struct arena *arena, struct model_config *out,
                       struct error *err);
/* The same from a text; `file` is used in errors. */
bool model_config_parse(const char *data, size_t len, const char *file,
                        struct arena *arena, struct model_config *out, struct error *err);

/* Return the format that stored weights are computed in: that of most bytes of the files,
 * or, for a base in 4 bits, that of the model it was made from.  FORMAT_COUNT:
 * unknown. */
enum format model_config_weight_format(const struct model_config *config,
                                       const struct safetensors *files);

/* Return whether a layer has a module, if the architecture has it; always outside the
 * blocks. */
bool model_config_has(const struct model_config *config, enum module module,
                      size_t layer);
/* Return the columns of what the activation writes in blocks: of one MLP, or of that which
 * is next to the experts; 0: there are only experts. */
size_t model_config_mlp_size(const struct model_config *config);
/* Return whether a layer uses the keys and values of an earlier one. */
static inline bool model_config_shares_keys(const struct model_config *config,
                                            size_t layer)
{
    return layer + config->sharing_layers >= config->layers;
}

/* Return the size of the MLP of a block without experts. */
static inline size_t model_config_mlp_of(const struct model_config *config, size_t layer)
{
    return config->wide_sharing && model_config_shares_keys(config, layer)
               ? 2 * config->intermediate_size
               : config->intermediate_size;
}

/* Return the columns of all MLPs that a row passes through in a block, on average. */
size_t model_config_active_size(const struct model_config *config);
/* Return whether heads of a layer differ from those of most. */
static inline bool model_config_is_wide(const struct model_config *config, size_t layer)
{
    return config->full_head_size > 0 && !(config->windowed && config->windowed[layer]);
}

/* Return the columns of a head of a layer, and the number of its key heads. */
static inline size_t model_config_head_size(const struct model_config *config,
                                            size_t layer)
{
    return model_config_is_wide(config, layer) ? config->full_head_size
                                               : config->head_size;
}

static inline size_t model_config_kv_heads(const struct model_config *config,
                                           size_t layer)
{
    return model_config_is_wide(config, layer) ? config->full_kv_heads : config->kv_heads;
}

/* Return how many parameters a layer has of a module: one for each expert, or for each head. */
size_t model_config_copies(const struct model_config *config, enum module module);

/* Return whether q, k and v for attention are apart from the outputs of their layers. */
static inline bool model_config_copies_values(const struct model_config *config)
{
    return config->architecture->value_norms || config->qkv_limit > 0;
}

/* Return the columns of q, and of k, of a layer; and the most of any layer. */
static inline size_t model_config_queries(const struct model_config *config, size_t layer)
{
    return config->heads * model_config_head_size(config, layer);
}

static inline size_t model_config_keys(const struct model_config *config, size_t layer)
{
    return model_config_kv_heads(config, layer) * model_config_head_size(config, layer);
}

size_t model_config_most_queries(const struct model_config *config);
size_t model_config_most_keys(const struct model_config *config);
/* Return the columns of a head that a layer rotates. */
size_t model_config_rotary(const struct model_config *config, size_t layer);
/* Return how many tokens have embeddings: more than there are logits, in some models. */
static inline size_t model_config_tokens(const struct model_config *config)
{
    return config->vocab_size + config->more_embeddings;
}

/* Return whether a layer has cross-attention. */
static inline bool model_config_crosses(const struct model_config *config, size_t layer)
{
    return config->crosses && config->crosses[layer];
}

/* Return whether a layer has linear attention or a short convolution. */
static inline bool model_config_is_linear(const struct model_config *config, size_t layer)
{
    return config->linear && config->linear[layer];
}

/* Return whether it has linear attention, or a short convolution. */
static inline bool model_config_has_delta(const struct model_config *config, size_t layer)
{
    return model_config_is_linear(config, layer) && !config->architecture->short_convs &&
           config->ssm.heads == 0;
}

/* Return whether it has a state space model, and how many columns of the first layers'
 * output are before its own. */
static inline bool model_config_scans(const struct model_config *config, size_t layer)
{
    return config->ssm.heads > 0 && (!config->linear || config->linear[layer]);
}

static inline size_t model_config_scan_first(const struct model_config *config,
                                             size_t layer)
{
    return model_config_is_linear(config, layer)
               ? 0
               : (config->heads + 2 * config->kv_heads) * config->head_size;
}

/* Return the columns of all heads, those that are convolved, and those of its first layer. */
static inline size_t state_space_inner(const struct state_space *ssm)
{
    return ssm->heads * ssm->size;
}

static inline size_t state_space_mixed(const struct state_space *ssm)
{
    return state_space_inner(ssm) + 2 * ssm->groups * ssm->depth;
}

static inline size_t state_space_columns(const struct state_space *ssm)
{
    return state_space_inner(ssm) + state_space_mixed(ssm) + ssm->heads;
}

/* Return the taps of the convolution of layers that have one. */
static inline size_t model_config_taps(const struct model_config *config)
{
    return config->ssm.heads > 0 ? config->ssm.taps : config->delta.taps;
}

static inline bool model_config_has_conv(const struct model_config *config, size_t layer)
{
    return model_config_is_linear(config, layer) && config->architecture->short_convs;
}

/* Return how many chunks of attention the sequences of a batch have at most. */
static inline size_t model_config_chunks(const struct model_config *config, size_t rows,
                                         size_t sequences)
{
    return sequences + rows / config->attention_chunk;
}

/* Return whether all layers have latent attention, and the columns that their layers for
 * heads write: of q, of k and v together. */
static inline bool model_config_is_latent(const struct model_config *config)
{
    return config->latent.kv_rank > 0;
}

static inline size_t latent_q_columns(const struct model_config *config)
{
    return config->heads * (config->latent.plain + config->latent.rotated);
}

static inline size_t latent_kv_columns(const struct model_config *config)
{
    return config->heads * (config->latent.plain + config->latent.value);
}

/* Return the columns of q, k and v together, and those of the values, in linear attention. */
static inline size_t linear_attention_values(const struct linear_attention *delta)
{
    return delta->heads * delta->value_size;
}

static inline size_t linear_attention_columns(const struct linear_attention *delta)
{
    return 2 * delta->key_heads * delta->key_size + linear_attention_values(delta);
}

/* Return the positions that the model is meant for; SIZE_MAX: its angles adapt to any
 * length, or biases of scores replace positions. */
size_t model_config_positions(const struct model_config *config);
/* Return whether the model has learned embeddings for this many positions or needs none.
 * Otherwise ERROR_DATA with the remedy. */
bool model_config_check_positions(const struct model_config *config, size_t positions,
                                  struct error *err);

#endif
