/*
 * train/model/model_latent.c - multi-head latent attention: from the latents to the heads, and
 * back; model_internal.h has the formulas.
 *
 * Attention itself is that of other models, over whole heads, which also are what
 * generation caches.
 */
#include "config.h"

#include "train/model/model_internal.h"
#include "train/model/model_linear.h"

/* The columns of the first stack's output, or its gradient: the latent of q, or q itself;
 * that of k and v; what the keys of all heads share. */
struct latent_inputs {
    struct tensor q, kv, shared;
};

static struct latent_inputs inputs_of(const struct pass *pass, enum buffer buffer,
                                      size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct latent_attention *l = &c->latent;
    size_t q = l->q_rank > 0 ? l->q_rank : latent_q_columns(c);
    struct tensor whole = pass_buffer(pass, buffer, layer);

    return (struct latent_inputs) {
        .q = tensor_columns(whole, 0, q),
        .kv = tensor_columns(whole, q, l->kv_rank),
        .shared = tensor_columns(whole, q + l->kv_rank, l->rotated),
    };
}

/* The latent of q, absent if it has none, and that of k and v, after their norms; and what
 * the next layers make of them: or the gradients. */
struct latent_parts {
    struct tensor q, kv;
};

static struct latent_parts parts_of(struct tensor whole, size_t q, size_t kv)
{
    return (struct latent_parts) {
        .q = q > 0 ? tensor_columns(whole, 0, q) : (struct tensor) { 0 },
        .kv = tensor_columns(whole, q, kv),
    };
}

static struct latent_parts latents_of(const struct pass *pass, enum buffer buffer,
                                      size_t layer)
{
    const struct latent_attention *l = &pass->model->config->latent;

    return parts_of(pass_buffer(pass, buffer, layer), l->q_rank, l->kv_rank);
}

/* q without a latent is where the first stack has put it, or its gradient. */
static struct latent_parts expanded_of(const struct pass *pass, struct tensor q)
{
    const struct model_config *c = pass->model->config;
    struct latent_parts parts =
        parts_of(pass_buffer(pass, BUFFER_EXPANDED, 0),
                 c->latent.q_rank > 0 ? latent_q_columns(c) : 0, latent_kv_columns(c));

    if (!parts.q.data)
        parts.q = q;
    return parts;
}

struct attention_heads model_latent_heads(const struct pass *pass, enum buffer buffer,
                                          size_t layer)
{
    const struct model_config *c = pass->model->config;
    struct tensor whole = pass_buffer(pass, buffer, layer);
    size_t cols = c->heads * c->head_size;

    return (struct attention_heads) { .q = tensor_columns(whole, 0, cols),
                                      .k = tensor_columns(whole, cols, cols),
                                      .v = tensor_columns(whole, 2 * cols, cols) };
}

static void normalize(const struct pass *pass, const struct norm *norm, struct tensor x,
                      struct tensor rstd, struct tensor out)
{
    pass->ops->headnorm(
        pass->be, &(struct op_headnorm) {
                      .out = out,
                      .rstd = rstd,
                      .x = x,
                      .weight = norm->weight->weight,
                      .eps = (float)pass->model->config->architecture->latent.norm_eps,
                      .heads = 1 });
}

void model_run_latent(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct block *b = &pass->model->blocks[layer];
    struct latent_inputs in = inputs_of(pass, BUFFER_QKV, layer);
    struct latent_parts latents = latents_of(pass, BUFFER_LATENTS, layer);
    struct latent_parts up = expanded_of(pass, in.q);
    struct attention_heads heads = model_latent_heads(pass, BUFFER_HEADS, layer);

    if (latents.q.data) {
        normalize(pass, &b->q_norm, in.q, pass_buffer(pass, BUFFER_RSTD_Q, layer),
                  latents.q);
        stack_forward(pass, &b->q_b, layer, latents.q, up.q, 0);
    }
    normalize(pass, &b->k_norm, in.kv, pass_buffer(pass, BUFFER_RSTD_K, layer),
              latents.kv);
    stack_forward(pass, &b->kv_b, layer, latents.kv, up.kv, 0);
    pass->ops->latent(
        pass->be,
        &(struct op_latent) { .q = heads.q,
                              .k = heads.k,
                              .v = heads.v,
                              .up_q = up.q,
                              .up_kv = up.kv,
                              .shared = in.shared,
                              .table = pass_buffer(pass, b->rope, 0),
                              .positions = pass_buffer(pass, BUFFER_POSITIONS, 0).data,
                              .heads = c->heads,
                              .interleaved = c->architecture->rotary_interleaved });
}

/* Return the output of attention, or its gradient, with other columns per head. */
static struct tensor pad(const struct pass *pass, enum buffer buffer, struct tensor x,
                         size_t head)
{
    size_t heads = pass->model->config->heads;
    struct tensor out = tensor_columns(pass_buffer(pass, buffer, 0), 0, heads * head);

    pass->ops->pad_heads(pass->be, &(struct op_pad_heads) { out, x, heads });
    return out;
}

struct tensor model_latent_output(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    struct tensor att =
        tensor_columns(pass_buffer(pass, BUFFER_ATT, layer), 0, c->heads * c->head_size);

    return c->latent.value == c->head_size
               ? att
               : pad(pass, BUFFER_GATED, att, c->latent.value);
}

struct tensor model_latent_output_backward(const struct pass *pass, struct tensor datt)
{
    const struct model_config *c = pass->model->config;

    return c->latent.value == c->head_size ? datt
                                           : pad(pass, BUFFER_NORMED, datt, c->head_size);
}

static void norm_backward(const struct pass *pass, const struct norm *norm,
                          struct tensor dx, struct tensor dout, struct tensor x,
                          struct tensor rstd)
{
    pass->ops->headnorm_backward(
        pass->be, &(struct op_headnorm_backward) { .dx = dx,
                                                   .dweight = norm->weight->grad,
                                                   .dout = dout,
                                                   .x = x,
                                                   .weight = norm->weight->weight,
                                                   .rstd = rstd,
                                                   .heads = 1 });
}

void model_latent_backward(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct block *b = &pass->model->blocks[layer];
    struct latent_inputs in = inputs_of(pass, BUFFER_QKV, layer);
    struct latent_inputs din = inputs_of(pass, BUFFER_DQKV, 0);
    struct latent_parts latents = latents_of(pass, BUFFER_LATENTS, layer);
    struct latent_parts dlatents = latents_of(pass, BUFFER_DLATENTS, 0);
    struct latent_parts dup = expanded_of(pass, din.q);
    struct attention_heads d = model_latent_heads(pass, BUFFER_DHEADS, 0);

    pass->ops->latent_backward(
        pass->be, &(struct op_latent_backward) {
                      .dup_q = dup.q,
                      .dup_kv = dup.kv,
                      .dshared = din.shared,
                      .dq = d.q,
                      .dk = d.k,
                      .dv = d.v,
                      .table = pass_buffer(pass, b->rope, 0),
                      .positions = pass_buffer(pass, BUFFER_POSITIONS, 0).data,
                      .heads = c->heads,
                      .interleaved = c->architecture->rotary_interleaved });
    if (latents.q.data) {
        stack_backward(pass, &b->q_b, layer, latents.q, dup.q, dlatents.q);
        norm_backward(pass, &b->q_norm, din.q, dlatents.q, in.q,
                      pass_buffer(pass, BUFFER_RSTD_Q, layer));
    }
    stack_backward(pass, &b->kv_b, layer, latents.kv, dup.kv, dlatents.kv);
    norm_backward(pass, &b->k_norm, din.kv, dlatents.kv, in.kv,
                  pass_buffer(pass, BUFFER_RSTD_K, layer));
}
