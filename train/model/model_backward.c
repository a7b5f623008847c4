/* train/model/model_backward.c - from the loss down to the first trained sublayer. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_cross.h"
#include "train/model/model_exchange.h"
#include "train/model/model_linear.h"
#include "train/model/model_loss.h"
#include "train/model/model_mixers.h"
#include "train/model/model_residual.h"

static void zero(const struct pass *pass, struct tensor out)
{
    if (out.data)
        pass->ops->zero(pass->be, &(struct op_zero) { .out = out });
}

/* Return whether the gradients that are of no block come after those of the head, in the same
 * lane. */
static bool shares_root_lane(const struct model *m)
{
    return m->shapes.shards_gradients && m->head != m->embed;
}

/* Zero what the lookup and an encoder add to. */
static void zero_root(const struct pass *pass)
{
    const struct model *m = pass->model;

    zero(pass, m->embed->grad);
    if (m->positions)
        zero(pass, m->positions->grad);
    if (m->layer_embed)
        zero(pass, m->layer_embed->grad);
    for (size_t i = 0; m->shapes.trains_encoder && i < m->shapes.count; i++)
        if (m->shapes.parameters[i].module == MODULE_ENCODER && m->parameters[i].rank > 1)
            zero(pass, m->parameters[i].grad);
}

/* Zero the gradients that are only ever added to: those of vectors, which are contiguous,
 * and those that the classifier, the lookup and an encoder write.  Gradients of linear layers
 * are overwritten. */
static void zero_gradients(const struct pass *pass)
{
    const struct model *m = pass->model;
    size_t vectors = m->shapes.vector_elements;

    if (!shares_root_lane(m))
        zero_root(pass);
    if (m->head != m->embed)
        zero(pass, m->head->grad);
    if (vectors > 0)
        zero(pass, tensor_of(m->gradients + m->shapes.lanes[LANE_TAIL] +
                                 (m->shapes.vectors_start - m->shapes.matrices_end),
                             FORMAT_FP32, 1, vectors));
}

/* Gradients of the operands of the activation, over them.  The activation itself, which
 * the weight gradient of the layer down needs, overwrites dact unless it was kept; return
 * it. */
static struct tensor activation_backward(const struct pass *pass, size_t layer,
                                         struct tensor dact)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor gate = model_gate(pass, layer), up = model_up(pass, layer);
    struct tensor kept = model_activation_of(pass, BUFFER_ACT, layer), out = { 0 };
    enum activation kind = pass->model->config->activation;
    struct rounded_matrix rounded =
        pass_rounded_gradient(pass, &b->gate_up.base[0], false);

    if (kept.data == dact.data && b->down.trained)
        out = dact;
    if (b->alpha_p)
        pass->ops->xielu_backward(
            pass->be, &(struct op_xielu_backward) { .dx = up,
                                                    .out = out,
                                                    .dout = dact,
                                                    .x = up,
                                                    .dalpha_p = b->alpha_p->grad,
                                                    .dalpha_n = b->alpha_n->grad,
                                                    .by = model_slopes(b) });
    else if (gate.data)
        pass->ops->swiglu_backward(
            pass->be, &(struct op_swiglu_backward) { .dgate = gate,
                                                     .dup = up,
                                                     .out = out,
                                                     .dout = dact,
                                                     .gate = gate,
                                                     .up = up,
                                                     .kind = kind,
                                                     .largest = pass_largest(rounded) });
    else
        pass->ops->activation_backward(
            pass->be, &(struct op_activation_backward) {
                          .dx = up, .out = out, .dout = dact, .x = up, .kind = kind });
    model_scale_gate(pass, layer);
    return kept;
}

/* Return the input of the lowest trained layer, down. */
static struct tensor activation(const struct pass *pass, size_t layer)
{
    if (pass->model->shapes.keeps[STACK_DOWN])
        return model_activation_of(pass, BUFFER_ACT, layer);
    return model_activate(pass, layer);
}

bool model_down_backward(const struct pass *pass, size_t layer, struct tensor dy,
                         bool goes_on)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor dact = pass_buffer(pass, BUFFER_DACT, 0), act;

    dact = model_activation_of(pass, dact.data ? BUFFER_DACT : BUFFER_ACT, layer);
    if (!goes_on)
        dact = (struct tensor) { 0 };
    stack_backward_to_input(pass, &b->down, layer, dy, dact);
    act = dact.data ? activation_backward(pass, layer, dact) : activation(pass, layer);
    stack_backward_to_weights(pass, &b->down, act, dy, dact.data != NULL);
    return dact.data != NULL;
}

/*
 * Attention and MLP go backward in two steps each: first from the residual to the middle,
 * then from there to the norm, which adds to the gradient of the residual.  Both return
 * false if nothing further down is trained.
 */
static bool down_backward(const struct pass *pass, size_t layer)
{
    const bool goes_on =
        sublayer_index(layer, SUBLAYER_DOWN) > pass->model->first_trained;

    return model_down_backward(pass, layer, delta_gradient(pass, layer, false), goes_on);
}

/* The same for experts and the norm before them. */
static bool experts_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct norm_place norm = norm_before(pass, STACK_GATE_UP, layer);
    struct tensor h = norm_output(pass, &norm, true), dy, dh;

    if (!norm.kept)
        model_experts_jitter(pass, layer, h);
    dh = output_gradient(pass, m->config->hidden_size,
                         sublayer_index(layer, SUBLAYER_GATE_UP));
    dy = delta_gradient(pass, layer, false);
    model_experts_backward(pass, layer, h, dy, dh);
    if (!dh.data)
        return false;
    model_experts_jitter(pass, layer, dh);
    residual_norm_backward(pass, &norm, dh);
    return sublayer_index(layer, SUBLAYER_NORM2) > m->first_trained;
}

static bool gate_up_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    const struct norm_place norm = norm_before(pass, STACK_GATE_UP, layer);
    struct tensor h = norm_output(pass, &norm, b->gate_up.trained), dh;

    dh = output_gradient(pass, m->config->hidden_size,
                         sublayer_index(layer, SUBLAYER_GATE_UP));
    stack_backward(pass, &b->gate_up, layer, h, pass_buffer(pass, BUFFER_GATE_UP, layer),
                   dh);
    if (!dh.data)
        return false;
    residual_norm_backward(pass, &norm, dh);
    return sublayer_index(layer, SUBLAYER_NORM2) > m->first_trained;
}

/* The same for a state space model, and attention next to it if the block has both. */
static bool scan_backward(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    size_t index = sublayer_index(layer, SUBLAYER_O);
    struct tensor dy = delta_gradient(pass, layer, true), d;

    if (!model_config_is_linear(pass->model->config, layer)) {
        d = output_gradient(pass, b->o.base[0].in_count, index);
        stack_backward_to_input(pass, &b->o, layer, dy, d);
        stack_backward_to_weights(pass, &b->o, model_gate_attention(pass, layer), dy,
                                  d.data != NULL);
        if (d.data)
            model_attention_backward(pass, layer, model_gate_backward(pass, layer, d));
    }
    d = output_gradient(pass, b->scan_out.base[0].in_count, index);
    stack_backward_to_input(pass, &b->scan_out, layer, dy, d);
    stack_backward_to_weights(pass, &b->scan_out, model_scan_output(pass, layer), dy,
                              d.data != NULL);
    if (!d.data)
        return false;
    model_scan_backward(pass, layer, d);
    model_scale_inputs(pass, pass_buffer(pass, BUFFER_DQKV, 0));
    return true;
}

static bool o_backward(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    size_t cols = b->o.base[0].in_count;
    bool linear = model_config_has_delta(pass->model->config, layer);
    bool gated = linear || pass->model->config->architecture->gated_attention;
    struct tensor datt, dout = { 0 }, dy, x;

    if (model_config_scans(pass->model->config, layer))
        return scan_backward(pass, layer);

    datt = output_gradient(pass, cols, sublayer_index(layer, SUBLAYER_O));
    dy = delta_gradient(pass, layer, true);
    stack_backward_to_input(pass, &b->o, layer, dy, datt);
    if (datt.data)
        dout = model_gate_backward(pass, layer, datt);
    /* a gate's backward pass computed x again */
    x = gated && datt.data ? datt : model_gate_attention(pass, layer);
    stack_backward_to_weights(pass, &b->o, x, dy, datt.data != NULL);
    if (!datt.data)
        return false;
    if (b->crosses)
        model_cross_backward(pass, layer, dout);
    else if (linear)
        model_delta_backward(pass, layer, dout);
    else if (model_config_has_conv(pass->model->config, layer))
        model_conv_backward(pass, layer, dout);
    else
        model_attention_backward(pass, layer, dout);
    return true;
}

static void qkv_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    const struct norm_place norm = norm_before(pass, STACK_QKV, layer);
    bool done = m->config->one_norm && b->gate_up.trained; /* by gate_up_backward */
    struct tensor h = norm_output(pass, &norm, b->qkv.trained && !done), dh;

    dh = output_gradient(pass, m->config->hidden_size,
                         sublayer_index(layer, SUBLAYER_QKV));
    stack_backward(pass, &b->qkv, layer, h, pass_buffer(pass, BUFFER_DQKV, 0), dh);
    if (dh.data)
        residual_norm_backward(pass, &norm, dh);
}

/* Return whether the matrices of all blocks have the same shapes. */
static bool blocks_are_alike(const struct model_config *c)
{
    return (c->sparse_layers == 0 || c->sparse_layers == c->layers) && !c->linear &&
           !c->crosses && c->full_head_size == 0 && c->sharing_layers == 0;
}

/* The padding between gradients is zero.  In a lane, blocks whose matrices differ have it
 * at different positions. */
static void zero_lane(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct shapes *s = &m->shapes;
    size_t at = s->level_starts[layer + 1], end = s->level_starts[layer + 2];

    if (s->shards_gradients && end > at && !blocks_are_alike(m->config))
        zero(pass, tensor_of(m->gradients + s->lanes[shapes_lane(s, layer + 1)],
                             FORMAT_FP32, 1, end - at));
}

/* Back through the factor of the residual after a block. */
static void factor_backward(const struct pass *pass, size_t layer)
{
    const struct parameter *factor = pass->model->blocks[layer].factor;
    struct tensor dx = residual_columns(pass, BUFFER_DX);
    struct tensor copy = residual_columns(pass, BUFFER_DX_COPY);

    if (!factor)
        return;
    pass->ops->scale(
        pass->be,
        &(struct op_scale) { .out = dx, .x = dx, .factor = 1, .by = factor->weight });
    if (copy.data)
        pass->ops->convert(pass->be, &(struct op_convert) { .out = copy, .x = dx });
}

/* In a parallel block, both parts read the gradient of the residual before either adds to
 * it. */
static void block_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    struct pass again = *pass;
    bool below;

    again.fills = false;
    again.recomputes = true;
    zero_lane(pass, layer);
    model_fill_window(pass, layer);
    if (model_cross_skips(pass, layer)) {
        model_cross_skip_backward(pass, layer);
        return;
    }
    /* the buffers still hold the last block, even with checkpointing */
    if (m->shapes.checkpointing && layer + 1 < m->config->layers)
        model_forward_block(&again, layer, true);
    factor_backward(pass, layer);
    model_media_add_backward(pass, layer);
    if (m->blocks[layer].input_gate.base_count > 0 && !model_inputs_backward(pass, layer))
        return;
    if (m->blocks[layer].expert_post.weight)
        below = model_branches_backward(pass, layer) && o_backward(pass, layer);
    else if (m->blocks[layer].sparse)
        below = experts_backward(pass, layer) && o_backward(pass, layer);
    else
        below = down_backward(pass, layer);
    if (m->blocks[layer].sparse) {
        /* both parts are done */
    } else if (below && m->config->parallel) {
        below = o_backward(pass, layer);
        gate_up_backward(pass, layer);
    } else {
        below = below && gate_up_backward(pass, layer) && o_backward(pass, layer);
    }
    if (below)
        qkv_backward(pass, layer);
}

/* Return the gradient of the embeddings: that of the residual, or of the input of their
 * norm. */
static struct tensor embeddings_gradient(const struct pass *pass)
{
    struct tensor dx = residual_columns(pass, BUFFER_DX);
    struct op_rmsnorm_backward op = { .dx = pass_buffer(pass, BUFFER_DEMBED, 0),
                                      .dout = dx,
                                      .x = pass_buffer(pass, BUFFER_EMBEDDED, 0),
                                      .rstd = pass_buffer(pass, BUFFER_RSTD_EMBED, 0) };

    if (!pass->model->embed_norm.weight)
        return dx;
    zero(pass, op.dx);
    apply_norm_backward(pass, &pass->model->embed_norm, op);
    return op.dx;
}

static void embed_backward(const struct pass *pass)
{
    const struct model *m = pass->model;
    int64_t padding = m->config->padding; /* gets no gradient; -1: none */
    struct tensor dout = embeddings_gradient(pass);

    model_media_embed_backward(pass, dout);
    if (m->embed->trainable)
        pass->ops->embedding_backward(
            pass->be, &(struct op_embedding_backward) {
                          .dtable = m->embed->grad,
                          .dout = dout,
                          .tokens = pass_buffer(pass, BUFFER_TOKENS, 0).data,
                          .scale = m->embed_scale,
                          .padding = (int32_t)padding,
                          .padded = padding >= 0 });
    if (m->positions && m->positions->trainable)
        pass->ops->embedding_backward(
            pass->be, &(struct op_embedding_backward) {
                          .dtable = model_positions(m, true),
                          .dout = dout,
                          .tokens = pass_buffer(pass, BUFFER_POSITIONS, 0).data });
}

/* The gradient of the residual starts at the last norm. */
static void last_norm_backward(const struct pass *pass)
{
    const struct model *m = pass->model;
    size_t index = sublayer_index(m->config->layers, 0);
    const struct norm_place last = { .norm = &m->norm,
                                     .x = pass_buffer(pass, BUFFER_X_LAST, 0),
                                     .rstd = pass_buffer(pass, BUFFER_RSTD, 0) };
    struct tensor dh = output_gradient(pass, m->config->hidden_size, index + 1);

    zero(pass, residual_columns(pass, BUFFER_DX));
    if (dh.data)
        pass_scale(pass, pass_logit_scale(pass), dh, dh);
    residual_norm_backward(pass, &last, dh);
}

static void embeddings_backward(const struct pass *pass)
{
    const struct model *m = pass->model;

    if (shares_root_lane(m))
        zero_root(pass);
    if (pass_uses_dropout(pass, m->config->embed_dropout))
        pass_dropout(pass, m->config->embed_dropout, dropout_stream(0, DROP_EMBED),
                     residual_columns(pass, BUFFER_DX),
                     residual_columns(pass, BUFFER_DX));
    model_inputs_embed_backward(pass);
    embed_backward(pass);
}

/* Make the block of level `to`, the lowest of a piece, ready.  `lowest`: of all. */
static void use_level(struct model *m, size_t to, size_t lowest)
{
    if (to > 0 && to <= m->config->layers)
        model_use_block(m, to - 1, to > 1 && to > lowest ? to - 2 : SIZE_MAX);
}

/* Run from below level `from` down to level `to`, unless a recording was replayed. */
static void levels_backward(const struct pass *pass, size_t from, size_t to)
{
    size_t layers = pass->model->config->layers;

    if (!pass_begin_levels(pass, from, to))
        return;
    while (from-- > to) {
        heartbeat_tick(pass->model->heartbeat);
        pass->model->level = from;
        use_level(pass->model, from, from); /* in a piece of a level it is ready */
        if (from == 0)
            embeddings_backward(pass);
        else if (from <= layers)
            block_backward(pass, from - 1);
        else
            last_norm_backward(pass);
    }
    pass_end(pass);
}

/* Return the end of the piece that starts at level `from`.  The last norm is in the piece
 * of the last block. */
static size_t piece_end(const struct model *m, size_t from, size_t lowest)
{
    size_t to = model_next_reduction(m), layers = m->config->layers;

    to = to > lowest ? to : lowest;
    if (!m->shapes.shards_blocks)
        return to;
    from = from > layers ? layers : from - 1; /* of one block */
    return to > from ? to : from;
}

/* Recordings do not contain reductions across ranks: each recording ends where the next
 * reduction starts.  The gradient of the head is complete before.  pass NULL: this rank
 * has nothing to compute. */
static void backward_and_reduce(struct model *m, const struct pass *pass)
{
    size_t from = model_head_level(m), lowest = backward_level(m->first_trained);
    const bool late = pass && m->expects_late;

    model_begin_reductions(m);
    model_reduce_to_level(m, from);
    while (from > lowest) {
        size_t to = piece_end(m, from, lowest);

        model_free_lane(m, to);
        use_level(m, to, lowest);
        if (pass)
            levels_backward(pass, from, to);
        model_reduce_to_level(m, late && to == 0 ? 1 : to);
        from = to;
    }
    m->reduces_late = late;
    if (!late)
        model_reduce_remaining(m);
}

void model_follow_backward(struct model *m)
{
    backward_and_reduce(m, NULL);
}

void model_compute_loss(const struct pass *pass)
{
    pass->model->level = model_head_level(pass->model);
    if (pass->first)
        zero_gradients(pass);
    if (pass->model->plan->stage == STAGE_DISTILL)
        model_distill_loss(pass);
    else if (plan_prefers(pass->model->plan))
        model_preference_loss(pass);
    else if (pass->model->plan->stage == STAGE_GRPO)
        model_policy_loss(pass);
    else
        model_classifier_loss(pass);
}

void model_backward(const struct pass *pass)
{
    const struct model *m = pass->model;

    if (pass->reduces)
        backward_and_reduce(pass->model, pass);
    else
        levels_backward(pass, model_head_level(m), backward_level(m->first_trained));
}
