/* train/model/model_backward.c - from the loss down to the first trained sublayer. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_mixers.h"

static void zero(const struct pass *pass, struct tensor out)
{
    if (out.data)
        pass->ops->zero(pass->be, &(struct op_zero) { .out = out });
}

/* Return whether the gradients of the embeddings come after those of the head, in the same
 * lane. */
static bool shares_root_lane(const struct model *m)
{
    return m->shapes.shards_gradients && m->head != m->embed;
}

static void zero_embeddings(const struct pass *pass)
{
    zero(pass, pass->model->embed->grad);
    if (pass->model->positions)
        zero(pass, pass->model->positions->grad);
}

/* Zero the gradients that are only ever added to: those of vectors, which are contiguous,
 * and those that the classifier and the lookup write.  Gradients of linear layers are
 * overwritten. */
static void zero_gradients(const struct pass *pass)
{
    const struct model *m = pass->model;
    size_t vectors = m->shapes.vector_elements;

    if (!shares_root_lane(m))
        zero_embeddings(pass);
    if (m->head != m->embed)
        zero(pass, m->head->grad);
    if (vectors > 0)
        zero(pass, tensor_of(m->gradients + m->shapes.lanes[LANE_TAIL] +
                                 (m->shapes.vectors_start - m->shapes.matrices_end),
                             FORMAT_FP32, 1, vectors));
}

/* Return the first C columns of a buffer, without the folded adapters. */
static struct tensor residual_columns(const struct pass *pass, enum buffer buffer)
{
    struct tensor whole = pass_buffer(pass, buffer, 0);

    return whole.data ? tensor_columns(whole, 0, pass->model->config->hidden_size)
                      : whole;
}

/* Return the gradient of the residual as matmuls read it: the copy in the compute format,
 * with room for folded adapters after it. */
static struct tensor residual_gradient(const struct pass *pass)
{
    struct tensor copy = pass_buffer(pass, BUFFER_DX_COPY, 0);

    return copy.data ? copy : pass_buffer(pass, BUFFER_DX, 0);
}

static struct tensor grad_of(const struct parameter *p)
{
    return p ? p->grad : (struct tensor) { 0 };
}

static void copy_residual_backward(const struct pass *pass,
                                   const struct op_rmsnorm_backward *op)
{
    pass->ops->add(pass->be, &(struct op_add) { op->dx, op->dx, op->dout });
    if (op->dcopy.data)
        pass->ops->convert(pass->be,
                           &(struct op_convert) { .out = op->dcopy, .x = op->dx });
}

/* Backward pass of either kind of norm, or of none: dx += ..., and its copy. */
static void apply_norm_backward(const struct pass *pass, const struct norm *norm,
                                struct op_rmsnorm_backward op)
{
    const struct architecture *a = pass->model->config->architecture;

    if (!norm->weight && a->norm != NORM_LAYER_BARE) {
        copy_residual_backward(pass, &op);
        return;
    }
    op.weight = model_norm_weight(pass, norm);
    op.dweight = grad_of(norm->weight);
    op.offset = model_norm_offset(pass->model);
    if (!norm_is_centered(a->norm)) {
        pass->ops->rmsnorm_backward(pass->be, &op);
        return;
    }
    pass->ops->layernorm_backward(
        pass->be, &(struct op_layernorm_backward) { .dx = op.dx,
                                                    .dcopy = op.dcopy,
                                                    .dweight = op.dweight,
                                                    .dbias = grad_of(norm->bias),
                                                    .dout = op.dout,
                                                    .x = op.x,
                                                    .weight = op.weight,
                                                    .stats = op.rstd,
                                                    .offset = op.offset });
}

/* A norm with its operands. */
struct norm_place {
    const struct norm *norm;
    struct tensor x, rstd, h; /* h: output */
    bool kept;                /* h is still there from the forward pass */
};

/* Add the gradient of a norm to the gradient of the residual. */
static void residual_norm_backward(const struct pass *pass, const struct norm_place *at,
                                   struct tensor dout)
{
    apply_norm_backward(
        pass, at->norm,
        (struct op_rmsnorm_backward) { .dx = residual_columns(pass, BUFFER_DX),
                                       .dcopy = residual_columns(pass, BUFFER_DX_COPY),
                                       .dout = dout,
                                       .x = at->x,
                                       .rstd = at->rstd });
}

/* Return the gradient of the residual after the dropout of what layer o, or down, adds to
 * it, with room for folded adapters after it.  A probability of 0 only converts it. */
static struct tensor gradient_through_dropout(const struct pass *pass, size_t layer,
                                              bool o)
{
    enum dropout_site site = o ? DROP_RESIDUAL_O : DROP_RESIDUAL_DOWN;
    struct tensor dx = residual_columns(pass, BUFFER_DX);
    struct tensor whole = pass_buffer(pass, BUFFER_DROPPED, 0);

    pass_dropout(pass, pass_residual_dropout(pass, o), dropout_stream(layer, site), dx,
                 tensor_columns(whole, 0, dx.cols));
    return whole;
}

static struct tensor scaled_gradient(const struct pass *pass, double factor)
{
    struct tensor dx = residual_columns(pass, BUFFER_DX);
    struct tensor whole = pass_buffer(pass, BUFFER_DROPPED, 0);

    pass_scale(pass, factor, dx, tensor_columns(whole, 0, dx.cols));
    return whole;
}

/* Return the gradient of the output of layer o, or down: that of the residual, through
 * the dropout, the factor or the norm of what is added to it. */
static struct tensor delta_gradient(const struct pass *pass, size_t layer, bool o)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct norm *post = o ? &b->post1 : &b->post2;
    struct tensor copy = pass_buffer(pass, BUFFER_DPOST_COPY, 0);
    struct op_rmsnorm_backward op = {
        .dx = residual_columns(pass, BUFFER_DPOST),
        .dcopy = residual_columns(pass, BUFFER_DPOST_COPY),
        .dout = residual_gradient(pass),
        .x = pass_buffer(pass, o ? BUFFER_POST1 : BUFFER_POST2, layer),
        .rstd = pass_buffer(pass, o ? BUFFER_RSTD_POST1 : BUFFER_RSTD_POST2, layer),
    };

    if (pass_uses_dropout(pass, pass->model->config->residual_dropout))
        return gradient_through_dropout(pass, layer, o);
    /* then the other has no room for folded adapters */
    if (!post->weight &&
        (model_added_factor(pass, true) != 1 || model_added_factor(pass, false) != 1))
        return scaled_gradient(pass, model_added_factor(pass, o));
    if (!post->weight)
        return residual_gradient(pass);
    zero(pass, op.dx);
    apply_norm_backward(pass, post, op);
    return copy.data ? copy : pass_buffer(pass, BUFFER_DPOST, 0);
}

/* Return the buffer for the gradient of the output of a norm or of attention; absent if
 * no sublayer below is trained. */
static struct tensor output_gradient(const struct pass *pass, size_t cols, size_t index)
{
    struct tensor wide = pass_buffer(pass, BUFFER_DH, 0);

    if (index <= pass->model->first_trained)
        return (struct tensor) { 0 };
    return tensor_of(wide.data, wide.format, wide.rows, cols);
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

/* Return the norm before a stack. */
static struct norm_place norm_before(const struct pass *pass, enum stack stack,
                                     size_t layer)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    bool first = stack == STACK_QKV || m->config->one_norm;
    struct tensor x_mid = pass_buffer(pass, BUFFER_X_MID, layer);

    return (struct norm_place) {
        .norm = first ? &b->norm1 : &b->norm2,
        .x = first || !x_mid.data ? pass_buffer(pass, BUFFER_X_IN, layer) : x_mid,
        .rstd = pass_buffer(pass, first ? BUFFER_RSTD1 : BUFFER_RSTD2, layer),
        .h = pass_buffer(pass, first ? BUFFER_H1 : BUFFER_H2, layer),
        .kept =
            m->shapes.keeps[first ? STACK_QKV : STACK_GATE_UP] || m->shapes.checkpointing,
    };
}

/* The weight gradient of trained layers needs their input.  Unless it was kept, the norm
 * recomputes it to the same bits; after block recomputation it is still in the buffer. */
static struct tensor norm_output(const struct pass *pass, const struct norm_place *at,
                                 bool trained)
{
    if (trained && !at->kept)
        model_norm(pass, at->norm,
                   (struct op_rmsnorm) {
                       .out = at->h, .sum = at->x, .x = at->x, .rstd = at->rstd });
    return at->h;
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
    if (linear)
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
           c->full_head_size == 0;
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
    /* the buffers still hold the last block, even with checkpointing */
    if (m->shapes.checkpointing && layer + 1 < m->config->layers)
        model_forward_block(&again, layer, true);
    factor_backward(pass, layer);
    if (m->blocks[layer].sparse)
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
        zero_embeddings(pass);
    if (pass_uses_dropout(pass, m->config->embed_dropout))
        pass_dropout(pass, m->config->embed_dropout, dropout_stream(0, DROP_EMBED),
                     residual_columns(pass, BUFFER_DX),
                     residual_columns(pass, BUFFER_DX));
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

    model_begin_reductions(m);
    model_reduce_to_level(m, from);
    while (from > lowest) {
        size_t to = piece_end(m, from, lowest);

        model_free_lane(m, to);
        use_level(m, to, lowest);
        if (pass)
            levels_backward(pass, from, to);
        model_reduce_to_level(m, to);
        from = to;
    }
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
