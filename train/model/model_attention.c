/* train/model/model_attention.c - queries, keys and values from the first layers of a block to
 * attention, and its gradient back to them. */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"

struct tensor model_queries(const struct pass *pass, struct tensor qkv)
{
    const struct model_config *c = pass->model->config;

    return tensor_columns(qkv, 0, c->heads * c->head_size);
}

struct tensor model_keys(const struct pass *pass, struct tensor qkv)
{
    const struct model_config *c = pass->model->config;

    size_t q = c->heads * c->head_size, kv = c->kv_heads * c->head_size;

    if (c->architecture->gated_attention && qkv.cols > q + kv) /* not after their norms */
        q *= 2;
    return tensor_columns(qkv, q, kv);
}

static void rotate_heads(const struct pass *pass, size_t layer, struct tensor x,
                         bool inverse)
{
    const struct model_config *c = pass->model->config;
    const struct op_rope op = {
        .x = x,
        .table = pass_buffer(pass, pass->model->blocks[layer].rope, 0),
        .positions = pass_buffer(pass, BUFFER_POSITIONS, 0).data,
        .heads = x.cols / c->head_size,
        .rotary = c->rotary,
        .interleaved = c->architecture->rotary_interleaved,
        .inverse = inverse,
    };

    pass->ops->rope(pass->be, &op);
}

/* Unless there is a gate between them, q and k are adjacent: one call rotates both. */
void model_rotate(const struct pass *pass, size_t layer, struct tensor qkv, bool inverse)
{
    const struct model_config *c = pass->model->config;
    struct tensor q = model_queries(pass, qkv), k = model_keys(pass, qkv);

    if (!pass->model->blocks[layer].rotates)
        return;
    if (k.data != tensor_columns(qkv, q.cols, k.cols).data) {
        rotate_heads(pass, layer, q, inverse);
        rotate_heads(pass, layer, k, inverse);
        return;
    }
    rotate_heads(pass, layer,
                 tensor_columns(qkv, 0, (c->heads + c->kv_heads) * c->head_size),
                 inverse);
}

static void head_norm(const struct pass *pass, const struct norm *norm, struct tensor x,
                      struct tensor out, struct tensor rstd)
{
    pass->ops->headnorm(
        pass->be, &(struct op_headnorm) { .out = out,
                                          .rstd = rstd,
                                          .x = x,
                                          .weight = model_norm_weight(pass, norm),
                                          .eps = (float)pass->model->config->norm_eps,
                                          .offset = model_norm_offset(pass->model),
                                          .heads = rstd.cols });
}

bool model_has_qk_norms(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];

    return b->q_norm.weight ||
           (pass->model->config->architecture->bare_qk_norms && b->rotates);
}

/* Return where q and k are after their norms; absent: they have none. */
static struct tensor normed_qk(const struct pass *pass, size_t layer)
{
    return model_has_qk_norms(pass, layer) ? pass_buffer(pass, BUFFER_QK, layer)
                                           : (struct tensor) { 0 };
}

/* Prepare q and k for attention: in place, or next to the inputs of their norms. */
static void prepare_qk(const struct pass *pass, size_t layer, struct tensor qkv)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor qk = normed_qk(pass, layer);
    bool last = !pass->model->config->architecture->qk_norms_after_rope;

    if (!last)
        model_rotate(pass, layer, qkv, false);
    if (qk.data) {
        head_norm(pass, &b->q_norm, model_queries(pass, qkv), model_queries(pass, qk),
                  pass_buffer(pass, BUFFER_RSTD_Q, layer));
        head_norm(pass, &b->k_norm, model_keys(pass, qkv), model_keys(pass, qk),
                  pass_buffer(pass, BUFFER_RSTD_K, layer));
    }
    if (last)
        model_rotate(pass, layer, qk.data ? qk : qkv, false);
}

static struct attention_dropout attention_dropout(const struct pass *pass, size_t layer)
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

    return (struct op_attention) {
        .dropout = attention_dropout(pass, layer),
        .out = tensor_columns(pass_buffer(pass, BUFFER_ATT, layer), 0, of.q.cols),
        .lse = pass_buffer(pass, BUFFER_LSE, layer),
        .q = of.q,
        .k = of.k,
        .v = of.v,
        .offsets = pass_buffer(pass, BUFFER_OFFSETS, 0).data,
        .sequences = pass->sequences,
        .longest = pass->longest,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_size = c->head_size,
        .window = b->window,
        .scale = b->scale,
        .softcap = (float)c->score_softcap,
    };
}

struct op_attention model_attention_op(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    struct tensor qk = normed_qk(pass, layer);
    size_t q = c->heads * c->head_size, kv = c->kv_heads * c->head_size;
    size_t gate = c->architecture->gated_attention ? q : 0;

    if (!qk.data)
        qk = qkv;
    if (model_config_is_latent(c))
        return attention_of(pass, layer, model_latent_heads(pass, BUFFER_HEADS, layer));
    return attention_of(
        pass, layer,
        (struct attention_heads) { .q = model_queries(pass, qk),
                                   .k = model_keys(pass, qk),
                                   .v = tensor_columns(qkv, q + gate + kv, kv) });
}

void model_prepare_heads(const struct pass *pass, size_t layer)
{
    if (model_config_is_latent(pass->model->config))
        model_run_latent(pass, layer);
    else
        prepare_qk(pass, layer, pass_buffer(pass, BUFFER_QKV, layer));
}

static void head_norm_backward(const struct pass *pass, const struct norm *norm,
                               struct tensor d, struct tensor x, struct tensor rstd)
{
    pass->ops->headnorm_backward(
        pass->be,
        &(struct op_headnorm_backward) { .dx = d,
                                         .dweight = norm->weight ? norm->weight->grad
                                                                 : (struct tensor) { 0 },
                                         .dout = d,
                                         .x = x,
                                         .weight = model_norm_weight(pass, norm),
                                         .rstd = rstd,
                                         .offset = model_norm_offset(pass->model),
                                         .heads = rstd.cols });
}

/* Back through the rotation and the norms of q and k, in place. */
static void prepare_qk_backward(const struct pass *pass, size_t layer, struct tensor dqkv)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);

    bool rotated_first = pass->model->config->architecture->qk_norms_after_rope;

    if (!rotated_first)
        model_rotate(pass, layer, dqkv, true);
    if (model_has_qk_norms(pass, layer)) {
        head_norm_backward(pass, &b->q_norm, model_queries(pass, dqkv),
                           model_queries(pass, qkv),
                           pass_buffer(pass, BUFFER_RSTD_Q, layer));
        head_norm_backward(pass, &b->k_norm, model_keys(pass, dqkv),
                           model_keys(pass, qkv),
                           pass_buffer(pass, BUFFER_RSTD_K, layer));
    }
    if (rotated_first)
        model_rotate(pass, layer, dqkv, true);
}

/* Return the gradients of q, k and v: of whole heads, or in those of the first layers. */
static struct attention_heads heads_gradient(const struct pass *pass, struct tensor dqkv)
{
    const struct model_config *c = pass->model->config;
    size_t q = c->heads * c->head_size, kv = c->kv_heads * c->head_size;
    size_t gate = c->architecture->gated_attention ? q : 0;

    if (model_config_is_latent(c))
        return model_latent_heads(pass, BUFFER_DHEADS, 0);
    return (struct attention_heads) { .q = model_queries(pass, dqkv),
                                      .k = model_keys(pass, dqkv),
                                      .v = tensor_columns(dqkv, q + gate + kv, kv) };
}

void model_attention_backward(const struct pass *pass, size_t layer, struct tensor datt)
{
    struct tensor dqkv = pass_buffer(pass, BUFFER_DQKV, 0);
    const struct attention_heads d = heads_gradient(pass, dqkv);
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
    if (model_config_is_latent(pass->model->config))
        model_latent_backward(pass, layer);
    else
        prepare_qk_backward(pass, layer, dqkv);
}
