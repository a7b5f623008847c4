/*
 * train/model/architecture.h - a table of the differences between transformer
 * architectures.
 *
 * All are one decoder (train/model/model_internal.h has its formulas). A row says which
 * of its parts exist, their Hugging Face names, the keys of their sizes in config.json,
 * and the layout of their matrices in files.
 */
#ifndef TRAIN_MODEL_ARCHITECTURE_H
#define TRAIN_MODEL_ARCHITECTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Modules of a model, in the order of its parameters. */
enum module {
    MODULE_EMBED,
    MODULE_POSITIONS,  /* learned position embeddings */
    MODULE_EMBED_NORM, /* norm of the embeddings */
    MODULE_NORM1,
    MODULE_QKV, /* q, k and v as one matrix */
    MODULE_Q,
    MODULE_K,
    MODULE_V,
    MODULE_CROSS_Q, /* of cross-attention, whose k and v have other rows */
    /* of latent attention: the latent of q; that of k and v, with what the keys of all
     * heads share */
    MODULE_Q_A,
    MODULE_KV_A,
    MODULE_SCAN_IN, /* of state space models: gate, x, b, c and dt as one matrix */
    /* of layers with linear attention: q, k and v as one matrix, the gate of the output, the
     * strength and the decay of each head */
    MODULE_IN_QKV,
    MODULE_IN_Z,
    MODULE_IN_B,
    MODULE_IN_A,
    MODULE_CONV,    /* the taps of each column of q, k and v, or of a short convolution */
    MODULE_A_LOG,   /* of the decays; a vector without a suffix in its name */
    MODULE_DT_BIAS, /* the same */
    MODULE_SKIP,    /* of x to the output of a state space model; the same */
    MODULE_V_NORM,  /* of each head of its output, or of all of a state space model's */
    MODULE_Q_NORM,  /* per head, or of all heads, or one each; or of the latents */
    MODULE_K_NORM,
    MODULE_Q_B, /* of latent attention: from the latents to the heads */
    MODULE_KV_B,
    /* of cross-attention: of the rows of images; norms of all heads */
    MODULE_CROSS_K,
    MODULE_CROSS_V,
    MODULE_CROSS_Q_NORM,
    MODULE_CROSS_K_NORM,
    MODULE_SINKS, /* of attention, one for each head; a vector without a suffix, too */
    MODULE_O,
    MODULE_CROSS_O,
    MODULE_OUT,      /* the same of linear attention */
    MODULE_SCAN_OUT, /* and of state space models */
    MODULE_POST1,    /* norm of the attention output */
    MODULE_NORM2,
    MODULE_EXPERT_NORM, /* of the input of experts that do not share that of the MLP */
    /* weight of the norm of such a router's input, whose output is divided by sqrt(C); a
     * vector without a suffix in its name */
    MODULE_ROUTER_SCALE,
    MODULE_ROUTER, /* one row for each expert */
    /* added to the scores of experts for the choice; a vector without a suffix in its name,
     * which is never trained */
    MODULE_ROUTER_BIAS,
    MODULE_EXPERT_SCALE, /* factor of the weight of each expert; a vector like the above */
    MODULE_GATE_UP,      /* both as one matrix */
    MODULE_GATE,
    MODULE_UP,
    MODULE_SHARED_GATE_UP, /* of the MLP that all rows pass through, next to the experts */
    MODULE_SHARED_GATE,
    MODULE_SHARED_UP,
    MODULE_DOWN,
    MODULE_SHARED_DOWN,
    MODULE_SHARED_ROUTER, /* the sigmoid of its output is a factor of that MLP's */
    MODULE_LINEAR_ROUTER, /* MODULE_ROUTER of architectures where adapters fit it */
    MODULE_EXPERT_GATE,   /* one of each for each expert */
    MODULE_EXPERT_UP,
    MODULE_EXPERT_DOWN,
    /* of an activation with learned slopes (kernels/ops_xielu.h): one element each, without a
     * suffix in their names; the last two are never trained */
    MODULE_ALPHA_P,
    MODULE_ALPHA_N,
    MODULE_BETA,
    MODULE_EPS,
    /* norms of the output of experts, and of that of the MLP next to them */
    MODULE_EXPERT_POST,
    MODULE_SHARED_POST,
    MODULE_POST2, /* norm of the MLP output, or of the sum of both */
    /* of inputs for each layer, after the MLP (model_inputs.c): to their columns, whose
     * activation they multiply, and back; norm of the result */
    MODULE_INPUT_GATE,
    MODULE_INPUT_OUT,
    MODULE_POST3,
    /* of cross-attention: the tanh of each is a factor of what attention, and the MLP, adds to
     * the residual; one element without a suffix in its name */
    MODULE_CROSS_GATE,
    MODULE_CROSS_MLP_GATE,
    /* factor of the residual after the block: one element without a suffix in its name,
     * which is never trained */
    MODULE_FACTOR,
    MODULE_NORM, /* after the last block */
    /* inputs of all layers: embeddings, a matrix from the other embeddings to them, and the
     * norm of its output */
    MODULE_LAYER_EMBED,
    MODULE_LAYER_INPUTS,
    MODULE_LAYER_NORM,
    /* between an encoder of images or sounds and the language model: projector_config.h */
    MODULE_PROJECTOR_NORM,
    MODULE_PROJECTOR_MERGE,
    MODULE_PROJECTOR_FIRST,
    MODULE_PROJECTOR_MIDDLE, /* a norm */
    MODULE_PROJECTOR_GATE,
    MODULE_PROJECTOR_UP,
    MODULE_PROJECTOR_LAST,
    MODULE_ENCODER, /* each of its tensors: encoder_list.h */
    MODULE_HEAD,
    MODULES
};

/* How to determine whether layers have biases; FROM_CONFIG: by a key of config.json;
 * BY_DEFAULT: by a key that defaults to true. */
enum biases { BIASES_NONE, BIASES_ALWAYS, BIASES_FROM_CONFIG, BIASES_BY_DEFAULT };

/* The layers that have an attention window. */
enum windows {
    WINDOWS_NONE,
    /* use_sliding_window, from layer max_window_layers on, or layer_types */
    WINDOWS_UPPER,
    WINDOWS_ALL,    /* every layer, if sliding_window is a number */
    WINDOWS_LISTED, /* the same, or according to layer_types */
    WINDOWS_LOCAL,  /* those that attention_types (attention_layers) calls local */
    /* all but every sliding_window_pattern-th, or according to layer_types */
    WINDOWS_PATTERN,
    /* use_sliding_window, those whose q and k are not rotated, or layer_types */
    WINDOWS_UNROTATED,
};

/* The layers that do not rotate q and k, so have no positions of their own. */
enum unrotated {
    UNROTATED_NONE,
    /* zeros of no_rope_layers, or every no_rope_layer_interval-th */
    UNROTATED_LISTED,
    UNROTATED_FULL, /* those without a window, if sliding_window is a number */
};

enum norm_kind {
    NORM_RMS,         /* x / rms * w */
    NORM_RMS_1,       /* x / rms * (1 + w) */
    NORM_LAYER,       /* (x - mean) / deviation * w + b */
    NORM_LAYER_1,     /* (x - mean) / deviation * (1 + w) + b */
    NORM_LAYER_PLAIN, /* (x - mean) / deviation * w */
    NORM_LAYER_BARE,  /* (x - mean) / deviation: norms without parameters */
};

/* Layout of a matrix, or a bias, in a file. */
enum storage {
    STORED_ROWS,    /* [out][in], as matmuls use it */
    STORED_COLUMNS, /* [in][out], transformers' Conv1D */
    /* rows of the query heads of a key head, of this and of its value head; then those of
     * the next */
    STORED_HEADS,
    /* rows of a query head, then those of its gate; then those of the next head */
    STORED_PAIRS,
    /* of linear attention: rows of a key head: q, k, values and gates, or strengths and
     * decays, of the value heads that share it; then those of the next */
    STORED_KEY_HEADS,
    /* of a stack of matrices with r columns, which has E times as many there: column j of
     * matrix e is column j E + e; rows may alternate between the first half and the second
     * (train/model/expert_adapters.h) */
    STORED_EXPERTS,
    STORED_EXPERT_PAIRS,
    /* of a layer over P patches next to each other: column j of patch k is column j P + k */
    STORED_PATCHES,
};

/* Layout of each matrix in tensors of all experts of a block: [out][in], or [in][out], or
 * either, which their shapes show. */
enum expert_storage { EXPERTS_IN_ROWS, EXPERTS_IN_COLUMNS, EXPERTS_IN_EITHER };

/* Return whether a file has the same rows in another order. */
static inline bool storage_moves_rows(enum storage storage)
{
    return storage >= STORED_HEADS && storage <= STORED_KEY_HEADS;
}

/* Keys of config.json for the settings that every transformer has; NULL: no key. */
struct config_keys {
    const char *hidden_size, *intermediate_size, *layers, *heads, *kv_heads;
    const char *max_positions, *activation, *window;
    const char *norm_eps; /* NULL: always the default */
    /* key and another name that counts if it is missing; NULL ends the list, or is none */
    const char *const (*others)[2];
};

/* Keys of the dropout probabilities in training: of the embeddings, of the attention and
 * MLP outputs, of the attention weights.  NULL: no dropout. */
struct dropout_keys {
    const char *embed, *residual, *attention;
    double default_value; /* of the first two keys */
    double attention_default;
    bool mlp_only; /* the residual key applies to the MLP outputs alone */
};

/* Keys that say whether linear layers have biases, for BIASES_FROM_CONFIG; NULL:
 * attention_bias for q, k, v and for the output, mlp_bias for the MLP. */
struct bias_keys {
    const char *qkv, *output, *mlp;
    bool default_value; /* of each key */
};

/* At most this many keys that must be 0, and objects of settings. */
enum { ZERO_KEYS = 2, NESTED_OBJECTS = 2 };

/* Keys of factors in config.json: of the embeddings, of the attention scores in place of 1
 * / the square root of the head size, of what attention and MLP add to the residual.  The
 * last one divides the logits.  Each defaults to 1.  NULL: no factor. */
struct factor_keys {
    const char *embed, *scores, *residual, *logits;
    const char *logit_scale; /* multiplies the logits, by default logit_default */
    double logit_default;
    /* the residual's factor is divided by the square root of the number of layers, and the
     * logits' key is the hidden size at which they have none (MiniCPM) */
    bool by_size;
};

/*
 * Models whose blocks have several MLPs, the experts, of which a router chooses a few for
 * each row: keys of config.json and their defaults.  The path of a module of experts has a
 * star for the number of the expert.
 */
struct expert_columns {
    const char *count_key; /* NULL: there are no experts */
    /* says whether there are, by default not; NULL: there are */
    const char *enabled_key;
    /* of those that are chosen for a row, or a list with one number for each layer, all
     * equal; NULL: num_experts_per_tok */
    const char *chosen_key;
    const char *size_key; /* of their MLPs */
    /* of the MLP that all rows pass through, too; NULL: none */
    const char *shared_size_key;
    const char
        *shared_count_key; /* its size in those of an expert; NULL: the key above */
    /* says whether the weights of the chosen experts have the sum 1; NULL: they have */
    const char *normalize_key;
    bool normalizes; /* default of that key */
    size_t count, chosen, size, shared_size, shared_count;
    double aux_coefficient; /* of the load balancing loss */
    bool unbalanced;        /* there is no such loss */
    bool sigmoid;           /* scores are the sigmoids of logits, not their softmax */
    bool scales_inputs;     /* weights multiply the inputs of experts, not the outputs */
    /* two experts of a row are sampled in training (ROUTE_SPARSEMIXER), and their inputs
     * multiplied by noise: router_jitter_noise, whose default this is, and
     * input_jitter_noise.  0: neither is supported */
    double mixer_jitter;
    const char
        *jitter_key; /* the size of noise in training that inputs are multiplied by */
    /* n_group and topk_group limit the choice to the experts of some groups, by the highest
     * score of each, or, with sigmoids or group_pairs, by the sum of the two highest */
    bool groups, group_pairs;
    size_t group_count, groups_kept; /* their defaults; 0: 1 */
    /* groups apply only if this key is group_limited_greedy, not greedy; NULL: always */
    const char *method_key;
    bool never_normalizes; /* normalize_key must not be true */
    double least_sum;      /* added to the sum that weights are divided by; 0: 1e-20 */
    /* a number p: the weights have the p-norm 1; 1 is the default, and the only one that is
     * supported, and null means no norm.  NULL: no such key */
    const char *p_norm_key;
    const char *aux_key;   /* of aux_coefficient; NULL: router_aux_loss_coef */
    const char *scale_key; /* of a factor of the weights, and its default; NULL: none */
    double scale;
    /* how many of the first blocks have one MLP instead, and its default; NULL: none */
    const char *first_dense_key;
    size_t first_dense;
    const char *types_key; /* of a list that says dense or sparse for each block */
    /* moe_layer_start_index, moe_layer_end_index and moe_layer_interval say which blocks have
     * experts */
    bool layer_range;
    /* the correction of the choice is a row, [1][E], in files */
    bool bias_is_row;
    /* the load balancing loss counts the experts that would be chosen without the
     * correction, which is not supported */
    bool counts_uncorrected;
    /* end of the name of a tensor that holds gate and up of all experts of a block, and of
     * that of down, in files that have them: "mlp.experts.gate_up_proj" */
    const char *gate_up_tensor, *down_tensor;
    /* the same of a tensor of up alone, next to that of gate; the matrices of experts then
     * follow each other in two dimensions, and those of down are [in][out].  NULL: none */
    const char *up_tensor;
    enum expert_storage storage;
    /* module of a block whose parameters gate_up_proj and down_proj have the matrices of all
     * experts in transformers 5: "mlp.experts"; NULL: PEFT adapts no such parameters */
    const char *parameters;
    bool swapped_by_peft; /* it takes them for [out][in], but they are [in][out] */
    bool unknown_to_peft; /* which does not convert the names of their adapters */
    bool only_tensors;    /* all files have them; there are no layers that PEFT adapts */
    /* rows of gate and up alternate in their tensor, and experts have biases, in tensors
     * whose names end in _bias */
    bool interleaved;
    bool biased;
    bool router_bias; /* the router is a linear layer with a bias */
    /* says whether experts have a correction of the choice, by default true; NULL: they
     * have it if paths has it */
    const char *correction_key;
    /* their activation is op_clamped: defaults of swiglu_alpha and swiglu_limit; 0: it is
     * op_swiglu */
    double alpha, limit;
    /* mlp_only_layers and decoder_sparse_step say which blocks have one MLP instead */
    bool some_dense;
    /* moe_layers, or every interleave_moe_layer_step-th, have experts, or none has */
    bool listed;
    /* there may be none: then the MLP next to them is that of the blocks */
    bool none_is_dense;
};

/*
 * Multi-head latent attention: q, and k and v, are computed of latents, which are normalized
 * (kernels/ops_latent.h).  Defaults of kv_lora_rank, q_lora_rank, qk_nope_head_dim,
 * qk_rope_head_dim and v_head_dim.
 */
struct latent_columns {
    size_t kv_rank; /* 0: there are none */
    size_t q_rank;  /* null in config.json: q has no latent */
    size_t plain, rotated, value;
    double norm_eps; /* of the norms of latents */
};

/* Where the output of a state space model has a norm, of the columns of each group. */
enum scan_norm { SCAN_NORM_NONE, SCAN_NORM_BEFORE_GATE, SCAN_NORM_AFTER_GATE };

/*
 * State space models (kernels/ops_scan.h): keys of their sizes and defaults.  Some keys are
 * NULL: there is no such setting.
 */
struct state_space_columns {
    const char *heads_key; /* NULL: there are none */
    const char *size_key, *groups_key, *depth_key, *taps_key;
    /* of the columns of all heads, of which they otherwise are a multiple of the hidden size;
     * expand_key NULL: heads times the size of one */
    const char *inner_key, *expand_key;
    const char *conv_bias_key, *in_bias_key, *out_bias_key;
    /* whether there is a norm, and whether it is before the gate; NULL: as `norm` says */
    const char *norm_key, *norm_first_key;
    size_t heads, size, groups, depth, inner;
    enum scan_norm norm;
    const char *
        positions_key; /* attention rotates q and k only if it says rope; NULL: it does */
    bool next_to_attention; /* every block has both, which read the same input */
    bool refused_by_peft;   /* LoRA of the last layer: tuners/tuners_utils.py */
    bool factors;           /* Falcon-H1's: train/model/state_space.c */
};

/* Return whether a norm subtracts the mean, and whether it has a bias. */
static inline bool norm_is_centered(enum norm_kind norm)
{
    return norm >= NORM_LAYER;
}

static inline bool norm_has_bias(enum norm_kind norm)
{
    return norm == NORM_LAYER || norm == NORM_LAYER_1;
}

struct architecture {
    const char *model_type; /* "llama" */
    const char *projector;  /* path of a projector that can be trained; NULL: none */
    /* rows of one model_type differ by the value of this key, which is next to it; NULL:
     * there is one row */
    const char *norms_key;
    size_t norms; /* of a parallel block */
    /* prefix of all tensor names below the head, "model."; files of the model without its
     * head lack it */
    const char *base;
    const char *blocks; /* prefix of the names in blocks: "model.layers." */
    /* in a block after the prefix and a number; NULL: does not exist */
    const char *paths[MODULES];
    /* modules of a block in the order of transformers' named_parameters(); MODULES ends
     * the list, which may name modules that do not exist */
    const enum module *order;
    /* ends of additional names in older files; NULL ends the list */
    const char *const *ignored;
    /* prefix of tensors that are not used, but saved with the whole model; NULL: none */
    const char *kept;
    /* the same applies to the blocks after the last one, which predict further tokens:
     * num_nextn_predict_layers, by default 1 */
    bool keeps_blocks;
    size_t kept_first, kept_end; /* their numbers; never in the table */
    const struct config_keys *keys;

    enum norm_kind norm;
    enum storage linear, fused; /* of linear layers; of q, k and v as one matrix */
    /* of linear attention: the gate is in the matrix of q, k and v, and decays are in that
     * of strengths, ordered by key head (STORED_KEY_HEADS) */
    bool fused_delta;
    enum biases qkv_bias, output_bias, mlp_bias;
    struct bias_keys bias_keys;
    enum windows windows;
    enum unrotated unrotated;
    bool tied;              /* defaults of config.json */
    const char *activation; /* "silu" */
    struct dropout_keys dropouts;
    const char *zero_keys[ZERO_KEYS]; /* keys that must be 0 or missing; NULL: none */
    /* objects of config.json whose keys are read like its own; NULL: none */
    const char *nested[NESTED_OBJECTS];
    /* key that says whether there is one key head, which is the default, unless the key
     * of groups is true; then keys->kv_heads has their number.  NULL: no such keys */
    const char *one_kv_head_key, *groups_key;
    struct factor_keys factors;
    struct expert_columns experts;
    struct latent_columns latent;
    struct state_space_columns ssm;
    size_t mlp_ratio; /* size of the MLP in multiples of the hidden size, if it is null */
    bool
        joined_mlp_size; /* intermediate_size counts the columns of gate and up together */
    size_t window, window_pattern;
    size_t window_first;       /* default of max_window_layers */
    size_t unrotated_interval; /* default of no_rope_layer_interval */
    size_t head_size;          /* 0: hidden size / heads */
    size_t kv_heads;           /* default of keys->kv_heads; 0: as many as heads */
    /* layers without a window have heads of their own: default of global_head_dim.  Their
     * keys are also their values if attention_k_eq_v says so.  0: like the others */
    size_t full_head_size;
    /* layers have inputs of their own with so many columns: default of
     * hidden_size_per_layer_input.  0: none */
    size_t layer_inputs;
    /* the last num_kv_shared_layers layers use the keys and values of earlier ones, and
     * use_double_wide_mlp applies to them */
    bool shares_keys;
    /* default of original_max_position_embeddings, which has precedence over that of
     * rope_parameters; 0: none */
    size_t original_positions;
    double norm_eps;
    /* of the deviation of initial weights, and its default; NULL: initializer_range, 0: 0.02 */
    const char *init_key;
    double init_range;
    /* 2 / sqrt(5 C) is the default, and twice that of the embeddings (Youtu), whose key is
     * embedding_initializer_range */
    bool init_by_size;
    double rotary;      /* share of a head that is rotated; 0: all */
    size_t rotary_size; /* default of rotary_dim, its columns; 0: there is no such key */
    bool rotary_dim_divides; /* the default of that share is rotary_dim / head size */
    double theta;            /* default of rope_theta; 0: 10000 */
    double local_theta;      /* of layers with a window; 0: like the others */
    /* without rope_parameters, layers without a window rotate the pairs of columns of this
     * share, which have the frequencies that they have in a whole head; 0: all */
    double proportional;
    bool rope_alpha;   /* `alpha` of dynamic scaling applies, which stretches theta */
    bool rope_mscales; /* short_mscale and long_mscale apply */
    /* columns 2 i and 2 i + 1 of a head turn together, not i and i + half of them; by
     * default of the key, if there is one */
    bool rotary_interleaved;
    const char *interleave_key;
    /* query_pre_attn_scalar: scores are divided by its square root; 0: by that of the
     * head size */
    double score_scalar;
    double score_softcap, logit_softcap; /* ..._logit_softcapping; 0: none */
    bool caps_logits; /* final_logit_softcapping applies, by default none */

    /* layers have linear attention, as layer_types says; by default all but each of this
     * interval, which is the default of full_attention_interval.  0: none has */
    size_t linear_interval;
    /* layers have short convolutions in place of attention, as layer_types says, or, by
     * default, full_attn_idxs (train/model/short_convs.h) */
    bool short_convs;
    /* block_auto_adjust_ff_dim, by default true, changes the size of MLPs, which may also be
     * block_ff_dim */
    bool adjusts_mlp;
    /* the query matrix has rows of a gate after those of q, and the output of attention is
     * multiplied by its sigmoid */
    bool gated_attention;
    const char *qk_norms_key; /* says whether q and k have norms; NULL: no such key */
    bool whole_qk_norms;      /* of q and k: of all heads at once, not of each */
    /* of q and k: with a weight for each head, not one for all; a star in their path is the
     * number of the head */
    bool qk_norms_by_head;
    bool biased_qk_norms;
    bool value_norms;         /* v has norms, too, of each head and without parameters */
    bool qk_norms_after_rope; /* of q and k: after their rotation, not before */
    /* use_qk_norm, by default true: heads of q and k have norms without weights in the
     * layers that rotate them */
    bool bare_qk_norms;
    /* names of the layers of attention contain _norm., so that transformers' Trainer does not
     * let their weights decay */
    bool undecayed_attention;
    bool clips_qkv; /* clip_qkv applies, by default none */
    /* layers that rotate q and k attend to no previous chunk (attention_chunk_size), and
     * the others scale q by its position (floor_scale, attn_scale) */
    bool chunks;
    bool scales_queries; /* by their positions (llama_4_scaling_beta) */
    bool uses_padding;   /* pad_token_id applies; its default, -1: none */
    int64_t pad_token_id;
    bool unscaled_scores; /* scores are not scaled */
    /* scores have linear biases with this exponent (kernels/ops_alibi.h), and q and k are not
     * rotated; 0: none */
    double alibi;
    /* embeddings are multiplied by the square root of the hidden size */
    bool embed_scaled;
    /* attention and MLP read the same input, always or by default of parallel_key; NULL:
     * no key */
    bool parallel;
    const char *parallel_key;
    /* rows of the learned positions before that of position 0, which nothing looks up */
    size_t position_offset;
    bool norm_first; /* named_parameters() has the last norm before the blocks */
    bool one_norm;   /* parallel blocks have only the first norm, for both parts */
    bool head_bias;  /* the head has a bias */
    const char *head_bias_key; /* says whether it has one; NULL: no such key */
    bool small_outputs;        /* o and down are initialized with std / sqrt(2 layers) */
    bool gelu_is_tanh;         /* "gelu" in config.json means gelu_pytorch_tanh */
    bool needs_rope_type; /* by default, positions are scaled as config.json must say */
    /* transformers does not have it: its code is in its folder, and reads fewer types of
     * rotary scaling */
    bool has_own_code;
    /* weight decay applies to the norms, whose names and class transformers' Trainer does not
     * recognize */
    bool norms_decay;
    /* the model has towers (train/model/multimodal.h), in which modules have the same last
     * parts of names; never in the table */
    bool has_towers;
    /* by layer, its number in names, of `numbered`: other layers are between them
     * (train/model/cross_layers.h); NULL: its index.  Never in the table */
    const size_t *numbers;
    size_t numbered;
};

/* Return NULL if there is no such model_type. */
const struct architecture *architecture_find(const char *model_type);
/* Return the row with this index, or NULL after the last. */
const struct architecture *architecture_at(size_t index);

/* Return whether it is part of every block. */
bool module_in_block(enum module module);
/* Return whether it is a linear layer, which can have an adapter: of a block, or
 * MODULE_LAYER_INPUTS. */
bool module_is_linear(enum module module);
/* Return whether each expert has one. */
bool module_is_of_experts(enum module module);
/* Return whether it exists only in blocks that have experts, or only in the others. */
bool module_is_sparse(enum module module);
bool module_is_dense(enum module module);
/* Return whether a block has it that has attention, or something in place of it or next to
 * it, or both. */
bool module_in_mixer(enum module module, bool attention, bool other);
/* Return whether only blocks with cross-attention have it. */
bool module_is_of_cross(enum module module);
/* Return whether it is part of a projector. */
static inline bool module_is_of_projector(enum module module)
{
    return module >= MODULE_PROJECTOR_NORM && module <= MODULE_PROJECTOR_LAST;
}

/* Return whether its name ends without .weight. */
bool module_is_bare(enum module module);
/* Return whether its rows are looked up. */
bool module_is_table(enum module module);
/* Return whether it is never trained. */
bool module_is_buffer(enum module module);
/* Return whether it is part of an activation, and whether it has no dimensions in files. */
bool module_is_of_activation(enum module module);
bool module_is_scalar(enum module module);
/* Return whether files may have tensors that are not used, but saved with the whole model,
 * and whether this is the name of one. */
bool architecture_has_kept(const struct architecture *a);
bool architecture_keeps(const struct architecture *a, const char *name);
/* Return whether the MLP has a gate. */
bool architecture_is_gated(const struct architecture *a);
/* Return the last part of its path, which lora_target uses: "q_proj"; NULL if it does not
 * exist. */
const char *architecture_leaf(const struct architecture *a, enum module module);
/* A module of a model; the layer has no effect outside the blocks. */
struct module_place {
    enum module module;
    size_t layer, expert;
};

/* Set *out to the full name of a module, which exists: "model.layers.3.mlp.up_proj". */
void architecture_name(const struct architecture *a, const struct module_place *at,
                       struct text *out);
/* Return whether `name` is the end of the module's path or ends in that path: "q_proj",
 * "self_attn.q_proj", "model.layers.0.self_attn.q_proj". */
bool architecture_is_named(const struct architecture *a, enum module module,
                           const char *name, size_t len);
/* Return whether `name` is the first part of the path of a module of a block ("mlp"). */
bool architecture_is_under(const struct architecture *a, enum module module,
                           const char *name, size_t len);

#endif
