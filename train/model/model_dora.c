/*
 * train/model/model_dora.c - linear layers whose adapters are weight-decomposed (DoRA), as
 * PEFT computes them (peft/tuners/lora/dora.py).
 *
 *     z = xd W^T + scale u B^T     u = xd A^T, xd = dropout(x)
 *     y = f z + b                  f = magnitude / |row of W + scale B A|, by output
 *
 * With dropout, PEFT applies it to the adapter's part only: y = x W^T + b - xd W^T + f z.
 * z is kept for the gradient of the magnitude.  The norm is a constant in the backward pass.
 */
#include "config.h"

#include "train/model/model_dora.h"

#include "base/size.h"
#include "train/model/model_linear.h"
#include "train/model/model_stored.h"

static struct parameter *find(const struct model *m, size_t layer, enum module module,
                              enum part part)
{
    return m->slots[model_slot(module, part, layer)];
}

/* The norms of the stacks follow each other. */
void dora_open(const struct model *m, size_t layer, enum module first, enum module last,
               struct linear_stack *l)
{
    enum stack stack = shapes_stack(first);
    size_t y = 0, norms = 0;

    l->z = BUFFER_Z_QKV + stack;
    for (enum stack i = 0; i < stack; i++)
        norms += m->shapes.buffers[BUFFER_Z_QKV + i].cols;
    for (enum module i = first; i <= last; i++) {
        const struct parameter *weight = find(m, layer, i, PART_WEIGHT);
        struct dora *d = &l->dora[l->dora_count];

        if (!weight)
            continue;
        *d = (struct dora) { .magnitude = find(m, layer, i, PART_LORA_MAGNITUDE),
                             .out_first = y,
                             .out_count = weight->rows,
                             .norm_at = norms + y };
        if (d->magnitude) {
            d->a = find(m, layer, i, PART_LORA_A)->weight;
            d->b = find(m, layer, i, PART_LORA_B)->weight;
        }
        y += weight->rows;
        l->dora_count++;
    }
}

/* Return the columns of an output, or of its gradient, that belong to a layer. */
static struct tensor columns_of(const struct dora *d, struct tensor y)
{
    return y.data ? tensor_columns(y, d->out_first, d->out_count) : y;
}

static struct tensor magnitude_of(const struct dora *d)
{
    return d->magnitude ? d->magnitude->weight : (struct tensor) { 0 };
}

static struct tensor norm_of(const struct model *m, const struct dora *d, size_t layer)
{
    const struct shape_buffer *b = &m->shapes.buffers[BUFFER_DORA_NORM];
    char *data = m->buffers + b->at + layer * b->step;

    if (!d->magnitude)
        return (struct tensor) { 0 };
    return tensor_of((float *)(void *)data + d->norm_at, FORMAT_FP32, 1, d->out_count);
}

/* Compute the norms of the adapted weights of a stack. */
static void compute_norms(const struct model *m, const struct linear_stack *l,
                          size_t layer)
{
    for (size_t i = 0; i < l->base_count; i++) {
        const struct linear *p = &l->base[i];

        model_dequantize_linear(m, p);
        for (size_t j = 0; j < l->dora_count; j++) {
            const struct dora *d = &l->dora[j];
            size_t row = d->out_first - p->out_first;

            if (!d->magnitude || d->out_first < p->out_first ||
                d->out_first >= p->out_first + p->out_count)
                continue;
            m->be->ops->dora_norm(
                m->be,
                &(struct op_dora_norm) { .norm = norm_of(m, d, layer),
                                         .w = tensor_rows(p->weight, row, d->out_count),
                                         .a = d->a,
                                         .b = d->b,
                                         .scale = (float)m->shapes.lora.scale });
        }
    }
}

static void scale_columns(const struct pass *pass, const struct dora *d, size_t layer,
                          struct op_dora_scale op)
{
    op.magnitude = magnitude_of(d);
    op.norm = norm_of(pass->model, d, layer);
    op.out = columns_of(d, op.out);
    op.x = columns_of(d, op.x);
    pass->ops->dora_scale(pass->be, &op);
}

static struct tensor pass_z(const struct pass *pass, const struct linear_stack *l,
                            size_t layer)
{
    return pass_buffer(pass, l->z, layer);
}

/* z = x W^T, without the bias, of every layer of the stack. */
static void base_forward(const struct pass *pass, const struct linear_stack *l,
                         struct tensor x, struct tensor z)
{
    for (size_t i = 0; i < l->base_count; i++) {
        struct linear p = l->base[i];

        p.bias = (struct tensor) { 0 };
        linear_forward(pass, &p, x, z, 1, 0);
    }
}

/* Return the bias of a layer in fp32; absent without one.  Valid until the next call. */
static struct tensor bias_of(const struct pass *pass, const struct linear_stack *l,
                             const struct dora *d)
{
    for (size_t i = 0; i < l->base_count; i++) {
        const struct linear *p = &l->base[i];

        if (d->out_first >= p->out_first && d->out_first < p->out_first + p->out_count &&
            p->bias.data)
            return tensor_columns(pass_bias(pass, p->bias), d->out_first - p->out_first,
                                  d->out_count);
    }
    return (struct tensor) { 0 };
}

/* u, and z without it */
static void begin_z(const struct pass *pass, const struct linear_stack *l, size_t layer,
                    struct tensor x)
{
    lora_a_forward(pass, l, x, pass_u(pass, l, layer));
    base_forward(pass, l, pass_lora_input(pass, l, x), pass_z(pass, l, layer));
}

static void finish_z(const struct pass *pass, const struct linear_stack *l, size_t layer)
{
    float scale = (float)pass->model->shapes.lora.scale;

    for (size_t i = 0; i < l->lora_b_count; i++)
        linear_forward(pass, &l->lora_b[i], pass_u(pass, l, layer),
                       pass_z(pass, l, layer), scale, 1);
}

void dora_compute_z(const struct pass *pass, const struct linear_stack *l, size_t layer,
                    struct tensor x)
{
    begin_z(pass, l, layer, x);
    finish_z(pass, l, layer);
}

/* y = beta y + x W^T + b, less xd W^T in columns with adapters */
static void forward_apart(const struct pass *pass, const struct linear_stack *l,
                          size_t layer, struct tensor x, struct tensor y, float beta)
{
    struct tensor z = pass_z(pass, l, layer);

    for (size_t i = 0; i < l->base_count; i++)
        linear_forward(pass, &l->base[i], x, y, 1, beta);
    for (size_t i = 0; i < l->dora_count; i++) {
        const struct dora *d = &l->dora[i];

        if (d->magnitude)
            pass->ops->dora_scale(pass->be,
                                  &(struct op_dora_scale) { .out = columns_of(d, y),
                                                            .x = columns_of(d, z),
                                                            .beta = 1,
                                                            .offset = -2 });
    }
}

void dora_forward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                  struct tensor x, struct tensor y, float beta)
{
    bool drops = pass->training && pass->model->shapes.lora.dropout > 0;
    struct op_dora_scale op = { .out = y,
                                .x = pass_z(pass, l, layer),
                                .beta = drops ? 1 : beta };

    if (!pass->decoding && !pass->recomputes) /* the weights are the same as then */
        compute_norms(pass->model, l, layer);
    begin_z(pass, l, layer, x);
    if (drops)
        forward_apart(pass, l, layer, x, y, beta);
    finish_z(pass, l, layer);
    for (size_t i = 0; i < l->dora_count; i++) {
        const struct dora *d = &l->dora[i];

        if (drops && !d->magnitude)
            continue;
        if (!drops)
            op.bias = bias_of(pass, l, d);
        scale_columns(pass, d, layer, op);
    }
}

/* dz = dy (f + offset), and the gradients of the magnitudes if there is a z. */
static void scale_gradients(const struct pass *pass, const struct linear_stack *l,
                            size_t layer, struct op_dora_scale_backward whole)
{
    for (size_t i = 0; i < l->dora_count; i++) {
        const struct dora *d = &l->dora[i];
        struct op_dora_scale_backward op = { .dx = columns_of(d, whole.dx),
                                             .dout = columns_of(d, whole.dout),
                                             .magnitude = magnitude_of(d),
                                             .norm = norm_of(pass->model, d, layer),
                                             .offset = whole.offset };

        if (d->magnitude && whole.x.data) {
            op.x = columns_of(d, whole.x);
            op.dmagnitude = d->magnitude->grad;
        }
        pass->ops->dora_scale_backward(pass->be, &op);
    }
}

/* dx = dy W + dropout(dy (f - 1) W + g A) */
static void input_gradient_with_dropout(const struct pass *pass,
                                        const struct linear_stack *l, size_t layer,
                                        struct tensor dy, struct tensor dz,
                                        struct tensor dx)
{
    struct tensor scratch = pass_buffer(pass, BUFFER_LORA_X, 0);

    scratch = tensor_of(scratch.data, scratch.format, dx.rows, dx.cols);
    scale_gradients(
        pass, l, layer,
        (struct op_dora_scale_backward) { .dx = dz, .dout = dy, .offset = -1 });
    for (size_t i = 0; i < l->base_count; i++) {
        linear_input_gradient(pass, &l->base[i], dy, dx, 1, i == 0 ? 0 : 1);
        linear_input_gradient(pass, &l->base[i], dz, scratch, 1, i == 0 ? 0 : 1);
    }
    lora_input_gradient(pass, l, dx, 1);
}

void dora_backward_to_input(const struct pass *pass, const struct linear_stack *l,
                            size_t layer, struct tensor dy, struct tensor dx)
{
    struct tensor dz = pass_buffer(pass, BUFFER_DORA_G, 0);

    dz = tensor_of(dz.data, dz.format, dy.rows, l->y_cols);
    scale_gradients(pass, l, layer,
                    (struct op_dora_scale_backward) {
                        .dx = dz,
                        .dout = columns_of(&(struct dora) { .out_count = l->y_cols }, dy),
                        .x = pass_z(pass, l, layer) });
    lora_b_backward(pass, l, pass_u(pass, l, layer), dz);
    if (!dx.data)
        return;
    if (pass->model->shapes.lora.dropout > 0) {
        input_gradient_with_dropout(pass, l, layer, dy, dz, dx);
        return;
    }
    for (size_t i = 0; i < l->base_count; i++)
        linear_input_gradient(pass, &l->base[i], dz, dx, 1, i == 0 ? 0 : 1);
    lora_input_gradient(pass, l, dx, 0);
}

/* A magnitude starts as the norm: the adapter then changes nothing. */
static void init_stack(const struct model *m, const struct linear_stack *l, size_t layer)
{
    if (l->dora_count == 0)
        return;
    compute_norms(m, l, layer);
    for (size_t i = 0; i < l->dora_count; i++)
        if (l->dora[i].magnitude)
            m->be->ops->convert(
                m->be, &(struct op_convert) { .out = l->dora[i].magnitude->weight,
                                              .x = norm_of(m, &l->dora[i], layer) });
}

void model_init_magnitudes(struct model *m)
{
    if (!m->shapes.lora.dora || m->plan->generation.alone)
        return;
    for (size_t layer = 0; layer < m->config->layers; layer++) {
        const struct block *b = &m->blocks[layer];
        const struct linear_stack *const all[] = {
            &b->qkv,     &b->q_b,  &b->kv_b,       &b->o,        &b->scan_out,
            &b->gate_up, &b->down, &b->input_gate, &b->input_out
        };

        for (size_t i = 0; i < TS_COUNT(all); i++)
            init_stack(m, all[i], layer);
    }
    init_stack(m, &m->layer_inputs, 0);
}
