/* train/model/model_delta.c - linear attention by the gated delta rule, and the gate of full
 * attention, forward and backward; model_internal.h has the formulas. */
#include "config.h"

#include "train/model/model_mixers.h"

/* The columns of a buffer of the first stack, or of its gradients: q, k and v together, z,
 * b and a. */
struct delta_inputs {
    struct tensor mixed, z, b, a;
};

static struct delta_inputs inputs_of(const struct pass *pass, struct tensor whole)
{
    const struct linear_attention *delta = &pass->model->config->delta;
    size_t columns = linear_attention_columns(delta);
    size_t values = linear_attention_values(delta);

    return (struct delta_inputs) {
        .mixed = tensor_columns(whole, 0, columns),
        .z = tensor_columns(whole, columns, values),
        .b = tensor_columns(whole, columns + values, delta->heads),
        .a = tensor_columns(whole, columns + values + delta->heads, delta->heads),
    };
}

/* q, k and v of the convolution's output, or of its gradient. */
struct delta_heads {
    struct tensor q, k, v;
};

static struct delta_heads heads_of(const struct pass *pass, struct tensor mixed)
{
    const struct linear_attention *delta = &pass->model->config->delta;
    size_t keys = delta->key_heads * delta->key_size;

    return (struct delta_heads) {
        .q = tensor_columns(mixed, 0, keys),
        .k = tensor_columns(mixed, keys, keys),
        .v = tensor_columns(mixed, 2 * keys, linear_attention_values(delta)),
    };
}

/* The first columns of a buffer that has room for either kind of attention. */
static struct tensor columns_of(const struct pass *pass, enum buffer buffer, size_t layer,
                                size_t cols)
{
    return tensor_columns(pass_buffer(pass, buffer, layer), 0, cols);
}

static struct tensor values_of(const struct pass *pass, enum buffer buffer, size_t layer)
{
    return columns_of(pass, buffer, layer,
                      linear_attention_values(&pass->model->config->delta));
}

struct tensor model_cached_rows(const struct pass *pass, enum buffer buffer, size_t layer,
                                size_t each)
{
    if (pass->decoding)
        return pass_buffer(pass, buffer, layer);
    if (pass->prefill)
        return tensor_rows(pass_buffer(pass, buffer, layer), pass->slot * each, each);
    return (struct tensor) { 0 };
}

static const int32_t *offsets_of(const struct pass *pass)
{
    return pass_buffer(pass, BUFFER_OFFSETS, 0).data;
}

static struct op_conv conv_op(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];

    return (struct op_conv) {
        .out = pass_buffer(pass, BUFFER_CONV, layer),
        .x = inputs_of(pass, pass_buffer(pass, BUFFER_QKV, layer)).mixed,
        .weight = b->conv->weight,
        .state = model_cached_rows(pass, BUFFER_CONV_STATE, layer,
                                   pass->model->config->delta.taps - 1),
        .offsets = offsets_of(pass),
        .sequences = pass->sequences,
        .resumes = pass->decoding,
    };
}

static struct op_delta delta_op(const struct pass *pass, size_t layer)
{
    const struct linear_attention *delta = &pass->model->config->delta;
    struct delta_heads heads = heads_of(pass, pass_buffer(pass, BUFFER_CONV, layer));

    return (struct op_delta) {
        .out = values_of(pass, BUFFER_ATT, layer),
        .q = heads.q,
        .k = heads.k,
        .v = heads.v,
        .decay = pass_buffer(pass, BUFFER_DECAY, layer),
        .beta = pass_buffer(pass, BUFFER_BETA, layer),
        .state = model_cached_rows(pass, BUFFER_DELTA_STATE, layer, 1),
        .offsets = offsets_of(pass),
        .sequences = pass->sequences,
        .heads = delta->heads,
        .key_heads = delta->key_heads,
        .resumes = pass->decoding,
    };
}

/* Normalize each head of the output, into a scratch. */
static struct tensor normalize(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    struct tensor out = values_of(pass, BUFFER_NORMED, 0);

    pass->ops->headnorm(
        pass->be, &(struct op_headnorm) { .out = out,
                                          .rstd = pass_buffer(pass, BUFFER_RSTD_V, layer),
                                          .x = values_of(pass, BUFFER_ATT, layer),
                                          .weight = m->blocks[layer].v_norm->weight,
                                          .eps = (float)m->config->norm_eps,
                                          .heads = m->config->delta.heads });
    return out;
}

/* out = act(gate) * x */
static struct tensor gate(const struct pass *pass, size_t layer, struct tensor x)
{
    const struct gate_of by = model_gate_of(pass, layer, BUFFER_QKV);
    struct tensor out = columns_of(pass, BUFFER_GATED, 0, x.cols);

    pass->ops->swiglu(
        pass->be,
        &(struct op_swiglu) { .out = out, .gate = by.gate, .up = x, .kind = by.kind });
    return out;
}

struct gate_of model_gate_of(const struct pass *pass, size_t layer, enum buffer buffer)
{
    const struct model_config *c = pass->model->config;
    struct tensor whole = pass_buffer(pass, buffer, buffer == BUFFER_QKV ? layer : 0);
    size_t cols = model_config_queries(c, layer);

    if (model_config_has_delta(c, layer))
        return (struct gate_of) { inputs_of(pass, whole).z, ACTIVATION_SILU };
    return (struct gate_of) { tensor_columns(whole, cols, cols), ACTIVATION_SIGMOID };
}

static bool is_gated(const struct pass *pass, size_t layer)
{
    return model_config_has_delta(pass->model->config, layer) ||
           pass->model->config->architecture->gated_attention;
}

/* Return the output of attention times its factor, if it has one. */
static struct tensor scale(const struct pass *pass, struct tensor x)
{
    double factor = pass->model->config->attention_factor;
    struct tensor out;

    if (factor == 1)
        return x;
    out = columns_of(pass, BUFFER_GATED, 0, x.cols);
    pass_scale(pass, factor, x, out);
    return out;
}

struct tensor model_gate_attention(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    size_t cols =
        model_config_has_conv(c, layer) ? c->hidden_size : model_config_queries(c, layer);
    struct tensor out = columns_of(pass, BUFFER_ATT, layer, cols);

    if (model_config_is_latent(c))
        return model_latent_output(pass, layer);
    if (!is_gated(pass, layer))
        return scale(pass, out);
    if (model_config_has_delta(c, layer))
        out = normalize(pass, layer);
    return gate(pass, layer, out);
}

void model_run_delta(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct delta_inputs in = inputs_of(pass, pass_buffer(pass, BUFFER_QKV, layer));
    const struct op_conv conv = conv_op(pass, layer);
    const struct op_delta delta = delta_op(pass, layer);

    pass->ops->conv(pass->be, &conv);
    pass->ops->decay(pass->be, &(struct op_decay) { .decay = delta.decay,
                                                    .beta = delta.beta,
                                                    .a = in.a,
                                                    .b = in.b,
                                                    .a_log = b->a_log->weight,
                                                    .bias = b->dt_bias->weight });
    pass->ops->delta(pass->be, &delta);
}

/* Back through the convolution and the gates of the heads. */
static void inputs_backward(const struct pass *pass, size_t layer)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct delta_inputs in = inputs_of(pass, pass_buffer(pass, BUFFER_QKV, layer));
    const struct delta_inputs d = inputs_of(pass, pass_buffer(pass, BUFFER_DQKV, 0));

    pass->ops->decay_backward(pass->be, &(struct op_decay_backward) {
                                            .da = d.a,
                                            .db = d.b,
                                            .da_log = b->a_log->grad,
                                            .dbias = b->dt_bias->grad,
                                            .ddecay = pass_buffer(pass, BUFFER_DDECAY, 0),
                                            .dbeta = pass_buffer(pass, BUFFER_DBETA, 0),
                                            .a = in.a,
                                            .b = in.b,
                                            .a_log = b->a_log->weight,
                                            .bias = b->dt_bias->weight });
    pass->ops->conv_backward(
        pass->be, &(struct op_conv_backward) { .dx = d.mixed,
                                               .dweight = b->conv->grad,
                                               .dout = pass_buffer(pass, BUFFER_DCONV, 0),
                                               .x = in.mixed,
                                               .weight = b->conv->weight,
                                               .offsets = offsets_of(pass),
                                               .sequences = pass->sequences });
}

void model_delta_backward(const struct pass *pass, size_t layer, struct tensor dout)
{
    const struct model *m = pass->model;
    const struct parameter *norm = m->blocks[layer].v_norm;
    struct delta_heads d = heads_of(pass, pass_buffer(pass, BUFFER_DCONV, 0));

    pass->ops->headnorm_backward(
        pass->be,
        &(struct op_headnorm_backward) { .dx = dout,
                                         .dweight = norm->grad,
                                         .dout = dout,
                                         .x = values_of(pass, BUFFER_ATT, layer),
                                         .weight = norm->weight,
                                         .rstd = pass_buffer(pass, BUFFER_RSTD_V, layer),
                                         .heads = m->config->delta.heads });
    pass->ops->delta_backward(
        pass->be,
        &(struct op_delta_backward) { .dq = d.q,
                                      .dk = d.k,
                                      .dv = d.v,
                                      .ddecay = pass_buffer(pass, BUFFER_DDECAY, 0),
                                      .dbeta = pass_buffer(pass, BUFFER_DBETA, 0),
                                      .dout = dout,
                                      .states = pass_buffer(pass, BUFFER_STATES, 0),
                                      .dstates = pass_buffer(pass, BUFFER_DSTATES, 0),
                                      .forward = delta_op(pass, layer) });
    inputs_backward(pass, layer);
}

/* dgate and `out` over datt; return the gradient of what the gate multiplied. */
static struct tensor gate_backward(const struct pass *pass, size_t layer,
                                   struct tensor datt, struct tensor up)
{
    const struct gate_of by = model_gate_of(pass, layer, BUFFER_QKV);
    struct tensor d = columns_of(pass, BUFFER_NORMED, 0, datt.cols);
    bool trained = pass->model->blocks[layer].o.trained;

    pass->ops->swiglu_backward(
        pass->be, &(struct op_swiglu_backward) {
                      .dgate = model_gate_of(pass, layer, BUFFER_DQKV).gate,
                      .dup = d, /* linear attention: over what was multiplied */
                      .out = trained ? datt : (struct tensor) { 0 },
                      .dout = datt,
                      .gate = by.gate,
                      .up = up,
                      .kind = by.kind });
    return d;
}

struct tensor model_gate_backward(const struct pass *pass, size_t layer,
                                  struct tensor datt)
{
    if (model_config_is_latent(pass->model->config))
        return model_latent_output_backward(pass, datt);
    if (model_config_has_delta(pass->model->config, layer))
        return gate_backward(pass, layer, datt, normalize(pass, layer));
    if (!pass->model->config->architecture->gated_attention) {
        pass_scale(pass, pass->model->config->attention_factor, datt, datt);
        return datt;
    }
    return gate_backward(pass, layer, datt,
                         columns_of(pass, BUFFER_ATT, layer, datt.cols));
}
