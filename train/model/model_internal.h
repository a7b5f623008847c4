/*
 * train/model/model_internal.h - private declarations of the model, for model*.c only.
 *
 * A decoder block, with x the residual (fp32).  Parts in brackets exist only in some
 * architectures (train/model/architecture.h):
 *
 *     h1 = [norm1](x_in)       qkv = h1 Wqkv^T [+ b] [, q and k through head norms],
 *                              [q and k rotated], in this order or the other
 *     a = attention Wo^T [+ b] [, norm]      x_mid = x_in + a
 *     h2 = [norm2](x_mid)      gate, up = h2 Wgu^T [+ b], or up alone
 *     act = f(gate) up or f(up)
 *     d = act Wd^T [+ b] [, norm]            next x_in = [factor] (x_mid + d [+ another term:
 *                                            model_inputs.c])
 *
 * In a block with experts, each row passes through k of E such MLPs, and d is the sum of
 * their outputs times weights that a router computes of h2 (kernels/ops_experts.h); and
 * the output of one more MLP that all rows pass through, if there is one, which may have a
 * factor of its own: model_experts.c.
 * Norms of v have no parameters.  Layers without a window may have heads of another size,
 * and k in place of v before its norm.  The last layers may attend to the k and v of earlier
 * ones, after norms and rotation (train/model/shared_keys.h): they have none of their own.
 * A gated architecture multiplies attention by sigmoid(gate), whose columns are those of
 * Wqkv after q.  A block with linear attention has, in place of both,
 *
 *     mixed, z, b, a' = h1 Win^T       q, k, v = conv(mixed), decay and beta from a' and b
 *     silu(z) * norm of each head of the gated delta rule (kernels/ops_delta.h)
 *
 * and one with a short convolution (kernels/ops_conv.h)
 *
 *     b, c, x' = h1 Win^T [+ bias]     c filter(b x')
 *
 * A block with a state space model (kernels/ops_scan.h) has, in place of attention or, in
 * Falcon-H1, next to it, with Wqkv and Win as one matrix and a as their sum,
 *
 *     z, mixed, dt = h1 Win^T [times factors]      x, b, c = conv(mixed)
 *     a = (silu(z) * scan, or norm before or after the gate) Wout^T
 *
 * Latent attention computes q, k and v in two steps (kernels/ops_latent.h):
 *
 *     cq, ckv, s = h1 Wa^T [+ b]       heads of norm(cq) Wqb^T, norm(ckv) Wkvb^T and s
 *
 * Some architectures multiply a, d and the logits by constants (struct factor_keys).  In
 * training, dropout applies to a, d, the embeddings and the attention weights, as the
 * model configures it.  A parallel block has no x_mid: h2 = norm2(x_in), next x_in =
 * x_in + a + d.  If it has one norm, h2 is h1.
 */
#ifndef TRAIN_MODEL_MODEL_INTERNAL_H
#define TRAIN_MODEL_MODEL_INTERNAL_H

#include "train/model/model.h"
#include "train/model/model_media.h"
#include "train/model/model_projector.h"
#include "train/model/shapes.h"
#include "train/model/matrix_layout.h"
#include "train/model/weights.h"

enum { LINEARS = 4, PARTS = PART_OFT_R + 1 };

/* Dropout in a block.  Each value selects a random stream, DROPS per block.  Resumed runs
 * depend on the values: do not renumber. */
enum dropout_site {
    DROP_EMBED = 0, /* of the embeddings; in the first block only */
    DROP_LORA_Q_B = 1,
    DROP_LORA_QKV = 2,
    DROP_LORA_KV_B = 3,
    DROP_ATTENTION = 4, /* of the attention weights */
    DROP_LORA_O = 5,
    DROP_RESIDUAL_O = 6,
    DROP_LORA_GATE_UP = 7,
    DROP_LORA_EXPERT_GATE_UP = 8,
    DROP_LORA_DOWN = 9,
    DROP_RESIDUAL_DOWN = 10,
    DROP_LORA_EXPERT_DOWN = 11,
    DROPS = 12,
    /* no architecture has two of these */
    DROP_LORA_ROUTER = DROP_LORA_Q_B,
    DROP_LORA_SCAN_OUT = DROP_LORA_KV_B,
    DROP_LORA_CROSS_KV = DROP_LORA_KV_B,
    DROP_LORA_INPUT_GATE = DROP_LORA_Q_B,
    DROP_LORA_INPUT_OUT = DROP_LORA_KV_B,
    DROP_LORA_LAYER_INPUTS = DROP_EMBED /* before the first block */
};

static inline uint32_t dropout_stream(size_t layer, enum dropout_site site)
{
    return (uint32_t)(layer * DROPS + site);
}

/*
 * A linear layer y = x W^T + bias.  It reads columns in_first .. in_first + in_count of x
 * and writes columns out_first .. out_first + out_count of y.  Neighboring layers whose
 * weights are adjacent in memory are one struct linear, so one matmul.
 */
struct linear {
    struct tensor weight; /* operand of the matmul: the working copy if there is one */
    const struct parameter *quantized; /* to dequantize into it first: adjacent ones */
    size_t quantized_count;
    size_t experts;     /* the matrices are stacks of that many; 0: of one */
    bool transposed;    /* they are [in][out] */
    struct tensor grad; /* absent: frozen */
    struct tensor bias, bias_grad;
    size_t out_first, out_count, in_first, in_count;
    bool fp8; /* operands are rounded to 8 bits: e4m3, gradients e5m2 */
    /* where the rooms for its operands in 8 bits start, in the buffers of the block */
    size_t layer, dy_room, w_room, x_room;
    bool rounds_x;                /* there is a room for x */
    bool measures_dy, measures_x; /* the activation puts the largest into the room */
};

/* One layer of a stack with weight-decomposed adapters (model_dora.c). */
struct dora {
    const struct parameter *magnitude; /* NULL: this layer has no adapter */
    struct tensor a, b;
    size_t out_first, out_count;
    size_t norm_at; /* elements from the start of the block's BUFFER_DORA_NORM */
};

/* One layer of a stack whose adapters rotate its input (model_rotation.c). */
struct rotated {
    const struct parameter *packed; /* NULL: this layer has no adapter */
    size_t blocks, size;
    size_t at;            /* elements from the start of the block's BUFFER_ROTATIONS */
    size_t inputs_before; /* of rotated layers that are before it in the stack */
};

/* Linear layers that read the same input x and write one output y, with their LoRA
 * adapters. */
struct linear_stack {
    struct linear base[LINEARS];   /* W */
    struct linear lora_a[LINEARS]; /* A: x to u */
    struct linear lora_b[LINEARS]; /* B: u to y */
    size_t base_count, lora_a_count, lora_b_count;
    struct dora dora[LINEARS]; /* every layer of the stack; count 0: none is decomposed */
    size_t dora_count;
    struct rotated rotated[LINEARS]; /* those of base, if a layer rotates its input */
    bool rotates;
    enum buffer z;       /* x W^T + scale u B^T of such a stack */
    struct linear fused; /* [W; A], if folded: x to (y, u), and (dy, g) to dx */
    bool folded;
    bool u_after_y;        /* u follows y in the buffer of y */
    size_t y_cols, u_cols; /* columns of y and of u */
    size_t experts;        /* as in struct linear */
    bool of_images;        /* x has the rows of images, not those of the batch */
    enum buffer u;
    uint32_t dropout_stream;
    bool trained; /* a weight, bias or adapter is trained */
    float factor; /* of y: 1, but for routers whose input has a norm of its own */
};

/* Both NULL: the architecture has no such norm. */
struct norm {
    struct parameter *weight, *bias;
};

struct block {
    struct norm norm1, norm2;
    struct norm q_norm, k_norm; /* per head */
    /* of linear attention, and of short convolutions; NULL: the block has none */
    struct parameter *conv, *conv_bias, *skip, *a_log, *dt_bias, *v_norm;
    struct norm post1, post2; /* of a and d, before they are added to the residual */
    struct linear_stack qkv, o, gate_up, down;
    struct linear_stack q_b, kv_b; /* of latent attention */
    struct linear_stack scan_out;  /* of a state space model */
    /* of cross-attention (model_cross.c) */
    bool crosses;
    struct linear_stack cross_kv;
    struct norm cross_q_norm, cross_k_norm;
    const struct parameter *cross_gate, *cross_mlp_gate;
    /* of the layer's own input; base_count 0: it has none */
    struct linear_stack input_gate, input_out;
    struct norm post3;
    /* whether attention reads the keys and values of another layer, or others read those of
     * this one, which are in BUFFER_SHARED_KEYS; whether it is the last that reads them */
    bool borrows_keys, lends_keys, ends_keys;
    /* of a block with experts; gate_up and down are of the MLP next to them */
    bool sparse;
    struct linear_stack router, shared_router; /* base_count 0: it has none */
    /* norms of the inputs and outputs of experts, and of the MLP next to them, if both have
     * norms of their own */
    struct norm expert_norm, router_norm, expert_post, shared_post;
    const struct parameter *expert_scale; /* NULL: none */
    const struct parameter *router_bias;  /* NULL: none */
    const struct parameter *sinks;        /* of attention; NULL: none */
    const struct parameter *factor; /* of the residual after the block; NULL: none */
    /* of an activation with learned slopes; NULL: it is another */
    const struct parameter *alpha_p, *alpha_n, *beta, *eps;
    struct linear_stack expert_gate_up, expert_down;
    size_t window;
    size_t chunk;        /* rows of a chunk of attention; 0: none */
    bool rotates;        /* q and k */
    bool scales_queries; /* by their positions */
    enum buffer rope;
    float scale; /* of the attention scores */
};

/* Sublayers of a block in the order of the forward pass: the backward pass may stop at
 * any of them. */
enum sublayer {
    SUBLAYER_NORM1,
    SUBLAYER_QKV,
    SUBLAYER_O,
    SUBLAYER_NORM2,
    SUBLAYER_GATE_UP,
    SUBLAYER_DOWN,
    SUBLAYER_INPUT, /* of the layer's own input */
    SUBLAYERS
};

/* The results of a window on the host; one may begin before those of the previous one
 * have arrived. */
enum { WINDOWS = BACKEND_FENCES };

struct window {
    float *losses;    /* like BUFFER_LOSSES; window 0: of an evaluated batch too */
    float *kd_losses; /* NULL: no distillation */
    float *pairs;     /* like BUFFER_PAIRS; NULL: no preferences */
    /* like BUFFER_EXPERT_COUNTS, of which the first holds int32, and BUFFER_EXPERT_SUMS;
     * NULL: no load balancing loss */
    float *expert_counts, *expert_sums;
    size_t *batch_items; /* rows or pairs of each micro-batch since model_begin */
    size_t batch_count;  /* micro-batches since model_begin */
    struct step_scalars scalars;
};

struct pissa;

/* Of the decompositions of model_pissa.c. */
struct pissa_progress {
    size_t made, count;
    double started, reported;
};

struct model {
    const struct plan *plan;
    struct log *log; /* or NULL */
    struct pissa_progress pissa_progress;
    struct safetensors *pissa_file; /* or NULL */
    int64_t issued_step;            /* of the last model_begin */
    bool has_moments;               /* model_write_moment after model_zero_moments */
    bool is_average;                /* model_use_average */
    const struct model_config *config;
    const struct template_saving
        *saving; /* borrowed; NULL: save the tokenizer as it is */
    struct backend *be;
    const struct backend_ops *unwatched; /* the table of be: model_watch.c replaces it */
    struct heartbeat *heartbeat;         /* borrowed; or NULL */
    struct arena *arena;
    struct shapes shapes;
    struct memory_use memory;

    char *memory_block, *buffers;
    char *moments[MOMENTS_MAX]; /* of this rank's shard */
    char *host_block;           /* moments that are in host memory; or NULL */
    float *gradients;
    struct parameter *parameters; /* same order as shapes.parameters */
    struct parameter **trained;   /* in the order of the segments */
    size_t trained_count;
    struct parameter **slots;       /* by layer, module and part; NULL: does not exist */
    struct parameter *embed, *head; /* head is embed if they are tied */
    struct parameter *head_bias;    /* NULL: none */
    struct linear score;            /* the head of a reward model */
    int32_t *score_targets;         /* on the host, of a batch: model_reward.c */
    struct parameter *positions;    /* NULL: no learned positions */
    struct norm embed_norm;         /* of the embeddings; no weight: there is none */
    struct norm norm;               /* after the last block */
    /* of the layers' own inputs; NULL: there are none */
    struct parameter *layer_embed;
    struct linear_stack layer_inputs;
    struct norm layer_norm;
    float layer_embed_scale;
    struct tensor head_weight, embed_weight; /* operands of the matmul and the lookup */
    float embed_scale;                       /* factor of the embeddings; 0: none */
    struct block *blocks;
    size_t first_trained; /* sublayer_index of the first sublayer that is trained */
    bool rounded_frozen;  /* frozen weights are in their rooms for 8 bits */

    size_t rope_reach[2]; /* what the tables of angles are filled for: model_rope.c */
    struct batch padded;  /* a batch padded for recorded passes: model_pass.c */
    float *row_weights;   /* of the padded batch, if it has weights */
    struct media_state *media;   /* NULL: no batch has media */
    struct cross_state *cross;   /* NULL: no block has cross-attention */
    struct projector *projector; /* NULL: rows of features are its output */
    struct window results[WINDOWS];
    size_t posted, ended;  /* windows whose results were requested, and returned */
    float *correct;        /* on the host, of the last evaluated batch; or NULL */
    int32_t *position_ids; /* on the host, of a prompt */
    int32_t *chunk_starts; /* on the host, of attention in chunks */

    /* distillation: borrowed; NULL: the teacher's logits come from a file */
    struct model *teacher;
    size_t shared_tokens; /* tokens that both vocabularies have */
    size_t kept_logits;   /* teacher logits kept per row; 0: all */
    struct model_losses loss_parts;

    /* preferences: borrowed; NULL: the model without adapters */
    struct model *reference;
    struct rewards rewards;

    size_t rank;
    size_t expected_batches; /* micro-batches of this window on this rank */
    size_t most_batches;     /* on any rank */
    size_t reduced_from;     /* gradients from this index on are reduced */
    size_t reduced_level;    /* levels from this one on have been checked for a bucket */
    bool adds_nothing;       /* this rank has no micro-batch to reduce */
    bool expects_late;       /* gradients are added to after the backward pass */
    bool reduces_late;       /* its last reductions have not been made yet */
    size_t level;            /* of the backward pass: the one that it is at */
    /* sharded gradients: the lane whose reduction may not have ended; LANES: none */
    enum lane reducing;
    struct model_shard reducing_part; /* of it, this rank's */
    float *reducing_data;
    /* sharded blocks: this rank's bytes of the frozen matrices; the windows; the block
     * that is in each, or is on its way: SIZE_MAX: none */
    char *frozen_shard, *windows;
    size_t held[SHAPES_WINDOWS];
    bool gathering;     /* a block is on its way */
    bool leads;         /* the other ranks do not know which block comes next */
    size_t writer;      /* the rank that sharded weights are sent to; SIZE_MAX: none */
    model_fetch *fetch; /* of moments that other ranks keep */
    const void *fetch_context;

    /* files of the base, open as long as frozen weights may have to be saved */
    struct safetensors *base_files;
    struct safetensors
        *value_head;         /* TRL's file of the head of a reward model; or NULL */
    struct text_names names; /* how base_files names tensors */
    struct expert_files expert_files;
    struct safetensors *merged; /* adapter merged into the base: create_new_adapter */
    struct lora merged_lora;
    double *growth[2];      /* means of the rows of head and embeddings: model_growth.c */
    struct pissa *pissa[2]; /* by parameter, of the trained and of the merged adapter */
};

/* A pass of one micro-batch through the model. */
struct pass {
    struct model *model;
    struct backend *be;
    const struct backend_ops *ops;
    size_t rows, sequences;
    size_t longest;     /* upper bound of the rows of a sequence; 0: unknown */
    size_t labeled;     /* upper bound of the rows that have a target; 0: none has */
    size_t pairs;       /* preferences: the first 2 * pairs sequences; grpo: that many */
    double temperature; /* logits are divided by it for the loss; 0: 1 */
    bool training, weighted;
    uint64_t draw; /* of a batch that trains: model_train */
    bool media;    /* the batch has images or sounds */
    bool first;    /* overwrites gradients, does not add to them */
    bool fills;    /* the rooms for weights in 8 bits, if trained or `fills_frozen` */
    bool fills_frozen;
    bool reduces;       /* there are other ranks that wait for its gradients */
    bool skip_adapters; /* compute the base model only */
    bool recomputes;    /* computes a block again for the backward pass */
    bool second;        /* of a teacher or a reference model */
    bool announced;     /* sharded blocks: other ranks do not know of this pass */
    bool decoding;      /* one new row for each sequence of the cache */
    bool prefill;       /* write the rows of the only sequence into the cache of `slot` */
    size_t slot;
    const struct step_scalars *scalars; /* in the backend's memory */
    const struct batch *batch;          /* as uploaded to the device */
    const struct pass *teacher;         /* the same micro-batch; NULL: none */
};

/* Index of a sublayer in the order of the forward pass.  0 is the embedding; the last
 * norm and the head follow the blocks. */
static inline size_t sublayer_index(size_t layer, enum sublayer sublayer)
{
    return 1 + layer * SUBLAYERS + sublayer;
}

/* Levels of the backward pass, which counts down: the head, the last norm, then the
 * blocks (block l is level l + 1), and the embeddings as level 0. */
static inline size_t backward_level(size_t index)
{
    return (index + SUBLAYERS - 1) / SUBLAYERS;
}

static inline size_t model_head_level(const struct model *model)
{
    return model->config->layers + 2;
}

/* Return a buffer with the rows of this batch; data is NULL if the buffer does not
 * exist. */
struct tensor pass_buffer(const struct pass *pass, enum buffer buffer, size_t layer);
/* Return the weight of a matmul in the compute format (or in fp32, if the matmul rounds
 * it), and a bias in fp32.  Weights stored in another format are converted into scratch:
 * the result is valid until the next call. */
struct tensor pass_weight(const struct pass *pass, struct tensor weight);
struct tensor pass_bias(const struct pass *pass, struct tensor bias);
/* The same for the bias of the head, or absent. */
struct tensor pass_head_bias(const struct pass *pass);
/* Like pass_weight, for a linear layer: dequantizes 4-bit weights first. */
struct tensor pass_linear_weight(const struct pass *pass, const struct linear *linear);
/* Return the room for a layer's weight in 8 bits; none if this pass does not use it. */
struct rounded_matrix pass_rounded_weight(const struct pass *pass,
                                          const struct linear *linear, bool ready);
/* Return that for the input of a layer. */
struct rounded_matrix pass_rounded_input(const struct pass *pass,
                                         const struct linear *linear, bool ready);
/* Return that for the gradient of its output; none if only one matmul reads it. */
struct rounded_matrix pass_rounded_gradient(const struct pass *pass,
                                            const struct linear *linear, bool ready);
/* Return where an operation puts the largest magnitude of a matrix; NULL: nowhere. */
static inline float *pass_largest(struct rounded_matrix rounded)
{
    return rounded.measured ? rounded_matrix_largest(rounded.room) : NULL;
}
/* out = dropout(x), or the gradient of dropout for x = its output's gradient. */
void pass_dropout(const struct pass *pass, double p, uint32_t stream, struct tensor x,
                  struct tensor out);
/* out = factor * x, unless the factor is 1 and both are the same. */
void pass_scale(const struct pass *pass, double factor, struct tensor x,
                struct tensor out);
/* Return whether this pass applies dropout with probability p. */
static inline bool pass_uses_dropout(const struct pass *pass, double p)
{
    return pass->training && p > 0 && !pass->model->plan->disable_dropout;
}

/* Return the probability of dropout of what layer o, or down, adds to the residual. */
static inline double pass_residual_dropout(const struct pass *pass, bool o)
{
    const struct model_config *c = pass->model->config;

    return o && c->architecture->dropouts.mlp_only ? 0 : c->residual_dropout;
}

/* Check a micro-batch and upload it to the device. */
bool pass_open(struct model *model, const struct batch *batch, struct pass *out,
               struct error *err);
/*
 * Return true if the caller must issue the operations of the forward pass, or those of
 * the backward pass from below level `from` down to level `to`; false if a recording of
 * them was replayed.  The key of a recording holds everything that the operations depend
 * on and that differs between passes.  Head and loss run between the two: they also
 * depend on the number of labeled rows.
 */
bool pass_begin(const struct pass *pass);
bool pass_begin_levels(const struct pass *pass, size_t from, size_t to);
void pass_end(const struct pass *pass);
/* Start to download the logits of rows h of the last norm's output.  After the last such
 * call, pass_finish_logits waits for them and applies the model's soft cap. */
void pass_logits(const struct pass *pass, struct tensor h, float *out);
bool pass_finish_logits(const struct pass *pass, float *logits, size_t rows,
                        struct error *err);
/* Run the forward pass up to the last norm, without the head. */
void model_forward(const struct pass *pass);
/* The same, and before it that of the pass's teacher, from recordings if there are any. */
void model_run_forward(const struct pass *pass);
/* Run the forward pass of one block.  recompute: start from its kept input and stop where
 * the backward pass needs no more. */
void model_forward_block(const struct pass *pass, size_t layer, bool recompute);
/* Run the attention of a block over the batch or over the cache: model_decode.c. */
void model_run_attention(const struct pass *pass, size_t layer);
/* Add the gradient of its sinks, if they are trained. */
void model_sink_backward(const struct pass *pass, size_t layer,
                         const struct op_attention_backward *op);
/* model_attention.c.  Rotate and normalize q and k, or make heads of latents; from the
 * gradient of the output of attention to BUFFER_DQKV. */
void model_prepare_heads(const struct pass *pass, size_t layer);
void model_attention_backward(const struct pass *pass, size_t layer, struct tensor datt);
/* Return the operands of a block's attention, and those of its dropout. */
struct op_attention model_attention_op(const struct pass *pass, size_t layer);
struct attention_dropout model_attention_dropout(const struct pass *pass, size_t layer);
/* model_latent.c.  Return q, k and v of latent attention, or their gradients. */
struct attention_heads {
    struct tensor q, k, v;
};
struct attention_heads model_latent_heads(const struct pass *pass, enum buffer buffer,
                                          size_t layer);
/* From BUFFER_QKV to them. */
void model_run_latent(const struct pass *pass, size_t layer);
/* Return the output of attention as the next layer reads it; from that gradient to that of
 * the output. */
struct tensor model_latent_output(const struct pass *pass, size_t layer);
struct tensor model_latent_output_backward(const struct pass *pass, struct tensor datt);
/* From BUFFER_DHEADS, those gradients, to BUFFER_DQKV. */
void model_latent_backward(const struct pass *pass, size_t layer);
/* Let the backend prepare for the attention of most batches, in the background. */
void model_expect_attention(struct model *m);
/* Return the columns of q and k, or of their gradients, in a buffer that starts with
 * them. */
struct tensor model_queries(const struct pass *pass, size_t layer, struct tensor qkv);
struct tensor model_keys(const struct pass *pass, size_t layer, struct tensor qkv);
/* The same of v, after its norm if it has one; and before that. */
struct tensor model_values(const struct pass *pass, size_t layer, struct tensor qkv);
struct tensor model_values_before_norm(const struct pass *pass, size_t layer,
                                       struct tensor qkv);
/* model_rope.c.  Fill and upload the tables of angles. */
bool model_rope_open(struct model *m, struct error *err);
/* Do it again if sequences of `length` have other angles than the last ones: 1 if they
 * grow token by token. */
void model_rope_reach(struct model *m, size_t length);
/* Write where the chunks of attention of these sequences start, if layers have some. */
void model_upload_chunks(const struct pass *pass, const int32_t *offsets);
/* Rotate q and k of a block, the first columns of qkv; inverse: rotate their gradients
 * back. */
void model_rotate(const struct pass *pass, size_t layer, struct tensor qkv, bool inverse);
/* Update the residual from x to sum = x + delta and write its norm, of either kind, to
 * out; rstd keeps what the backward pass needs. */
void model_norm(const struct pass *pass, const struct norm *norm, struct op_rmsnorm op);
/* Return the rows of the learned positions, or of their gradients, from position 0 on;
 * absent without them. */
struct tensor model_positions(const struct model *model, bool gradients);
/* Return the weight of a norm: ones if it has no parameters. */
struct tensor model_norm_weight(const struct pass *pass, const struct norm *norm);
/* Return the offset added to RMSNorm weights: 1 in Gemma. */
float model_norm_offset(const struct model *model);
/* Return the operands of the activation in their buffer: gate (absent without one) and
 * up. */
struct tensor model_gate(const struct pass *pass, size_t layer);
struct tensor model_up(const struct pass *pass, size_t layer);
/* Return the columns that the MLP of a block has in a buffer of activations. */
struct tensor model_activation_of(const struct pass *pass, enum buffer buffer,
                                  size_t layer);
/* Multiply the input of the activation, or its gradient, by its factor. */
void model_scale_gate(const struct pass *pass, size_t layer);
/* Return the factor of what attention, or the MLP, adds to the residual. */
double model_added_factor(const struct pass *pass, bool attention);
struct xielu model_slopes(const struct block *block);
/* Apply the activation to them, into BUFFER_ACT. */
struct tensor model_activate(const struct pass *pass, size_t layer);
/* The backward pass of the layer down and of the activation: from the gradient of what the
 * MLP adds to those of gate and up, over them.  false: nothing before it is trained. */
bool model_down_backward(const struct pass *pass, size_t layer, struct tensor dy,
                         bool goes_on);

/* model_blocks.c.  Return the index in `slots` of a parameter, and that parameter; NULL: it
 * does not exist. */
size_t model_slot(enum module module, enum part part, size_t layer);
struct parameter *model_find(const struct model *m, enum module module, enum part part,
                             size_t layer);
/* Return the operand of a matmul. */
struct tensor model_matmul_operand(const struct parameter *p);
struct norm model_norm_of(const struct model *m, enum module module, size_t layer);
/* Return the layer that computes the layers' own inputs, whose parameters are placed. */
struct linear_stack model_input_layer(const struct model *m);
/* Return the head of a reward model, whose parameters are placed. */
struct linear model_score_layer(const struct model *m);
/* Set up a block, whose parameters are placed. */
void model_make_block(const struct model *m, size_t layer, struct block *out);

/* model_experts.c.  Compute what the experts of a block, and the MLP next to them, add to
 * the residual for their input, into `out`.  recompute: as in model_forward_block, and out
 * is not written. */
void model_experts_forward(const struct pass *pass, size_t layer, struct tensor h,
                           struct tensor out, bool recompute);
/* Choose the experts of rows h: the input of the router. */
void model_experts_route(const struct pass *pass, size_t layer, struct tensor h,
                         bool recompute);
/* Then run them alone on rows h, which their weights do not multiply; and back, from dy to
 * dh, unless that is absent. */
void model_experts_run(const struct pass *pass, size_t layer, struct tensor h,
                       struct tensor out);
void model_experts_run_backward(const struct pass *pass, size_t layer, struct tensor h,
                                struct tensor dy, struct tensor dh);
/* After that: the gradients of a router with learned factors (MODULE_EXPERT_SCALE) and of
 * its input. */
void model_experts_route_backward(const struct pass *pass, size_t layer, struct tensor h,
                                  struct tensor dh);
/* model_branches.c.  Compute the sum of the outputs of a block's MLP and experts for h, the
 * input of the MLP, if all of them have norms of their own; and back, from the gradient of
 * what is added to the residual.  false: nothing further down is trained. */
void model_branches_forward(const struct pass *pass, size_t layer, struct tensor h,
                            bool recompute);
bool model_branches_backward(const struct pass *pass, size_t layer);
/* model_inputs.c.  After the embeddings: compute the layers' own inputs; and the gradients of
 * what computes them. */
void model_inputs_prepare(const struct pass *pass);
void model_inputs_embed_backward(const struct pass *pass);
/* From the output of the MLP, delta, to the next one that is added to the residual, over it.
 * And back from the gradient of the residual, in place; false: nothing further down is
 * trained. */
void model_inputs_forward(const struct pass *pass, size_t layer, struct tensor delta);
bool model_inputs_backward(const struct pass *pass, size_t layer);
/* Multiply their input, or its gradient, by the noise that the model has in training. */
void model_experts_jitter(const struct pass *pass, size_t layer, struct tensor x);
/* From dy, the gradient of what they add, with room for folded adapters after it, to dh,
 * that of their input, unless that is absent. */
void model_experts_backward(const struct pass *pass, size_t layer, struct tensor h,
                            struct tensor dy, struct tensor dh);
/* Zero what the forward pass of a micro-batch counts for the load balancing loss, if there
 * is one. */
void model_experts_begin(const struct pass *pass);
/* Before the forward pass of an evaluation: say that rows after these pad the batch. */
void model_experts_expect_rows(const struct pass *pass, uint64_t rows);
/* After it: start to download what it has counted, to window 0. */
void model_experts_download(const struct pass *pass);
/* Return the load balancing loss of a micro-batch, times its coefficient, of what it has
 * counted, on the host; 0: there is none. */
double model_experts_loss(const struct model *model, const float *counts,
                          const float *sums);
/* The sum of those of a window, in the unit of its other sums, which are divided by the
 * trained tokens. */
double model_experts_window_loss(const struct model *model, const struct window *window);
/* Run the backward pass from the classifier's dx down to the first trained sublayer, from
 * recordings if there are any.  Reduces gradients across ranks on the way. */
void model_backward(const struct pass *pass);

#endif
