/* train/model/model_forward.c - from tokens to losses; model_internal.h has the
 * formulas. */
#include "config.h"

#include "train/model/model.h"

#include <assert.h>
#include <math.h>

#include "train/model/model_cross.h"
#include "train/model/model_exchange.h"
#include "train/model/model_linear.h"
#include "train/model/model_loss.h"
#include "train/model/model_mixers.h"

static const int32_t *pass_ids(const struct pass *pass, enum buffer buffer)
{
    return pass_buffer(pass, buffer, 0).data;
}

float model_norm_offset(const struct model *model)
{
    enum norm_kind norm = model->config->architecture->norm;

    return norm == NORM_RMS_1 || norm == NORM_LAYER_1 ? 1 : 0;
}

struct tensor model_norm_weight(const struct pass *pass, const struct norm *norm)
{
    return norm->weight ? norm->weight->weight : pass_buffer(pass, BUFFER_ONES, 0);
}

static struct tensor weight_of(const struct parameter *p)
{
    return p ? p->weight : (struct tensor) { 0 };
}

/* Where there is no norm, the next matmuls read the residual itself. */
static void copy_residual(const struct pass *pass, const struct op_rmsnorm *op)
{
    if (op->delta.data)
        pass->ops->add(pass->be, &(struct op_add) { op->sum, op->x, op->delta });
    pass->ops->convert(
        pass->be,
        &(struct op_convert) { .out = op->out, .x = op->delta.data ? op->sum : op->x });
}

void model_norm(const struct pass *pass, const struct norm *norm, struct op_rmsnorm op)
{
    const struct model_config *c = pass->model->config;

    if (!norm->weight && c->architecture->norm != NORM_LAYER_BARE) {
        copy_residual(pass, &op);
        return;
    }
    op.weight = model_norm_weight(pass, norm);
    op.eps = (float)c->norm_eps;
    op.offset = model_norm_offset(pass->model);
    if (!norm_is_centered(c->architecture->norm)) {
        pass->ops->rmsnorm(pass->be, &op);
        return;
    }
    pass->ops->layernorm(pass->be, &(struct op_layernorm) { .out = op.out,
                                                            .sum = op.sum,
                                                            .stats = op.rstd,
                                                            .x = op.x,
                                                            .delta = op.delta,
                                                            .weight = op.weight,
                                                            .bias = weight_of(norm->bias),
                                                            .eps = op.eps,
                                                            .offset = op.offset });
}

/* Return what the next norm adds to the residual. */
static struct tensor residual_delta(const struct pass *pass)
{
    struct tensor post = pass_buffer(pass, BUFFER_DELTA_POST, 0);

    return post.data ? post : pass_buffer(pass, BUFFER_DELTA, 0);
}

/* Return the residual after a block, except for the last delta. */
static struct tensor residual_after_block(const struct pass *pass, size_t layer)
{
    struct tensor mid = pass_buffer(pass, BUFFER_X_MID, layer);

    return mid.data ? mid : pass_buffer(pass, BUFFER_X_IN, layer);
}

/* Return the block that a block continues from, which is not the first. */
static size_t block_below(const struct pass *pass, size_t layer)
{
    while (model_cross_skips(pass, --layer))
        ;
    return layer;
}

/* Return where the residual after a block goes if the next norm does not add it up. */
static struct tensor residual_next(const struct pass *pass, size_t layer)
{
    return layer + 1 == pass->model->config->layers
               ? pass_buffer(pass, BUFFER_X_LAST, 0)
               : pass_buffer(pass, BUFFER_X_IN, layer + 1);
}

/* The residual already contains other terms: apply dropout to the new one before the
 * addition. */
static void add_with_dropout(const struct pass *pass, const struct linear_stack *l,
                             size_t layer, struct tensor x, struct tensor out, float beta)
{
    bool first = l == &pass->model->blocks[layer].o;
    uint32_t stream = dropout_stream(layer, first ? DROP_RESIDUAL_O : DROP_RESIDUAL_DOWN);
    struct tensor to = out;

    if (beta > 0)
        to = tensor_columns(pass_buffer(pass, BUFFER_DROPPED, 0), 0, out.cols);
    stack_forward(pass, l, layer, x, to, 0);
    pass_dropout(pass, pass_residual_dropout(pass, first), stream, to, to);
    if (beta > 0)
        pass->ops->add(pass->be, &(struct op_add) { .out = out, .a = out, .b = to });
}

double model_added_factor(const struct pass *pass, bool attention)
{
    const struct model_config *c = pass->model->config;

    return c->residual_scale * (attention ? 1 : c->down_factor);
}

/* Normalize what attention, or the MLP, adds to the residual. */
static void post_norm(const struct pass *pass, size_t layer, bool first)
{
    const struct block *b = &pass->model->blocks[layer];

    model_norm(pass, first ? &b->post1 : &b->post2,
               (struct op_rmsnorm) {
                   .out = residual_delta(pass),
                   .x = pass_buffer(pass, first ? BUFFER_POST1 : BUFFER_POST2, layer),
                   .rstd = pass_buffer(
                       pass, first ? BUFFER_RSTD_POST1 : BUFFER_RSTD_POST2, layer) });
}

/* Run layer o or down, and its dropout or norm if there is one, and write what is added
 * to the residual.  beta 1: in addition to the delta that is already there. */
static void add_to_residual(const struct pass *pass, const struct linear_stack *l,
                            size_t layer, struct tensor x, float beta)
{
    bool first = l == &pass->model->blocks[layer].o;
    struct tensor to = pass_buffer(pass, first ? BUFFER_POST1 : BUFFER_POST2, layer);
    struct tensor out = residual_delta(pass);

    if (pass->model->blocks[layer].crosses) {
        to = pass_buffer(pass, first ? BUFFER_CROSS_ATT : BUFFER_CROSS_MLP, layer);
        stack_forward(pass, l, layer, x, to, 0);
        model_cross_gate(pass, layer, first, to, out);
        return;
    }
    if (pass_uses_dropout(pass, pass_residual_dropout(pass, first))) {
        assert(!to.data);
        add_with_dropout(pass, l, layer, x, out, beta);
        return;
    }
    if (!to.data) {
        stack_forward(pass, l, layer, x, out, beta);
        pass_scale(pass, model_added_factor(pass, first), out, out);
        return;
    }
    stack_forward(pass, l, layer, x, to, 0);
    post_norm(pass, layer, first);
}

/* Return whether the first norm adds the position embeddings to the token embeddings.
 * Dropout needs their sum. */
static bool adds_positions(const struct pass *pass)
{
    const struct model *m = pass->model;

    return m->positions && !pass_uses_dropout(pass, m->config->embed_dropout);
}

/* A state space model, and attention next to it if the block has both. */
static void forward_scan(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    struct tensor delta = residual_delta(pass);
    bool attends = !model_config_is_linear(m->config, layer);

    if (attends) {
        model_prepare_heads(pass, layer);
        model_run_attention(pass, layer);
        stack_forward(pass, &b->o, layer, model_gate_attention(pass, layer), delta, 0);
    }
    model_run_scan(pass, layer);
    stack_forward(pass, &b->scan_out, layer, model_scan_output(pass, layer), delta,
                  attends);
    pass_scale(pass, m->config->residual_scale, delta, delta);
}

static void forward_attention(const struct pass *pass, size_t layer, bool recompute)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    struct tensor x_in = pass_buffer(pass, BUFFER_X_IN, layer);
    struct tensor h1 = pass_buffer(pass, BUFFER_H1, layer);
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    struct tensor att;
    bool below;
    struct op_rmsnorm norm1 = { .out = h1, .sum = x_in, .x = x_in };

    norm1.rstd = pass_buffer(pass, BUFFER_RSTD1, layer);
    /* this norm adds the delta of the block below, unless that had a factor after it */
    below = layer > 0 && !m->blocks[layer - 1].factor;
    if (below && !recompute)
        norm1.x = residual_after_block(pass, block_below(pass, layer));
    if ((below || (layer == 0 && adds_positions(pass))) && !recompute)
        norm1.delta = residual_delta(pass);
    model_norm(pass, &b->norm1, norm1);
    stack_forward(pass, &b->qkv, layer, h1, qkv, 0);
    model_scale_inputs(pass, qkv);
    if (model_config_scans(m->config, layer)) {
        forward_scan(pass, layer);
        return;
    }
    if (b->crosses) {
        model_cross_run(pass, layer);
    } else if (model_config_has_delta(m->config, layer)) {
        model_run_delta(pass, layer);
    } else if (model_config_has_conv(m->config, layer)) {
        model_run_conv(pass, layer);
    } else {
        model_prepare_heads(pass, layer);
        model_run_attention(pass, layer);
    }
    att = model_gate_attention(pass, layer);
    if (recompute && m->config->parallel)
        stack_recompute(pass, &b->o, layer, att);
    else
        add_to_residual(pass, &b->o, layer, att, 0);
}

/* Return the size of the MLP of a block, or of that next to its experts. */
static size_t mlp_size(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;

    return pass->model->blocks[layer].sparse ? c->shared_size
                                             : model_config_mlp_of(c, layer);
}

struct tensor model_activation_of(const struct pass *pass, enum buffer buffer,
                                  size_t layer)
{
    struct tensor whole = pass_buffer(pass, buffer, layer);

    return whole.data ? tensor_columns(whole, 0, mlp_size(pass, layer)) : whole;
}

struct tensor model_gate(const struct pass *pass, size_t layer)
{
    size_t cols = mlp_size(pass, layer);
    struct tensor gate_up = pass_buffer(pass, BUFFER_GATE_UP, layer);

    if (!architecture_is_gated(pass->model->config->architecture))
        return (struct tensor) { 0 };
    return tensor_columns(gate_up, 0, cols);
}

struct tensor model_up(const struct pass *pass, size_t layer)
{
    size_t cols = mlp_size(pass, layer);
    struct tensor gate_up = pass_buffer(pass, BUFFER_GATE_UP, layer);
    bool gated = architecture_is_gated(pass->model->config->architecture);

    return tensor_columns(gate_up, gated ? cols : 0, cols);
}

struct xielu model_slopes(const struct block *b)
{
    return (struct xielu) { b->alpha_p->weight, b->alpha_n->weight, b->beta->weight,
                            b->eps->weight };
}

void model_scale_gate(const struct pass *pass, size_t layer)
{
    double factor = pass->model->config->gate_factor;
    struct tensor gate = model_gate(pass, layer);

    if (factor != 1)
        pass_scale(pass, factor, gate, gate);
}

struct tensor model_activate(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor gate = model_gate(pass, layer), up = model_up(pass, layer);
    struct tensor act = model_activation_of(pass, BUFFER_ACT, layer);
    struct rounded_matrix rounded = pass_rounded_input(pass, &b->down.base[0], false);
    enum activation kind = pass->model->config->activation;

    if (b->alpha_p)
        pass->ops->xielu(
            pass->be, &(struct op_xielu) { .out = act, .x = up, .by = model_slopes(b) });
    else if (gate.data)
        pass->ops->swiglu(pass->be,
                          &(struct op_swiglu) { .out = act,
                                                .gate = gate,
                                                .up = up,
                                                .kind = kind,
                                                .largest = pass_largest(rounded) });
    else
        pass->ops->activation(
            pass->be, &(struct op_activation) { .out = act, .x = up, .kind = kind });
    return act;
}

/* Return the input of the MLP. */
static struct tensor forward_norm2(const struct pass *pass, size_t layer)
{
    struct tensor x_mid = pass_buffer(pass, BUFFER_X_MID, layer);
    struct op_rmsnorm norm2 = { .out = pass_buffer(pass, BUFFER_H2, layer),
                                .sum = x_mid,
                                .x = pass_buffer(pass, BUFFER_X_IN, layer),
                                .rstd = pass_buffer(pass, BUFFER_RSTD2, layer) };

    if (pass->model->config->one_norm)
        return pass_buffer(pass, BUFFER_H1, layer);
    if (x_mid.data)
        norm2.delta = residual_delta(pass);
    model_norm(pass, &pass->model->blocks[layer].norm2, norm2);
    return norm2.out;
}

static void forward_mlp(const struct pass *pass, size_t layer, bool recompute)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor x_mid = pass_buffer(pass, BUFFER_X_MID, layer);
    struct tensor h2 = forward_norm2(pass, layer), act, delta = residual_delta(pass);
    struct tensor gate_up = pass_buffer(pass, BUFFER_GATE_UP, layer);
    const bool needs_output = b->post2.weight || b->crosses; /* for its gradient */

    if (b->expert_post.weight) {
        model_branches_forward(pass, layer, h2, recompute);
        post_norm(pass, layer, false);
        return;
    }
    if (b->sparse) {
        model_experts_jitter(pass, layer, h2);
        model_experts_forward(pass, layer, h2, delta, recompute);
        if (!recompute)
            pass_scale(pass, pass->model->config->residual_scale, delta, delta);
        return;
    }
    stack_forward(pass, &b->gate_up, layer, h2, gate_up, 0);
    model_scale_gate(pass, layer);
    if (recompute && !needs_output && b->down.lora_a_count == 0)
        return; /* the backward pass computes the activation with its gradient */
    act = model_activate(pass, layer);
    if (recompute && !needs_output)
        stack_recompute(pass, &b->down, layer, act);
    else
        add_to_residual(pass, &b->down, layer, act, x_mid.data ? 0 : 1);
}

void model_forward_block(const struct pass *pass, size_t layer, bool recompute)
{
    forward_attention(pass, layer, recompute);
    forward_mlp(pass, layer, recompute);
    if (pass->model->blocks[layer].input_gate.base_count == 0)
        return;
    if (!recompute) /* the delta that apply_factor adds is another one */
        pass->ops->add(pass->be,
                       &(struct op_add) { .out = residual_next(pass, layer),
                                          .a = residual_after_block(pass, layer),
                                          .b = residual_delta(pass) });
    model_inputs_forward(pass, layer, residual_delta(pass));
}

struct tensor model_positions(const struct model *model, bool gradients)
{
    const struct parameter *p = model->positions;
    size_t offset = model->config->architecture->position_offset;
    struct tensor whole = { 0 };

    if (p)
        whole = gradients ? p->grad : p->weight;
    return whole.data ? tensor_rows(whole, offset, whole.rows - offset) : whole;
}

/* NEFTune: only in training.  transformers adds it to the output of the embedding layer,
 * which is scaled in Gemma, but not yet in models whose factor is a setting. */
static void add_noise(const struct pass *pass, struct tensor x)
{
    const struct model *m = pass->model;
    bool scaled = m->config->architecture->embed_scaled || m->embed_scale == 0;

    if (pass->training && m->plan->neftune_alpha > 0 && !pass->second)
        pass->ops->noise(pass->be,
                         &(struct op_noise) { .x = x,
                                              .factor = scaled ? 1 : m->embed_scale,
                                              .seed = (uint64_t)m->plan->seed,
                                              .magnitude = &pass->scalars->noise,
                                              .draw = &pass->scalars->draw,
                                              .rows = &pass->scalars->rows });
}

/* Look up the tokens' embeddings, and those of their positions. */
static void embed(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct tensor x_in = pass_buffer(pass, BUFFER_X_IN, 0), x = x_in;
    struct tensor delta = pass_buffer(pass, BUFFER_DELTA, 0);

    if (m->embed_norm.weight)
        x = pass_buffer(pass, BUFFER_EMBEDDED, 0);
    pass->ops->embedding(pass->be,
                         &(struct op_embedding) { .out = x,
                                                  .table = m->embed_weight,
                                                  .tokens = pass_ids(pass, BUFFER_TOKENS),
                                                  .scale = m->embed_scale });
    if (m->positions)
        pass->ops->embedding(pass->be, &(struct op_embedding) {
                                           .out = delta,
                                           .table = model_positions(m, false),
                                           .tokens = pass_ids(pass, BUFFER_POSITIONS) });
    add_noise(pass, x);
    model_media_embed(pass, x);
    if (m->embed_norm.weight)
        model_norm(
            pass, &m->embed_norm,
            (struct op_rmsnorm) {
                .out = x_in, .x = x, .rstd = pass_buffer(pass, BUFFER_RSTD_EMBED, 0) });
    if (!pass_uses_dropout(pass, m->config->embed_dropout))
        return;
    if (m->positions)
        pass->ops->add(pass->be, &(struct op_add) { .out = x, .a = x, .b = delta });
    pass_dropout(pass, m->config->embed_dropout, dropout_stream(0, DROP_EMBED), x, x);
}

/* Multiply the residual after a block, with its delta, by the block's factor. */
static void apply_factor(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    const bool has_input = b->input_gate.base_count > 0;
    struct tensor out = residual_next(pass, layer);

    pass->ops->add(pass->be, &(struct op_add) {
                                 .out = out,
                                 .a = has_input ? out : residual_after_block(pass, layer),
                                 .b = residual_delta(pass) });
    pass->ops->scale(pass->be,
                     &(struct op_scale) {
                         .out = out, .x = out, .factor = 1, .by = b->factor->weight });
}

/* Run a block, with what comes before the first and after the last. */
static void forward_level(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    size_t last = m->config->layers - 1;
    struct op_rmsnorm norm = { .out = pass_buffer(pass, BUFFER_H_LAST, 0),
                               .sum = pass_buffer(pass, BUFFER_X_LAST, 0),
                               .rstd = pass_buffer(pass, BUFFER_RSTD, 0) };
    struct tensor h;

    if (layer == 0) {
        embed(pass);
        model_inputs_prepare(pass);
        model_experts_begin(pass);
    }
    model_fill_window(pass, layer);
    heartbeat_tick(m->heartbeat);
    if (!model_cross_skips(pass, layer)) {
        model_forward_block(pass, layer, false);
        model_media_add(pass, layer, residual_delta(pass));
    }
    if (m->blocks[layer].factor)
        apply_factor(pass, layer);
    if (layer < last)
        return;
    norm.x = norm.sum;
    if (!m->blocks[layer].factor) {
        norm.x = residual_after_block(pass, block_below(pass, layer + 1));
        norm.delta = residual_delta(pass);
    }
    model_norm(pass, &m->norm, norm);
    h = pass_buffer(pass, BUFFER_H_LAST, 0);
    pass_scale(pass, pass_logit_scale(pass), h, h); /* so it scales the logits */
}

void model_forward(const struct pass *pass)
{
    if (pass->announced)
        model_announce(pass->model);
    for (size_t l = 0; l < pass->model->config->layers; l++) {
        model_use_block(pass->model, l, l + 1);
        forward_level(pass, l);
    }
}

/* Recordings do not contain what is gathered: there is one for each block. */
static void run_sharded(const struct pass *pass)
{
    size_t layers = pass->model->config->layers;

    if (pass->teacher)
        model_run_forward(pass->teacher);
    if (pass->announced)
        model_announce(pass->model);
    for (size_t l = 0; l < layers; l++) {
        model_use_block(pass->model, l, l + 1);
        if (!pass_begin_levels(pass, 0, l))
            continue;
        forward_level(pass, l);
        pass_end(pass);
    }
}

void model_run_forward(const struct pass *pass)
{
    if (pass->model->shapes.shards_blocks) {
        run_sharded(pass);
        return;
    }
    if (!pass_begin(pass))
        return;
    if (pass->teacher)
        model_forward(pass->teacher);
    model_forward(pass);
    pass_end(pass);
}

/* Return a chunk's rows of V elements, which may have gaps between them. */
static struct tensor vocabulary_columns(const struct pass *pass, enum buffer buffer)
{
    struct tensor rows = pass_buffer(pass, buffer, 0);

    return rows.data ? tensor_columns(rows, 0, pass->model->config->vocab_size) : rows;
}

struct op_classifier model_classifier_op(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct tensor x = pass_buffer(pass, BUFFER_H_LAST, 0);
    struct tensor dh = pass_buffer(pass, BUFFER_DH, 0);
    struct tensor logits = vocabulary_columns(pass, BUFFER_LOGITS);
    struct tensor dlogits = vocabulary_columns(pass, BUFFER_DLOGITS);
    struct op_classifier op = {
        .losses = tensor_rows(pass_buffer(pass, BUFFER_LOSSES, 0), 0, 1),
        .x = x,
        .w = pass_weight(pass, m->head_weight),
        .bias = pass_head_bias(pass),
        .logits = logits,
        .dlogits = dlogits.data ? dlogits : logits,
        .gathered = pass_buffer(pass, BUFFER_GATHERED, 0),
        .dgathered = pass_buffer(pass, BUFFER_DGATHERED, 0),
        .targets = pass_ids(pass, BUFFER_TARGETS),
        .weights = pass->weighted ? pass_buffer(pass, BUFFER_WEIGHTS, 0).data : NULL,
        .rows = pass_buffer(pass, BUFFER_LABELED_ROWS, 0).data,
        .labeled = pass->labeled,
        .grad_scale = (float)(1 + m->plan->anchor),
        .softcap = (float)m->config->logit_softcap,
        .smoothing = (float)m->plan->label_smoothing,
        .kind = m->plan->token_loss,
        .alpha = (float)m->plan->eaft_alpha,
    };

    if (pass->training) {
        op.scale = &pass->scalars->grad_scale;
        op.dx = tensor_of(dh.data, dh.format, x.rows, x.cols);
        op.dw = m->head->grad;
        if (m->head_bias)
            op.dbias = m->head_bias->grad;
    } else {
        op.hits = pass_buffer(pass, BUFFER_CORRECT, 0).data;
    }
    return op;
}

void model_classifier_loss(const struct pass *pass)
{
    const struct op_classifier op = model_classifier_op(pass);

    pass->ops->classifier(pass->be, &op);
}
