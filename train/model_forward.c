/* train/model_forward.c - tokens to losses, as model_parts.h draws it. */
#include "config.h"

#include "train/model.h"

#include <math.h>

#include "train/model_parts.h"

struct tensor pass_buffer(const struct pass *pass, enum buffer buffer, size_t layer)
{
    const struct shape_buffer *b = &pass->model->shapes.buffers[buffer];
    size_t rows = b->rows_are_n ? pass->rows : b->rows;
    size_t cols = b->cols_are_n ? pass->rows : b->cols;
    char *data = pass->model->buffers + b->at + (b->count > 1 ? layer : 0) * b->step;

    if (b->step == 0)
        return (struct tensor) { 0 };
    return tensor_of(data, b->format, rows, cols);
}

static const int32_t *pass_ids(const struct pass *pass, enum buffer buffer)
{
    return pass_buffer(pass, buffer, 0).data;
}

struct tensor pass_weight(const struct pass *pass, struct tensor weight)
{
    struct tensor scratch;

    if (weight.format == pass->model->shapes.compute)
        return weight;
    scratch = pass_buffer(pass, BUFFER_WEIGHT, 0);
    scratch = tensor_of(scratch.data, scratch.format, weight.rows, weight.cols);
    pass->ops->convert(pass->be, &(struct op_convert) { .out = scratch, .x = weight });
    return scratch;
}

struct tensor pass_bias(const struct pass *pass, struct tensor bias)
{
    struct tensor scratch;

    if (!bias.data || bias.format == FORMAT_FP32)
        return bias;
    scratch = pass_buffer(pass, BUFFER_BIAS, 0);
    scratch = tensor_of(scratch.data, FORMAT_FP32, 1, bias.cols);
    pass->ops->convert(pass->be, &(struct op_convert) { .out = scratch, .x = bias });
    return scratch;
}

void pass_dropout(const struct pass *pass, const struct linears *linears, struct tensor x,
                  struct tensor out)
{
    const struct op_dropout op = {
        .out = out,
        .x = x,
        .p = (float)pass->model->shapes.lora.dropout,
        .seed = (uint64_t)pass->model->plan->seed,
        .draw = &pass->numbers->draw,
        .stream = linears->stream,
    };

    pass->ops->dropout(pass->be, &op);
}

struct tensor pass_lora_input(const struct pass *pass, const struct linears *linears,
                              struct tensor x)
{
    struct tensor scratch = pass_buffer(pass, BUFFER_LORA_X, 0);

    if (!scratch.data || !pass->training)
        return x;
    scratch = tensor_of(scratch.data, scratch.format, x.rows, x.cols);
    pass_dropout(pass, linears, x, scratch);
    return scratch;
}

static void product_forward(const struct pass *pass, const struct product *p,
                            struct tensor x, struct tensor y, float alpha, float beta)
{
    const struct op_matmul op = {
        .out = tensor_columns(y, p->first, p->outs),
        .a = tensor_columns(x, p->from, p->ins),
        .b = pass_weight(pass, p->weight),
        .bias = pass_bias(pass, p->bias),
        .trans_b = true,
        .alpha = alpha,
        .beta = beta,
        .round_a = p->rounded ? FORMAT_FP8_E4M3 : FORMAT_FP32,
        .round_b = p->rounded ? FORMAT_FP8_E4M3 : FORMAT_FP32,
    };

    pass->ops->matmul(pass->be, &op);
}

/* u = dropout(x) A^T, which the backward pass wants too */
static void adapters_into(const struct pass *pass, const struct linears *l,
                          struct tensor x, struct tensor u)
{
    if (l->intos > 0)
        x = pass_lora_input(pass, l, x);
    for (size_t i = 0; i < l->intos; i++)
        product_forward(pass, &l->into[i], x, u, 1, 0);
}

struct tensor pass_u(const struct pass *pass, const struct linears *linears, size_t layer)
{
    return tensor_columns(pass_buffer(pass, linears->u, layer),
                          linears->beside ? linears->outs : 0, linears->adapters);
}

/* y = x W^T + b + scale u B^T; y may have more columns */
static void linears_forward(const struct pass *pass, const struct linears *l,
                            size_t layer, struct tensor x, struct tensor y)
{
    struct tensor u = pass_u(pass, l, layer);
    float scale = (float)pass->model->shapes.lora.scale;

    if (l->beside) {
        product_forward(pass, &l->both, x, y, 1, 0);
    } else {
        for (size_t i = 0; i < l->wholes; i++)
            product_forward(pass, &l->whole[i], x, y, 1, 0);
        adapters_into(pass, l, x, u);
    }
    for (size_t i = 0; i < l->outs_of; i++)
        product_forward(pass, &l->out_of[i], u, y, scale, 1);
}

/* The stream goes from x to sum = x + delta; its norm to out. */
static void norm_forward(const struct pass *pass, const struct parameter *weight,
                         struct op_rmsnorm op)
{
    op.weight = weight->weight;
    op.eps = (float)pass->model->config->norm_eps;
    pass->ops->rmsnorm(pass->be, &op);
}

/* q and k are neighbours: one call turns both. */
void model_rotate(const struct pass *pass, struct tensor qkv, bool inverse)
{
    const struct model_config *c = pass->model->config;
    size_t heads = c->heads + c->kv_heads;
    const struct op_rope op = {
        .x = tensor_columns(qkv, 0, heads * c->head_size),
        .table = pass_buffer(pass, BUFFER_ROPE, 0),
        .positions = pass_ids(pass, BUFFER_POSITIONS),
        .heads = heads,
        .inverse = inverse,
    };

    pass->ops->rope(pass->be, &op);
}

struct op_attention model_attention(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    size_t q = c->heads * c->head_size, kv = c->kv_heads * c->head_size;

    return (struct op_attention) {
        .out = pass_buffer(pass, BUFFER_ATT, layer),
        .lse = pass_buffer(pass, BUFFER_LSE, layer),
        .q = tensor_columns(qkv, 0, q),
        .k = tensor_columns(qkv, q, kv),
        .v = tensor_columns(qkv, q + kv, kv),
        .offsets = pass_ids(pass, BUFFER_OFFSETS),
        .sequences = pass->sequences,
        .longest = pass->longest,
        .heads = c->heads,
        .kv_heads = c->kv_heads,
        .head_size = c->head_size,
        .window = pass->model->blocks[layer].window,
        .scale = (float)(1 / sqrt((double)c->head_size)),
    };
}

void model_forward_block(const struct pass *pass, size_t layer, bool again)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor x_in = pass_buffer(pass, BUFFER_X_IN, layer);
    struct tensor x_mid = pass_buffer(pass, BUFFER_X_MID, layer);
    struct tensor h1 = pass_buffer(pass, BUFFER_H1, layer);
    struct tensor h2 = pass_buffer(pass, BUFFER_H2, layer);
    struct tensor gate_up = pass_buffer(pass, BUFFER_GATE_UP, layer);
    struct tensor act = pass_buffer(pass, BUFFER_ACT, layer);
    struct tensor delta = pass_buffer(pass, BUFFER_DELTA, 0);
    struct tensor qkv = pass_buffer(pass, BUFFER_QKV, layer);
    struct op_rmsnorm norm1 = { .out = h1, .sum = x_in, .x = x_in };

    norm1.rstd = pass_buffer(pass, BUFFER_RSTD1, layer);
    if (layer > 0 && !again) { /* what the block below adds comes in here */
        norm1.x = pass_buffer(pass, BUFFER_X_MID, layer - 1);
        norm1.delta = delta;
    }
    norm_forward(pass, b->norm1, norm1);
    linears_forward(pass, &b->qkv, layer, h1, qkv);
    model_rotate(pass, qkv, false);
    model_attend(pass, layer);
    linears_forward(pass, &b->o, layer, pass_buffer(pass, BUFFER_ATT, layer), delta);
    norm_forward(pass, b->norm2,
                 (struct op_rmsnorm) { .out = h2,
                                       .sum = x_mid,
                                       .rstd = pass_buffer(pass, BUFFER_RSTD2, layer),
                                       .x = x_in,
                                       .delta = delta });
    linears_forward(pass, &b->gate_up, layer, h2, gate_up);
    pass->ops->swiglu(pass->be, &(struct op_swiglu) {
                                    .out = act,
                                    .gate = tensor_columns(gate_up, 0, act.cols),
                                    .up = tensor_columns(gate_up, act.cols, act.cols) });
    if (again)
        adapters_into(pass, &b->down, act, pass_u(pass, &b->down, layer));
    else
        linears_forward(pass, &b->down, layer, act, delta);
}

void model_forward(const struct pass *pass)
{
    const struct model *m = pass->model;
    size_t last = m->config->layers - 1;
    const struct op_embedding embed = {
        .out = pass_buffer(pass, BUFFER_X_IN, 0),
        .table = m->embed_weight,
        .tokens = pass_ids(pass, BUFFER_TOKENS),
    };

    pass->ops->embedding(pass->be, &embed);
    for (size_t l = 0; l <= last; l++)
        model_forward_block(pass, l, false);
    norm_forward(pass, m->norm,
                 (struct op_rmsnorm) { .out = pass_buffer(pass, BUFFER_H_LAST, 0),
                                       .sum = pass_buffer(pass, BUFFER_X_LAST, 0),
                                       .rstd = pass_buffer(pass, BUFFER_RSTD, 0),
                                       .x = pass_buffer(pass, BUFFER_X_MID, last),
                                       .delta = pass_buffer(pass, BUFFER_DELTA, 0) });
}

void model_classify(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct tensor x = pass_buffer(pass, BUFFER_H_LAST, 0);
    struct tensor dh = pass_buffer(pass, BUFFER_DH, 0);
    struct op_classifier op = {
        .losses = tensor_rows(pass_buffer(pass, BUFFER_LOSSES, 0), 0, 1),
        .x = x,
        .w = pass_weight(pass, m->head_weight),
        .logits = pass_buffer(pass, BUFFER_LOGITS, 0),
        .dlogits = pass_buffer(pass, BUFFER_DLOGITS, 0),
        .gathered = pass_buffer(pass, BUFFER_GATHERED, 0),
        .dgathered = pass_buffer(pass, BUFFER_DGATHERED, 0),
        .targets = pass_ids(pass, BUFFER_TARGETS),
        .weights = pass->weighted ? pass_buffer(pass, BUFFER_WEIGHTS, 0).data : NULL,
        .rows = pass_buffer(pass, BUFFER_LABELLED, 0).data,
        .labelled = pass->labelled,
        .grad_scale = 1,
        .smoothing = (float)m->plan->label_smoothing,
    };

    if (pass->training) {
        op.scale = &pass->numbers->grad_scale;
        op.dx = tensor_of(dh.data, dh.format, x.rows, x.cols);
        op.dw = m->head->grad;
    }
    pass->ops->classifier(pass->be, &op);
}
