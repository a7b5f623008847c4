/*
 * train/model/model_parts.h - the inside of a model, for the files model*.c alone.
 *
 * A decoder block, with x the residual stream (fp32); what stands in brackets some
 * architectures have (train/model/architecture.h):
 *
 *     h1 = norm1(x_in)         qkv = h1 Wqkv^T [+ b] [, q and k through norms of heads],
 *                              [q and k rotated]
 *     a = attention Wo^T [+ b] [, norm]      x_mid = x_in + a
 *     h2 = norm2(x_mid)        gate, up = h2 Wgu^T [+ b], or up alone
 *     act = f(gate) up or f(up)
 *     d = act Wd^T [+ b] [, norm]            x_in of the next = x_mid + d
 *
 * In training a, d, the embeddings and attention's weights are dropped as the model asks.
 * In parallel there is no x_mid: h2 = norm2(x_in), x_in of the next = x_in + a + d.
 */
#ifndef TRAIN_MODEL_MODEL_PARTS_H
#define TRAIN_MODEL_MODEL_PARTS_H

#include "train/model/model.h"
#include "train/model/shapes.h"
#include "train/model/stored.h"

enum { LINEARS = 3, PARTS = PART_LORA_B + 1 };

/* What a block drops, DROPS numbers each: streams of random numbers that runs which go on
 * count on.  Of the adapters over one input, of attention's weights, of what is added. */
enum drop {
    DROP_EMBED = 0, /* of the first block's, as it is dropped once */
    DROP_QKV = 2,
    DROP_ATTENTION = 4,
    DROP_O = 5,
    DROP_ADDED_O = 6,
    DROP_GATE_UP = 7,
    DROP_DOWN = 9,
    DROP_ADDED_DOWN = 10,
    DROPS = 12
};

static inline uint32_t drop_stream(size_t layer, enum drop drop)
{
    return (uint32_t)(layer * DROPS + drop);
}

/*
 * Columns first .. first + outs of y from columns from .. from + ins of x: y = x W^T +
 * bias. Neighbours whose weights lie side by side are one product.
 */
struct product {
    struct tensor weight; /* what is multiplied: the working copy where there is one */
    const struct parameter *quantised[LINEARS]; /* what is widened into it first, */
    size_t widened;                             /* and how many */
    struct tensor grad;                         /* absent: frozen */
    struct tensor bias, bias_grad;
    size_t first, outs, from, ins;
    bool rounded; /* operands to 8 bits: forward both e4m3, gradients e5m2 */
};

/* Linear layers over one input, side by side in one output y, with their adapters. */
struct linears {
    struct product whole[LINEARS];  /* W */
    struct product into[LINEARS];   /* A: x to u */
    struct product out_of[LINEARS]; /* B: u to y */
    size_t wholes, intos, outs_of;
    struct product both;   /* [W; A], where folded: x to (y, u), and (dy, g) to dx */
    bool folded, beside;   /* beside: u lies behind y in y's buffer */
    size_t outs, adapters; /* columns of y, of u */
    enum buffer u;
    uint32_t stream; /* of the dropout */
    bool trains;
};

/* NULL: there is none. */
struct norm {
    struct parameter *weight, *bias;
};

struct block {
    struct norm norm1, norm2;
    struct norm q_norm, k_norm; /* of each head */
    struct norm post1, post2;   /* of what is added to the stream */
    struct linears qkv, o, gate_up, down;
    size_t window;
    enum buffer rope;
    float scale; /* of the scores */
};

/* Places in the order of the forward pass: where the backward pass may stop. */
enum site { SITE_NORM1, SITE_QKV, SITE_O, SITE_NORM2, SITE_GATE_UP, SITE_DOWN, SITES };

struct model {
    const struct plan *plan;
    const struct model_config *config;
    struct backend *be;
    struct arena *arena;
    struct shapes shapes;
    struct memory_use memory;

    char *memory_block, *buffers;
    char *moments[MOMENTS_MAX]; /* of this rank's shard */
    float *gradients;
    struct parameter *parameters; /* one for one with those of shapes */
    struct parameter **trained;   /* by where they lie */
    size_t trained_count;
    struct parameter **slots;       /* by layer, module and part; NULL: there is none */
    struct parameter *embed, *head; /* head is embed where tied */
    struct parameter *positions;    /* NULL: not learned */
    struct norm norm;               /* after the last block */
    struct tensor head_weight, embed_weight; /* as a product and a lookup read them */
    float embed_scale; /* what embeddings are multiplied by; 0: by nothing */
    struct block *blocks;
    size_t lowest; /* place of the first thing that is trained */

    struct batch rounded; /* where passes are recorded: model_pass.c */
    float *row_weights;   /* of it, where there are any */
    float *losses;        /* on the host, as in BUFFER_LOSSES */
    size_t *batches;      /* rows of each micro-batch since model_begin */
    size_t begun;         /* how many of them */
    float *hits;          /* on the host, of the batch evaluated last; or NULL */
    int32_t *places;      /* on the host, those of a prompt */

    /* of a distillation: borrowed; NULL: its logits come by file */
    struct model *teacher;
    size_t shared;    /* words that both have */
    size_t kept;      /* logits of a row that are kept; 0: all */
    float *kd_losses; /* on the host; NULL: no distillation */
    struct model_losses parts;

    /* of preferences: borrowed; NULL: the model without adapters */
    struct model *reference;
    float *pairs; /* on the host, as in BUFFER_PAIRS; NULL: no preferences */
    struct rewards rewards;

    size_t rank;
    size_t *starts;       /* model_find_starts */
    size_t expected;      /* micro-batches of this window and rank */
    size_t reduced;       /* gradients from here on have been added up, */
    size_t reduced_level; /* down to this level there is no other bucket that is full */
    model_fetch *fetch;   /* of moments that other ranks keep */
    const void *fetch_context;

    struct safetensors *files; /* of the base, kept while frozen weights may be saved */
    bool bare; /* they are of the model below the head: names lack architecture->base */
    struct safetensors
        *merged; /* an adapter that is part of the base: create_new_adapter */
    struct lora merged_lora;
};

/* One micro-batch on its way. */
struct pass {
    struct model *model;
    struct backend *be;
    const struct backend_ops *ops;
    size_t rows, sequences;
    size_t longest;  /* no run has more rows than this; 0: not told */
    size_t labelled; /* no more rows than this have a target; 0: none has */
    size_t pairs;    /* of preferences: the first 2 * pairs runs */
    bool training, first, weighted;
    bool reduces; /* the last of a window, and there are other ranks */
    bool plain;   /* without adapters */
    bool decodes; /* a new row for each sequence of the cache */
    bool fills;   /* the cache of `slot`, with the rows of the only sequence */
    size_t slot;
    const struct step_numbers *numbers; /* in the backend's memory */
    const struct batch *batch;          /* as it was sent to the device */
    const struct pass *teacher;         /* the same micro-batch; NULL: none */
};

/* The place of a site of a block; embedding 0, last norm and head behind the blocks. */
static inline size_t site_place(size_t layer, enum site site)
{
    return 1 + layer * SITES + site;
}

/* Levels, which the backward pass goes down: the head, the last norm, the blocks, l being
 * on level l + 1, and the embeddings on level 0. */
static inline size_t site_level(size_t place)
{
    return (place + SITES - 1) / SITES;
}

static inline size_t model_head_level(const struct model *model)
{
    return model->config->layers + 2;
}

/* A buffer with the rows of this batch; data NULL where there is none. */
struct tensor pass_buffer(const struct pass *pass, enum buffer buffer, size_t layer);
/* The weight of a product in the compute format (or in fp32, where products round it),
 * and a bias in fp32: converted into scratch where they are stored otherwise, so good
 * until the next one is asked for. */
struct tensor pass_weight(const struct pass *pass, struct tensor weight);
struct tensor pass_bias(const struct pass *pass, struct tensor bias);
/* The same of a product; what has 4 bits is widened for it. */
struct tensor pass_operand(const struct pass *pass, const struct product *product);
/* The input of adapters: x itself, or x after dropout in scratch. */
struct tensor pass_lora_input(const struct pass *pass, const struct linears *linears,
                              struct tensor x);
/* x A^T of a stack. */
struct tensor pass_u(const struct pass *pass, const struct linears *linears,
                     size_t layer);
/* out = x through dropout, or a gradient back through it. */
void pass_drop(const struct pass *pass, double p, uint32_t stream, struct tensor x,
               struct tensor out);
/* Whether this pass drops a share of p. */
static inline bool pass_drops(const struct pass *pass, double p)
{
    return pass->training && p > 0 && !pass->model->plan->disable_dropout;
}

/* Check a micro-batch and send it to the device. */
bool pass_open(struct model *model, const struct batch *batch, struct pass *out,
               struct error *err);
/*
 * May the operations of the way forward be issued, or have they been done from a
 * recording?  And those of the way back, from below level `from` down to level `to`?
 * What they depend on is in the key, all else is the same in every pass.  Head and loss,
 * which lie between the two, go by the number of labelled rows, too.
 */
bool pass_begin(const struct pass *pass);
bool pass_begin_levels(const struct pass *pass, size_t from, size_t to);
void pass_end(const struct pass *pass);
/* The logits of rows h of the last norm's output, on their way to the host; and once all
 * rows are: wait for them, and cap what the model caps. */
void pass_logits(const struct pass *pass, struct tensor h, float *out);
bool pass_finish_logits(const struct pass *pass, float *logits, size_t rows,
                        struct error *err);
/* Forward through all, without the head. */
void model_forward(const struct pass *pass);
/* Forward through one block; again: from its kept input, and only as far as the backward
 * pass needs. */
void model_forward_block(const struct pass *pass, size_t layer, bool again);
/* Attention of a block: over the batch, or over the cache; model_decode.c. */
void model_attend(const struct pass *pass, size_t layer);
/* The operands of a block's attention. */
struct op_attention model_attention(const struct pass *pass, size_t layer);
/* The columns of q and k, or of their gradients, in a buffer that has them first. */
struct tensor model_queries(const struct pass *pass, struct tensor qkv);
struct tensor model_keys(const struct pass *pass, struct tensor qkv);
/* The rotation of a block's q and k, or back of their gradients; they come first in
 * qkv. */
void model_rotate(const struct pass *pass, size_t layer, struct tensor qkv, bool inverse);
/* The stream goes from x to sum = x + delta; its norm, of either kind, to out; rstd holds
 * what the backward pass wants to know. */
void model_norm(const struct pass *pass, const struct norm *norm, struct op_rmsnorm op);
/* What is added to the weights of norms that are no layer norms: 1 in Gemma. */
float model_norm_offset(const struct model *model);
/* The operands of the activation: gate (absent without one) and up in their buffer. */
struct tensor model_gate(const struct pass *pass, size_t layer);
struct tensor model_up(const struct pass *pass, size_t layer);
/* What it makes of them, in BUFFER_ACT. */
struct tensor model_activate(const struct pass *pass, size_t layer);
/* Head and loss; dx into DH where training. */
void model_classify(const struct pass *pass);
/* What that is made of. */
struct op_classifier model_classifier(const struct pass *pass);
/* The same beside a teacher, which has gone forward: model_distill.c. */
void model_distill(const struct pass *pass);
/* model_preference.c.  Before the model goes forward: the losses of what preferences are
 * held against, if that is anything; what the model's last pass has left is lost. */
bool model_refer(const struct pass *pass, struct error *err);
/* After it: what the pairs come to and, where training, dx into DH. */
void model_prefer(const struct pass *pass);
/* On the host: add up what `count` pairs came to. */
void model_add_pairs(struct model *model, const float *pairs, size_t count,
                     double *loss_sum);
/* Of a training: what gradients begin with, then the one or the other. */
void model_learn(const struct pass *pass);
/* From the classifier's dx down to the lowest thing that is trained, from recordings
 * where there are some; adds up gradients on its way. */
void model_backward(const struct pass *pass);

/* model_shard.c: where the gradients of each level begin; add up those of `level` and
 * above, as far as buckets are full; and all that is left, before the next operation. */
void model_find_starts(struct model *model);
void model_reduce_down(struct model *model, size_t level);
void model_reduce_rest(struct model *model);
/* The next level that fills a bucket; 0 if none does. */
size_t model_next_sum(const struct model *model);

/* How files have a parameter, `item` bytes a number; a bias counts as a column. */
struct stored model_stored(const struct model *model, const struct parameter *p,
                           size_t item);
/* The tensor of a parameter in the base's files; NULL: there is none. */
const struct stored_tensor *model_find_stored(const struct model *model,
                                              const char *name);

/* model_fresh.c: numbers first .. first + count of a parameter, from the plan's seed; of
 * the base as transformers begins it, of an adapter as PEFT does. */
void model_fresh_weights(const struct model *model, size_t index, size_t first,
                         size_t count, float *out);
void model_fresh_adapter(const struct model *model, size_t index, size_t first,
                         size_t count, float *out);

/* model_quantised.c: widen a matrix of 4 bits into its copy. */
void model_widen(const struct model *model, const struct parameter *p);
/* Fill it from the base's files; values and packed have room for a span. */
bool model_quantise(struct model *model, struct parameter *p, float *values, void *packed,
                    struct error *err);

/* model_surplus.c: ERROR_DATA naming a tensor of the base's files that the model has no
 * use for. */
bool model_check_surplus(const struct model *model, struct error *err);

/* model_prequantised.c: fill it from files that have it in 4 bits, with the same bits. */
bool model_take_quantised(struct model *model, struct parameter *p, struct error *err);
/* The tensors that such files have beside a parameter: how many there are, and is it
 * one? */
size_t model_count_beside(const struct model *model, const struct parameter *p);
bool model_is_beside(const struct model *model, const struct parameter *p,
                     const struct stored_tensor *t);
/* ERROR_DATA with the reason where a tensor that is no part of the model is one of
 * weights in 8 bits or less; else true. */
bool model_refuse_bits(const struct model *model, const struct stored_tensor *t,
                       struct error *err);

/* Numbers that are converted at a time: a tensor is never held twice. */
#define MODEL_SPAN ((size_t)1 << 20)
/* Rows of a parameter that go into one span, at least 1 (of a quantised one whole
 * blocks); a span's numbers at most. */
size_t model_span_rows(const struct parameter *p);
size_t model_span_numbers(const struct model *model);
/* Rows `row` .. `row` + `rows` of a parameter of the base in fp32, as its files have
 * them. */
bool model_read(const struct model *model, const struct parameter *p, size_t row,
                size_t rows, float *out, struct error *err);
/* Frozen weights are what they would be if the model were loaded in precision.frozen. */
void model_round(const struct model *model, float *values, void *packed, size_t count);
/* The same as its files (and a merged adapter) or the seed have them. */
bool model_original(const struct model *model, size_t index, size_t row, size_t rows,
                    float *out, struct error *err);
/* out (rows, cols) += scale B A, B (rows, r), A (r, cols) */
void model_merge(float *out, size_t rows, size_t cols, const float *b, const float *a,
                 size_t rank, double scale);

#endif
