/* train/model/model_attention.c - queries, keys and values from the first layers of a block to
 * attention, and its gradient back to them. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"

struct tensor model_queries(const struct pass *pass, size_t layer, struct tensor qkv)
{
    return tensor_columns(qkv, 0, model_config_queries(pass->model->config, layer));
}

struct tensor model_keys(const struct pass *pass, size_t layer, struct tensor qkv)
{
    const struct model_config *c = pass->model->config;
    size_t q = model_config_queries(c, layer), kv = model_config_keys(c, layer);

    if (c->architecture->gated_attention && qkv.cols > q + kv) /* not after their norms */
        q *= 2;
    return tensor_columns(qkv, q, kv);
}

struct tensor model_values(const struct pass *pass, size_t layer, struct tensor qkv)
{
    const struct model_config *c = pass->model->config;
    size_t q = model_config_queries(c, layer), kv = model_config_keys(c, layer);

    return tensor_columns(qkv, (c->architecture->gated_attention ? 2 : 1) * q + kv, kv);
}

struct tensor model_values_before_norm(const struct pass *pass, size_t layer,
                                       struct tensor qkv)
{
    const struct model_config *c = pass->model->config;

    return c->shares_values && model_config_is_wide(c, layer)
               ? model_keys(pass, layer, qkv)
               : model_values(pass, layer, qkv);
}

static void rotate_heads(const struct pass *pass, size_t layer, struct tensor x,
                         bool inverse)
{
    const struct model_config *c = pass->model->config;
    const struct op_rope op = {
        .x = x,
        .table = pass_buffer(
            pass, model_media_angles(pass, pass->model->blocks[layer].rope), 0),
        .positions = pass_buffer(pass, model_media_positions(pass), 0).data,
        .heads = x.cols / model_config_head_size(c, layer),
        .rotary = model_config_rotary(c, layer),
        .interleaved = c->architecture->rotary_interleaved,
        .inverse = inverse,
    };

    pass->ops->rope(pass->be, &op);
}

/* Unless there is a gate between them, q and k are adjacent: one call rotates both. */
void model_rotate(const struct pass *pass, size_t layer, struct tensor qkv, bool inverse)
{
    struct tensor q = model_queries(pass, layer, qkv), k = model_keys(pass, layer, qkv);

    if (!pass->model->blocks[layer].rotates)
        return;
    if (pass->model->blocks[layer].borrows_keys) {
        rotate_heads(pass, layer, q, inverse);
        return;
    }
    if (k.data != tensor_columns(qkv, q.cols, k.cols).data) {
        rotate_heads(pass, layer, q, inverse);
        rotate_heads(pass, layer, k, inverse);
        return;
    }
    rotate_heads(pass, layer, tensor_columns(qkv, 0, q.cols + k.cols), inverse);
}

/* Multiply queries, or their gradients, by the scales of their positions: a rotation by 0
 * of pairs of columns, with that factor. */
static void scale_queries(const struct pass *pass, size_t layer, struct tensor q)
{
    if (!pass->model->blocks[layer].scales_queries)
        return;
    pass->ops->rope(
        pass->be,
        &(struct op_rope) { .x = q,
                            .table = pass_buffer(pass, BUFFER_QUERY_SCALES, 0),
                            .positions = pass_buffer(pass, BUFFER_POSITIONS, 0).data,
                            .heads = q.cols / 2 });
}

void model_upload_chunks(const struct pass *pass, const int32_t *offsets)
{
    struct model *m = pass->model;
    size_t chunk = m->config->attention_chunk, count = 0, chunks;

    if (chunk == 0)
        return;
    chunks = model_config_chunks(m->config, pass->rows, pass->sequences);
    for (size_t i = 0; i < pass->sequences; i++)
        for (size_t row = (size_t)offsets[i]; row < (size_t)offsets[i + 1]; row += chunk)
            m->chunk_starts[count++] = (int32_t)row;
    while (count <= chunks) /* the last ones are empty */
        m->chunk_starts[count++] = offsets[pass->sequences];
    pass->ops->upload(pass->be, pass_buffer(pass, BUFFER_CHUNK_STARTS, 0).data,
                      m->chunk_starts, count * sizeof(*m->chunk_starts));
}

/* Attention within chunks is that of more and shorter sequences. */
static void divide_sequences(const struct pass *pass, size_t layer,
                             struct op_attention *op)
{
    size_t chunk = pass->model->blocks[layer].chunk;

    if (chunk == 0)
        return;
    op->offsets = pass_buffer(pass, BUFFER_CHUNK_STARTS, 0).data;
    op->sequences = model_config_chunks(pass->model->config, pass->rows, pass->sequences);
    if (op->longest == 0 || op->longest > chunk)
        op->longest = chunk;
}

/* Operands of a norm of heads; weights, biases and their gradients have a row for each head, or
 * one for all. */
struct head_norm {
    struct tensor weight, grad, bias, dbias, stats;
    size_t heads;
    float offset;
};

/* The parameters of heads with one each follow each other: their rows are those of the first. */
static struct tensor of_all_heads(struct tensor first, size_t heads, size_t size)
{
    return first.data ? tensor_of(first.data, first.format, heads, size) : first;
}

/* Return those of q or k of a block, or, NULL, of v. */
static struct head_norm head_norm_of(const struct pass *pass, size_t layer,
                                     const struct norm *norm)
{
    const struct model_config *c = pass->model->config;
    const struct block *b = &pass->model->blocks[layer];
    enum buffer buffer = norm == &b->q_norm   ? BUFFER_RSTD_Q
                         : norm == &b->k_norm ? BUFFER_RSTD_K
                                              : BUFFER_RSTD_VALUES;
    size_t heads = buffer == BUFFER_RSTD_Q ? c->heads : model_config_kv_heads(c, layer);
    size_t size = model_config_head_size(c, layer);
    struct head_norm out = { .stats = pass_buffer(pass, buffer, layer),
                             .heads = c->architecture->whole_qk_norms ? 1 : heads };

    if (!norm || !norm->weight) {
        out.weight = tensor_columns(pass_buffer(pass, BUFFER_ONES, 0), 0, size);
    } else {
        out.weight = norm->weight->weight;
        out.grad = norm->weight->grad;
        out.offset = model_norm_offset(pass->model);
    }
    if (norm && norm->bias) {
        out.bias = norm->bias->weight;
        out.dbias = norm->bias->grad;
    }
    if (c->architecture->qk_norms_by_head) {
        out.weight = of_all_heads(out.weight, heads, size);
        out.grad = of_all_heads(out.grad, heads, size);
    }
    if (!c->architecture->whole_qk_norms)
        out.stats = tensor_columns(
            out.stats, 0, norm_is_centered(c->architecture->norm) ? 2 * heads : heads);
    return out;
}

static void head_norm(const struct pass *pass, size_t layer, const struct norm *norm,
                      struct tensor x, struct tensor out)
{
    const struct model_config *c = pass->model->config;
    const struct head_norm n = head_norm_of(pass, layer, norm);

    if (norm_is_centered(c->architecture->norm))
        pass->ops->headlayer(pass->be, &(struct op_headlayer) { .out = out,
                                                                .stats = n.stats,
                                                                .x = x,
                                                                .weight = n.weight,
                                                                .bias = n.bias,
                                                                .eps = (float)c->norm_eps,
                                                                .heads = n.heads });
    else
        pass->ops->headnorm(pass->be, &(struct op_headnorm) { .out = out,
                                                              .rstd = n.stats,
                                                              .x = x,
                                                              .weight = n.weight,
                                                              .eps = (float)c->norm_eps,
                                                              .offset = n.offset,
                                                              .heads = n.heads });
}

static bool has_qk_norms(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];

    return b->q_norm.weight ||
           (pass->model->config->architecture->bare_qk_norms && b->rotates);
}

/* Return where q and k are after their norms or limits; absent: they have none. */
static struct tensor normed_qk(const struct pass *pass, size_t layer)
{
    return has_qk_norms(pass, layer) || pass->model->config->qkv_limit > 0
               ? pass_buffer(pass, BUFFER_QK, layer)
               : (struct tensor) { 0 };
}

static void norm_qk(const struct pass *pass, size_t layer, struct tensor qkv,
                    struct tensor qk)
{
    const struct block *b = &pass->model->blocks[layer];

    head_norm(pass, layer, &b->q_norm, model_queries(pass, layer, qkv),
              model_queries(pass, layer, qk));
    if (!b->borrows_keys)
        head_norm(pass, layer, &b->k_norm, model_keys(pass, layer, qkv),
                  model_keys(pass, layer, qk));
}

/* Limit q and k, after their norms if they have them, and v. */
static void clip(const struct pass *pass, size_t layer, struct tensor qkv,
                 struct tensor qk)
{
    const struct model_config *c = pass->model->config;
    size_t cols = model_config_queries(c, layer) + model_config_keys(c, layer);
    const struct tensor to = tensor_columns(qk, 0, cols);
    const struct tensor from =
        has_qk_norms(pass, layer) ? to : tensor_columns(qkv, 0, cols);

    pass->ops->clip(pass->be, &(struct op_clip) { to, from, (float)c->qkv_limit });
    pass->ops->clip(pass->be, &(struct op_clip) { model_values(pass, layer, qk),
                                                  model_values(pass, layer, qkv),
                                                  (float)c->qkv_limit });
}

/* Return the keys and values that other layers read, or their gradients. */
static struct attention_heads shared_keys(const struct pass *pass, enum buffer buffer,
                                          size_t layer)
{
    const size_t cols = model_config_keys(pass->model->config, layer);
    struct tensor both = pass_buffer(pass, buffer, layer);

    return (struct attention_heads) { .k = tensor_columns(both, 0, cols),
                                      .v = tensor_columns(both, cols, cols) };
}

/* With checkpointing, the buffers of a block do not last until the other layers read them. */
static void lend_keys(const struct pass *pass, size_t layer, struct tensor qk)
{
    const struct attention_heads to = shared_keys(pass, BUFFER_SHARED_KEYS, layer);

    pass->ops->convert(
        pass->be, &(struct op_convert) { .out = to.k, .x = model_keys(pass, layer, qk) });
    pass->ops->convert(pass->be, &(struct op_convert) {
                                     .out = to.v, .x = model_values(pass, layer, qk) });
}

/* Prepare q and k for attention: in place, or next to the inputs of their norms. */
static void prepare_qk(const struct pass *pass, size_t layer, struct tensor qkv)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor qk = normed_qk(pass, layer);
    bool last = !pass->model->config->architecture->qk_norms_after_rope;

    if (!last)
        model_rotate(pass, layer, qkv, false);
    if (has_qk_norms(pass, layer))
        norm_qk(pass, layer, qkv, qk);
    if (pass->model->config->architecture->value_norms && !b->borrows_keys)
        head_norm(pass, layer, NULL, model_values_before_norm(pass, layer, qkv),
                  model_values(pass, layer, qk));
    if (pass->model->config->qkv_limit > 0)
        clip(pass, layer, qkv, qk);
    if (last)
        model_rotate(pass, layer, qk.data ? qk : qkv, false);
    scale_queries(pass, layer, model_queries(pass, layer, qk.data ? qk : qkv));
    if (b->lends_keys)
        lend_keys(pass, layer, qk);
}

struct attention_dropout model_attention_dropout(const struct pass *pass, size_t layer)
{
    double p = pass->model->config->attention_dropout;

    return (struct attention_dropout) {
        .p = pass_uses_dropout(pass, p) ? (float)p : 0,
        .stream = dropout_stream(layer, DROP_ATTENTION),
        .seed = (uint64_t)pass->model->plan->seed,
        .draw = &pass->scalars->draw,
    };
}

static struct op_attention attention_of(const struct pass *pass, size_t layer,
                                        struct attention_heads of)
{
    const struct model_config *c = pass->model->config;
    const struct block *b = &pass->model->blocks[layer];
    struct op_attention op = {
        .dropout = model_attention_dropout(pass, layer),
        .out = tensor_columns(pass_buffer(pass, BUFFER_ATT, layer), 0, of.q.cols),
        .lse = pass_buffer(pass, BUFFER_LSE, layer),
        .q = of.q,
        .k = of.k,
        .v = of.v,
        .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
        .sequences = pass->sequences,
        .longest = pass->longest,
        .heads = c->heads,
        .kv_heads = model_config_kv_heads(c, layer),
        .head_size = model_config_head_size(c, layer),
        .window = b->window,
        .scale = b->scale,
        .softcap = (float)c->score_softcap,
        .slopes = { .most = (float)c->alibi, .factor = c->alibi > 0 ? 1 : 0 },
    };

    divide_sequences(pass, layer, &op);
    model_media_see(pass, &op);
    return op;
}

struct op_attention model_attention_op(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    struct tensor qk = normed_qk(pass, layer);
    struct attention_heads heads;

    if (!qk.data)
        qk = qkv;
    if (model_config_is_latent(c))
        return attention_of(pass, layer, model_latent_heads(pass, BUFFER_HEADS, layer));
    if (pass->model->blocks[layer].borrows_keys) {
        heads = shared_keys(pass, BUFFER_SHARED_KEYS, layer);
        heads.q = model_queries(pass, layer, qk);
        return attention_of(pass, layer, heads);
    }
    return attention_of(
        pass, layer,
        (struct attention_heads) {
            .q = model_queries(pass, layer, qk),
            .k = model_keys(pass, layer, qk),
            .v = model_values(pass, layer, model_config_copies_values(c) ? qk : qkv) });
}

void model_prepare_heads(const struct pass *pass, size_t layer)
{
    if (model_config_is_latent(pass->model->config)) {
        model_run_latent(pass, layer);
        scale_queries(pass, layer, model_latent_heads(pass, BUFFER_HEADS, layer).q);
    } else {
        prepare_qk(pass, layer, pass_buffer(pass, BUFFER_QKV, layer));
    }
}

static void head_norm_backward(const struct pass *pass, size_t layer,
                               const struct norm *norm, struct tensor d, struct tensor x)
{
    const struct head_norm n = head_norm_of(pass, layer, norm);

    if (norm_is_centered(pass->model->config->architecture->norm))
        pass->ops->headlayer_backward(
            pass->be, &(struct op_headlayer_backward) { .dx = d,
                                                        .dweight = n.grad,
                                                        .dbias = n.dbias,
                                                        .dout = d,
                                                        .x = x,
                                                        .weight = n.weight,
                                                        .stats = n.stats,
                                                        .heads = n.heads });
    else
        pass->ops->headnorm_backward(pass->be,
                                     &(struct op_headnorm_backward) { .dx = d,
                                                                      .dweight = n.grad,
                                                                      .dout = d,
                                                                      .x = x,
                                                                      .weight = n.weight,
                                                                      .rstd = n.stats,
                                                                      .offset = n.offset,
                                                                      .heads = n.heads });
}

/* The inputs of the limits are in qkv, or, after norms, are computed again where the limited
 * ones were, which attention no longer needs. */
static void clip_backward(const struct pass *pass, size_t layer, struct tensor dqkv)
{
    const struct model_config *c = pass->model->config;
    size_t cols = model_config_queries(c, layer) + model_config_keys(c, layer);
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    struct tensor qk = qkv, d = tensor_columns(dqkv, 0, cols);
    struct tensor dv = model_values(pass, layer, dqkv);

    if (has_qk_norms(pass, layer)) {
        qk = pass_buffer(pass, BUFFER_QK, layer);
        norm_qk(pass, layer, qkv, qk);
    }
    pass->ops->clip_backward(
        pass->be, &(struct op_clip_backward) { d, d, tensor_columns(qk, 0, cols),
                                               (float)c->qkv_limit });
    pass->ops->clip_backward(
        pass->be, &(struct op_clip_backward) { dv, dv, model_values(pass, layer, qkv),
                                               (float)c->qkv_limit });
}

/* Back through the norm of v.  Where v was k, its gradient is part of that of k. */
static void values_backward(const struct pass *pass, size_t layer, struct tensor dqkv)
{
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    struct tensor dv = model_values(pass, layer, dqkv);
    struct tensor to = model_values_before_norm(pass, layer, dqkv);

    head_norm_backward(pass, layer, NULL, dv, model_values_before_norm(pass, layer, qkv));
    if (to.data != dv.data)
        pass->ops->add(pass->be, &(struct op_add) { .out = to, .a = to, .b = dv });
}

/* Back through the rotation and the norms of q and k, in place. */
static void prepare_qk_backward(const struct pass *pass, size_t layer, struct tensor dqkv)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);

    bool rotated_first = pass->model->config->architecture->qk_norms_after_rope;

    scale_queries(pass, layer, model_queries(pass, layer, dqkv));
    if (!rotated_first)
        model_rotate(pass, layer, dqkv, true);
    if (pass->model->config->qkv_limit > 0)
        clip_backward(pass, layer, dqkv);
    if (has_qk_norms(pass, layer)) {
        head_norm_backward(pass, layer, &b->q_norm, model_queries(pass, layer, dqkv),
                           model_queries(pass, layer, qkv));
        if (!b->borrows_keys)
            head_norm_backward(pass, layer, &b->k_norm, model_keys(pass, layer, dqkv),
                               model_keys(pass, layer, qkv));
    }
    if (pass->model->config->architecture->value_norms && !b->borrows_keys)
        values_backward(pass, layer, dqkv);
    if (rotated_first)
        model_rotate(pass, layer, dqkv, true);
}

/* Return the gradients of q, k and v: of whole heads, or in those of the first layers. */
static struct attention_heads heads_gradient(const struct pass *pass, size_t layer,
                                             struct tensor dqkv)
{
    if (model_config_is_latent(pass->model->config))
        return model_latent_heads(pass, BUFFER_DHEADS, 0);
    return (struct attention_heads) { .q = model_queries(pass, layer, dqkv),
                                      .k = model_keys(pass, layer, dqkv),
                                      .v = model_values(pass, layer, dqkv) };
}

/* The gradients of keys and values that several layers read are summed in fp32, from the last of
 * these layers to the one that has them. */
static void share_gradients(const struct pass *pass, size_t layer,
                            const struct attention_heads *d)
{
    const struct block *b = &pass->model->blocks[layer];
    struct attention_heads sum;

    if (!b->borrows_keys && !b->lends_keys)
        return;
    sum = shared_keys(pass, BUFFER_DSHARED_KEYS, layer);
    if (b->lends_keys) {
        pass->ops->add(pass->be, &(struct op_add) { d->k, d->k, sum.k });
        pass->ops->add(pass->be, &(struct op_add) { d->v, d->v, sum.v });
    } else if (b->ends_keys) {
        pass->ops->convert(pass->be, &(struct op_convert) { .out = sum.k, .x = d->k });
        pass->ops->convert(pass->be, &(struct op_convert) { .out = sum.v, .x = d->v });
    } else {
        pass->ops->add(pass->be, &(struct op_add) { sum.k, sum.k, d->k });
        pass->ops->add(pass->be, &(struct op_add) { sum.v, sum.v, d->v });
    }
}

void model_attention_backward(const struct pass *pass, size_t layer, struct tensor datt)
{
    struct tensor dqkv = pass_buffer(pass, BUFFER_DQKV, 0);
    const struct attention_heads d = heads_gradient(pass, layer, dqkv);
    const struct op_attention_backward op = {
        .dq = d.q,
        .dk = d.k,
        .dv = d.v,
        .delta = pass_buffer(pass, BUFFER_DLSE, 0),
        .dout = datt,
        .forward = model_attention_op(pass, layer),
    };

    model_sink_backward(pass, layer, &op);
    pass->ops->attention_backward(pass->be, &op);
    share_gradients(pass, layer, &d);
    if (model_config_is_latent(pass->model->config)) {
        scale_queries(pass, layer, d.q);
        model_latent_backward(pass, layer);
    } else {
        prepare_qk_backward(pass, layer, dqkv);
    }
}
