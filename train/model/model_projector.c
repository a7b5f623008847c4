/* train/model/model_projector.c - a projector; model_projector.h has the formula. */
#include "config.h"

#include "train/model/model_projector.h"

#include <stdlib.h>

#include "base/size.h"
#include "train/model/model_internal.h"
#include "train/model/model_linear.h"

struct projector {
    struct norm norm, middle;
    struct linear merge, first, gate, up, last; /* without a weight: there is none */
};

static struct linear make_layer(const struct model *m, enum module module)
{
    const struct parameter *p = model_find(m, module, PART_WEIGHT, 0);
    const struct parameter *bias = model_find(m, module, PART_BIAS, 0);
    struct linear out = { 0 };

    if (!p)
        return out;
    out.weight = model_matmul_operand(p);
    out.grad = p->grad;
    out.out_count = p->rows;
    out.in_count = p->cols;
    if (bias) {
        out.bias = bias->weight;
        out.bias_grad = bias->grad;
    }
    return out;
}

struct projector *model_projector_new(const struct model *model)
{
    struct projector *out;

    if (!model->shapes.projects)
        return NULL;
    out = memory_alloc(sizeof(*out));
    out->norm = model_norm_of(model, MODULE_PROJECTOR_NORM, 0);
    out->merge = make_layer(model, MODULE_PROJECTOR_MERGE);
    out->first = make_layer(model, MODULE_PROJECTOR_FIRST);
    out->middle = model_norm_of(model, MODULE_PROJECTOR_MIDDLE, 0);
    out->gate = make_layer(model, MODULE_PROJECTOR_GATE);
    out->up = make_layer(model, MODULE_PROJECTOR_UP);
    out->last = make_layer(model, MODULE_PROJECTOR_LAST);
    return out;
}

void model_projector_free(struct projector *projector)
{
    free(projector);
}

enum buffer model_projector_input(const struct model *model)
{
    return model->config->media.projector.norm ? BUFFER_MEDIA_X : BUFFER_MEDIA_IN;
}

enum buffer model_projector_gradient(const struct model *model)
{
    return model->config->media.projector.norm ? BUFFER_DMEDIA_X : BUFFER_MEDIA_IN;
}

static struct tensor rows_of(const struct pass *pass, enum buffer buffer, size_t rows)
{
    return tensor_rows(pass_buffer(pass, buffer, 0), 0, rows);
}

/* The operands of a norm. */
struct normed {
    const struct norm *norm;
    enum norm_kind kind;
    float eps;
    struct tensor x, out, stats, dx;
};

/* That of the input, which has `rows` rows: several of the norm are one of the layers. */
static struct normed normed_of(const struct pass *pass, size_t rows)
{
    const struct projector_config *c = &pass->model->config->media.projector;
    const size_t count = rows * (c->in / c->norm_size);
    struct tensor in = pass_buffer(pass, BUFFER_MEDIA_IN, 0);
    struct tensor stats = pass_buffer(pass, BUFFER_RSTD_MEDIA, 0);

    return (struct normed) {
        .norm = &pass->model->projector->norm,
        .kind = c->norm_kind,
        .eps = (float)c->norm_eps,
        .x = rows_of(pass, BUFFER_MEDIA_X, count),
        .out = tensor_of(in.data, in.format, count, c->norm_size),
        .stats = tensor_of(stats.data, stats.format, stats.rows, count),
        .dx = rows_of(pass, BUFFER_DMEDIA_X, count),
    };
}

/* That between the first layer and the gated one. */
static struct normed middle_of(const struct pass *pass, size_t rows)
{
    const struct projector_config *c = &pass->model->config->media.projector;
    struct tensor stats = pass_buffer(pass, BUFFER_RSTD_MEDIA_MIDDLE, 0);

    return (struct normed) {
        .norm = &pass->model->projector->middle,
        .kind = NORM_LAYER,
        .eps = (float)c->norm_eps,
        .x = rows_of(pass, BUFFER_MEDIA_MIDDLE, rows),
        .out = rows_of(pass, BUFFER_MEDIA_INNER, rows),
        .stats = tensor_of(stats.data, stats.format, stats.rows, rows),
        .dx = rows_of(pass, BUFFER_DMEDIA_MIDDLE, rows),
    };
}

static void norm_forward(const struct pass *pass, const struct normed *n)
{
    const struct norm *norm = n->norm;
    struct tensor bias = { 0 };

    if (norm->bias)
        bias = norm->bias->weight;
    if (norm_is_centered(n->kind))
        pass->ops->layernorm(pass->be,
                             &(struct op_layernorm) { .out = n->out,
                                                      .stats = n->stats,
                                                      .x = n->x,
                                                      .weight = norm->weight->weight,
                                                      .bias = bias,
                                                      .eps = n->eps });
    else
        pass->ops->rmsnorm(
            pass->be, &(struct op_rmsnorm) { .out = n->out,
                                             .rstd = n->stats,
                                             .x = n->x,
                                             .weight = norm->weight->weight,
                                             .eps = n->eps,
                                             .offset = n->kind == NORM_RMS_1 ? 1 : 0 });
}

/* From the gradient of its output, in place of this, to that of its input. */
static void norm_backward(const struct pass *pass, const struct normed *n)
{
    const struct norm *norm = n->norm;
    struct tensor dbias = { 0 };

    if (norm->bias)
        dbias = norm->bias->grad;
    pass->ops->zero(pass->be, &(struct op_zero) { .out = n->dx });
    if (norm_is_centered(n->kind))
        pass->ops->layernorm_backward(
            pass->be, &(struct op_layernorm_backward) { .dx = n->dx,
                                                        .dweight = norm->weight->grad,
                                                        .dbias = dbias,
                                                        .dout = n->out,
                                                        .x = n->x,
                                                        .weight = norm->weight->weight,
                                                        .stats = n->stats });
    else
        pass->ops->rmsnorm_backward(
            pass->be,
            &(struct op_rmsnorm_backward) { .dx = n->dx,
                                            .dweight = norm->weight->grad,
                                            .dout = n->out,
                                            .x = n->x,
                                            .weight = norm->weight->weight,
                                            .rstd = n->stats,
                                            .offset = n->kind == NORM_RMS_1 ? 1 : 0 });
}

/* Gates, and their other factors. */
static struct tensor gates_of(const struct pass *pass, size_t part, size_t rows)
{
    const size_t cols = pass->model->config->media.projector.gated;

    return tensor_columns(rows_of(pass, BUFFER_MEDIA_GATES, rows), part * cols, cols);
}

/* What the last layer reads of the output of the first. */
static struct tensor inner_forward(const struct pass *pass, size_t rows)
{
    const struct projector_config *c = &pass->model->config->media.projector;
    const struct projector *p = pass->model->projector;
    const struct tensor inner = rows_of(pass, BUFFER_MEDIA_INNER, rows);
    const struct tensor act = rows_of(pass, BUFFER_MEDIA_ACT, rows);
    struct tensor gated;

    if (p->middle.weight) {
        const struct normed n = middle_of(pass, rows);

        pass->ops->convert(pass->be, &(struct op_convert) { .out = n.x, .x = inner });
        norm_forward(pass, &n);
    }
    pass->ops->activation(pass->be, &(struct op_activation) {
                                        .out = act, .x = inner, .kind = c->activation });
    if (!p->gate.weight.data)
        return act;
    gated = rows_of(pass, BUFFER_MEDIA_GATED, rows);
    linear_forward(pass, &p->gate, act, gates_of(pass, 0, rows), 1, 0);
    linear_forward(pass, &p->up, act, gates_of(pass, 1, rows), 1, 0);
    pass->ops->swiglu(pass->be, &(struct op_swiglu) { .out = gated,
                                                      .gate = gates_of(pass, 0, rows),
                                                      .up = gates_of(pass, 1, rows),
                                                      .kind = c->gate_activation });
    return gated;
}

void model_projector_forward(const struct pass *pass, size_t rows)
{
    const struct projector *p = pass->model->projector;
    struct tensor x = rows_of(pass, BUFFER_MEDIA_IN, rows);

    if (p->norm.weight) {
        const struct normed n = normed_of(pass, rows);

        norm_forward(pass, &n);
    }
    if (p->merge.weight.data) {
        const struct tensor merged = rows_of(pass, BUFFER_MEDIA_MERGED, rows);

        linear_forward(pass, &p->merge, x, merged, 1, 0);
        x = merged;
    }
    if (p->first.weight.data) {
        linear_forward(pass, &p->first, x, rows_of(pass, BUFFER_MEDIA_INNER, rows), 1, 0);
        x = inner_forward(pass, rows);
    }
    linear_forward(pass, &p->last, x, rows_of(pass, BUFFER_MEDIA_ROWS, rows), 1, 0);
}

/* From the gradient of its output to that of its input, over the input. */
static void layer_backward(const struct pass *pass, const struct linear *layer,
                           struct tensor x, struct tensor dy, bool goes_on)
{
    linear_weight_gradient(pass, layer, x, dy, 1, false);
    if (goes_on)
        linear_input_gradient(pass, layer, dy, x, 1, 0);
}

/* The same of the gated layer, whose output's gradient is over it. */
static void gated_backward(const struct pass *pass, struct tensor x, size_t rows)
{
    const struct projector *p = pass->model->projector;
    const struct tensor gate = gates_of(pass, 0, rows), up = gates_of(pass, 1, rows);

    pass->ops->swiglu_backward(
        pass->be, &(struct op_swiglu_backward) {
                      .dgate = gate,
                      .dup = up,
                      .dout = rows_of(pass, BUFFER_MEDIA_GATED, rows),
                      .gate = gate,
                      .up = up,
                      .kind = pass->model->config->media.projector.gate_activation });
    linear_weight_gradient(pass, &p->gate, x, gate, 1, false);
    linear_weight_gradient(pass, &p->up, x, up, 1, false);
    linear_input_gradient(pass, &p->gate, gate, x, 1, 0);
    linear_input_gradient(pass, &p->up, up, x, 1, 1);
}

/* From the gradient of the rows to that of the first layer's output, over it. */
static void inner_backward(const struct pass *pass, size_t rows)
{
    const struct projector *p = pass->model->projector;
    const struct tensor dy = rows_of(pass, BUFFER_MEDIA_ROWS, rows);
    const struct tensor inner = rows_of(pass, BUFFER_MEDIA_INNER, rows);
    const struct tensor act = rows_of(pass, BUFFER_MEDIA_ACT, rows);

    if (p->gate.weight.data) {
        layer_backward(pass, &p->last, rows_of(pass, BUFFER_MEDIA_GATED, rows), dy, true);
        gated_backward(pass, act, rows);
    } else {
        layer_backward(pass, &p->last, act, dy, true);
    }
    pass->ops->activation_backward(
        pass->be, &(struct op_activation_backward) {
                      .dx = inner,
                      .dout = act,
                      .x = inner,
                      .kind = pass->model->config->media.projector.activation });
    if (p->middle.weight) {
        const struct normed n = middle_of(pass, rows);

        norm_backward(pass, &n);
        pass->ops->convert(pass->be, &(struct op_convert) { .out = inner, .x = n.dx });
    }
}

void model_projector_backward(const struct pass *pass, size_t rows)
{
    const struct projector *p = pass->model->projector;
    const struct tensor in = rows_of(pass, BUFFER_MEDIA_IN, rows);
    const bool has_norm = p->norm.weight != NULL;
    const bool goes_on = has_norm || pass->model->shapes.trains_encoder;

    if (!p->first.weight.data) {
        layer_backward(pass, &p->last, in, rows_of(pass, BUFFER_MEDIA_ROWS, rows),
                       goes_on);
    } else {
        const struct tensor inner = rows_of(pass, BUFFER_MEDIA_INNER, rows);

        inner_backward(pass, rows);
        if (p->merge.weight.data) {
            const struct tensor merged = rows_of(pass, BUFFER_MEDIA_MERGED, rows);

            layer_backward(pass, &p->first, merged, inner, true);
            layer_backward(pass, &p->merge, in, merged, goes_on);
        } else {
            layer_backward(pass, &p->first, in, inner, goes_on);
        }
    }
    if (has_norm) {
        const struct normed n = normed_of(pass, rows);

        norm_backward(pass, &n);
    }
}

void model_projector_skip(const struct pass *pass)
{
    const struct projector *p = pass->model->projector;
    const struct tensor grads[] = { p->merge.grad, p->first.grad, p->gate.grad,
                                    p->up.grad, p->last.grad };

    for (size_t i = 0; pass->first && i < TS_COUNT(grads); i++)
        if (grads[i].data)
            pass->ops->zero(pass->be, &(struct op_zero) { .out = grads[i] });
}
