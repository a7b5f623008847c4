/* train/model/model_scan.c - the state space model of Mamba-2 in a block, forward and
 * backward; model_internal.h has the formulas. */
#include "config.h"

#include "train/model/model_mixers.h"

/* The columns of a buffer of the first stack, or of its gradients: the gate, what is
 * convolved, dt. */
struct scan_inputs {
    struct tensor z, mixed, dt;
};

static struct scan_inputs inputs_of(const struct pass *pass, size_t layer,
                                    struct tensor whole)
{
    const struct model_config *c = pass->model->config;
    size_t at = model_config_scan_first(c, layer), inner = state_space_inner(&c->ssm);
    size_t mixed = state_space_mixed(&c->ssm);

    return (struct scan_inputs) {
        .z = tensor_columns(whole, at, inner),
        .mixed = tensor_columns(whole, at + inner, mixed),
        .dt = tensor_columns(whole, at + inner + mixed, c->ssm.heads),
    };
}

/* x, b and c of the convolution's output, or of its gradient. */
struct scan_parts {
    struct tensor x, b, c;
};

static struct scan_parts parts_of(const struct pass *pass, struct tensor mixed)
{
    const struct state_space *ssm = &pass->model->config->ssm;
    size_t inner = state_space_inner(ssm), shared = ssm->groups * ssm->depth;

    return (struct scan_parts) {
        .x = tensor_columns(mixed, 0, inner),
        .b = tensor_columns(mixed, inner, shared),
        .c = tensor_columns(mixed, inner + shared, shared),
    };
}

/* The first columns of a scratch. */
static struct tensor scratch_of(const struct pass *pass, enum buffer buffer)
{
    return tensor_columns(pass_buffer(pass, buffer, 0), 0,
                          state_space_inner(&pass->model->config->ssm));
}

static const int32_t *offsets_of(const struct pass *pass)
{
    return pass_buffer(pass, BUFFER_OFFSETS, 0).data;
}

static struct tensor weight_of(const struct parameter *p)
{
    return p ? p->weight : (struct tensor) { 0 };
}

static struct tensor grad_of(const struct parameter *p)
{
    return p ? p->grad : (struct tensor) { 0 };
}

static struct op_scan scan_op(const struct pass *pass, size_t layer)
{
    const struct state_space *ssm = &pass->model->config->ssm;
    const struct block *b = &pass->model->blocks[layer];
    struct scan_parts parts = parts_of(pass, pass_buffer(pass, BUFFER_CONV, layer));

    return (struct op_scan) {
        .out = pass_buffer(pass, BUFFER_SCAN, layer),
        .x = parts.x,
        .b = parts.b,
        .c = parts.c,
        .dt = inputs_of(pass, layer, pass_buffer(pass, BUFFER_QKV, layer)).dt,
        .a_log = b->a_log->weight,
        .bias = b->dt_bias->weight,
        .skip = b->skip->weight,
        .state = model_cached_rows(pass, BUFFER_DELTA_STATE, layer, 1),
        .offsets = offsets_of(pass),
        .sequences = pass->sequences,
        .heads = ssm->heads,
        .groups = ssm->groups,
        .low = (float)ssm->low,
        .high = (float)ssm->high,
        .resumes = pass->decoding,
    };
}

void model_run_scan(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct block *b = &pass->model->blocks[layer];
    const struct op_scan scan = scan_op(pass, layer);

    pass->ops->conv(
        pass->be,
        &(struct op_conv) {
            .out = pass_buffer(pass, BUFFER_CONV, layer),
            .x = inputs_of(pass, layer, pass_buffer(pass, BUFFER_QKV, layer)).mixed,
            .weight = b->conv->weight,
            .bias = weight_of(b->conv_bias),
            .state = model_cached_rows(pass, BUFFER_CONV_STATE, layer, c->ssm.taps - 1),
            .offsets = offsets_of(pass),
            .sequences = pass->sequences,
            .resumes = pass->decoding });
    pass->ops->scan(pass->be, &scan);
}

/* ---- The norm and the gate of the output ---- */

/* Columns of one group of the norm. */
static struct tensor group_of(const struct pass *pass, struct tensor x, size_t group)
{
    size_t each =
        state_space_inner(&pass->model->config->ssm) / pass->model->config->ssm.groups;

    return x.data ? tensor_columns(x, group * each, each) : x;
}

static struct tensor rstd_of(const struct pass *pass, size_t layer, size_t group)
{
    return tensor_columns(pass_buffer(pass, BUFFER_RSTD_V, layer), group, 1);
}

static void normalize(const struct pass *pass, size_t layer, struct tensor x,
                      struct tensor out)
{
    const struct model *m = pass->model;

    for (size_t g = 0; g < m->config->ssm.groups; g++)
        pass->ops->headnorm(
            pass->be, &(struct op_headnorm) {
                          .out = group_of(pass, out, g),
                          .rstd = rstd_of(pass, layer, g),
                          .x = group_of(pass, x, g),
                          .weight = group_of(pass, m->blocks[layer].v_norm->weight, g),
                          .eps = (float)m->config->norm_eps,
                          .heads = 1 });
}

/* Over the gradient d of its output. */
static void normalize_backward(const struct pass *pass, size_t layer, struct tensor x,
                               struct tensor d)
{
    const struct parameter *norm = pass->model->blocks[layer].v_norm;

    for (size_t g = 0; g < pass->model->config->ssm.groups; g++)
        pass->ops->headnorm_backward(
            pass->be,
            &(struct op_headnorm_backward) { .dx = group_of(pass, d, g),
                                             .dweight = group_of(pass, norm->grad, g),
                                             .dout = group_of(pass, d, g),
                                             .x = group_of(pass, x, g),
                                             .weight = group_of(pass, norm->weight, g),
                                             .rstd = rstd_of(pass, layer, g),
                                             .heads = 1 });
}

static void gate(const struct pass *pass, size_t layer, struct tensor x,
                 struct tensor out)
{
    const struct tensor z =
        inputs_of(pass, layer, pass_buffer(pass, BUFFER_QKV, layer)).z;

    pass->ops->swiglu(
        pass->be,
        &(struct op_swiglu) { .out = out, .gate = z, .up = x, .kind = ACTIVATION_SILU });
}

/* Return what the gate multiplies. */
static struct tensor before_gate(const struct pass *pass, size_t layer)
{
    struct tensor out = scratch_of(pass, BUFFER_NORMED);
    struct tensor y = pass_buffer(pass, BUFFER_SCAN, layer);

    if (pass->model->config->ssm.norm != SCAN_NORM_BEFORE_GATE)
        return y;
    normalize(pass, layer, y, out);
    return out;
}

struct tensor model_scan_output(const struct pass *pass, size_t layer)
{
    const struct state_space *ssm = &pass->model->config->ssm;
    struct tensor out = scratch_of(pass, BUFFER_GATED), normed;

    if (ssm->norm == SCAN_NORM_AFTER_GATE) {
        normed = scratch_of(pass, BUFFER_NORMED);
        gate(pass, layer, before_gate(pass, layer), normed);
        normalize(pass, layer, normed, out);
    } else {
        gate(pass, layer, before_gate(pass, layer), out);
    }
    pass_scale(pass, ssm->out_factor, out, out);
    return out;
}

/* Back through gate and norm: d becomes the gradient of the output of the scan. */
static void gate_backward(const struct pass *pass, size_t layer, struct tensor d)
{
    const struct state_space *ssm = &pass->model->config->ssm;
    struct tensor up = before_gate(pass, layer), gated;
    struct tensor y = pass_buffer(pass, BUFFER_SCAN, layer);

    if (ssm->norm == SCAN_NORM_AFTER_GATE) {
        gated = scratch_of(pass, BUFFER_NORMED);
        gate(pass, layer, up, gated);
        normalize_backward(pass, layer, gated, d);
    }
    pass->ops->swiglu_backward(
        pass->be,
        &(struct op_swiglu_backward) {
            .dgate = inputs_of(pass, layer, pass_buffer(pass, BUFFER_DQKV, 0)).z,
            .dup = scratch_of(pass, BUFFER_NORMED),
            .dout = d,
            .gate = inputs_of(pass, layer, pass_buffer(pass, BUFFER_QKV, layer)).z,
            .up = up,
            .kind = ACTIVATION_SILU });
    if (ssm->norm == SCAN_NORM_BEFORE_GATE)
        normalize_backward(pass, layer, y, scratch_of(pass, BUFFER_NORMED));
}

void model_scan_backward(const struct pass *pass, size_t layer, struct tensor dout)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct scan_inputs in =
        inputs_of(pass, layer, pass_buffer(pass, BUFFER_QKV, layer));
    const struct scan_inputs din =
        inputs_of(pass, layer, pass_buffer(pass, BUFFER_DQKV, 0));
    struct scan_parts d = parts_of(pass, pass_buffer(pass, BUFFER_DCONV, 0));

    pass_scale(pass, pass->model->config->ssm.out_factor, dout, dout);
    gate_backward(pass, layer, dout);
    pass->ops->scan_backward(
        pass->be,
        &(struct op_scan_backward) { .dx = d.x,
                                     .db = d.b,
                                     .dc = d.c,
                                     .ddt = din.dt,
                                     .da_log = grad_of(b->a_log),
                                     .dbias = grad_of(b->dt_bias),
                                     .dskip = grad_of(b->skip),
                                     .dout = scratch_of(pass, BUFFER_NORMED),
                                     .states = pass_buffer(pass, BUFFER_STATES, 0),
                                     .dstates = pass_buffer(pass, BUFFER_DSTATES, 0),
                                     .sums = pass_buffer(pass, BUFFER_SCAN_SUMS, 0),
                                     .forward = scan_op(pass, layer) });
    pass->ops->conv_backward(
        pass->be, &(struct op_conv_backward) { .dx = din.mixed,
                                               .dweight = b->conv->grad,
                                               .dbias = grad_of(b->conv_bias),
                                               .dout = pass_buffer(pass, BUFFER_DCONV, 0),
                                               .x = in.mixed,
                                               .weight = b->conv->weight,
                                               .bias = weight_of(b->conv_bias),
                                               .offsets = offsets_of(pass),
                                               .sequences = pass->sequences });
}

/* ---- Factors of columns ---- */

void model_scale_inputs(const struct pass *pass, struct tensor x)
{
    const struct model_config *c = pass->model->config;

    for (size_t i = 0; i < c->column_factor_count; i++) {
        const struct column_factor *f = &c->column_factors[i];
        struct tensor part = tensor_columns(x, f->first, f->count);

        pass_scale(pass, f->factor, part, part);
    }
}
