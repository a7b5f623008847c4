/*
 * train/model/model_inputs.c - inputs that each layer has next to the residual, forward and
 * backward (Gemma 4 E2B and E4B; transformers, models/gemma4/modeling_gemma4.py).
 *
 * Before the blocks, for all L layers at once, with P columns each, e the scaled embeddings and
 * t the scaled rows of another table:
 *
 *     inputs = (norm of each P columns (e W^T / sqrt(C)) + t) / sqrt(2)
 *
 * In a block, with x the residual after the MLP:
 *
 *     gate = x Wg^T      next x_in = factor (x + norm3((f(gate) inputs of the layer) Wo^T))
 */
#include "config.h"

#include "train/model/model.h"

#include <assert.h>
#include <math.h>

#include "train/model/model_internal.h"
#include "train/model/model_linear.h"
#include "train/model/model_residual.h"

static bool have_inputs(const struct model *m)
{
    return m->config->layer_inputs > 0;
}

/* Return the columns of a layer in the inputs of all, or in their gradients. */
static struct tensor input_of(const struct pass *pass, size_t layer)
{
    const size_t cols = pass->model->config->layer_inputs;

    return tensor_columns(pass_buffer(pass, BUFFER_INPUTS, 0), layer * cols, cols);
}

/* Some layers' columns of the inputs, and scratch for as many in fp32. */
struct piece {
    size_t first, count;
    struct tensor inputs, scratch;
};

/* Return the next piece, which BUFFER_DELTA has room for; false: there is none. */
static bool next_piece(const struct pass *pass, struct piece *piece)
{
    const struct model_config *c = pass->model->config;
    const struct tensor all = pass_buffer(pass, BUFFER_INPUTS, 0),
                        room = pass_buffer(pass, BUFFER_DELTA, 0);
    const size_t most = c->hidden_size / c->layer_inputs * c->layer_inputs;

    piece->first += piece->count;
    if (piece->first == all.cols)
        return false;
    piece->count = all.cols - piece->first < most ? all.cols - piece->first : most;
    piece->inputs = tensor_columns(all, piece->first, piece->count);
    piece->scratch = tensor_of(room.data, FORMAT_FP32, all.rows, piece->count);
    return true;
}

/* Add the rows of the tokens. */
static void add_tokens(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct piece piece = { 0 };

    while (next_piece(pass, &piece)) {
        pass->ops->embedding(
            pass->be,
            &(struct op_embedding) {
                .out = piece.scratch,
                .table = tensor_columns(m->layer_embed->weight, piece.first, piece.count),
                .tokens = pass_buffer(pass, BUFFER_TOKENS, 0).data,
                .scale = m->layer_embed_scale });
        pass->ops->add(pass->be,
                       &(struct op_add) { piece.scratch, piece.scratch, piece.inputs });
        pass->ops->scale(pass->be, &(struct op_scale) { .out = piece.inputs,
                                                        .x = piece.scratch,
                                                        .factor = (float)M_SQRT1_2 });
    }
}

/* Return the embeddings as matmuls read them. */
static struct tensor embeddings(const struct pass *pass)
{
    struct tensor e = pass_buffer(pass, BUFFER_H1, 0); /* block 0 does not need it now */

    pass->ops->convert(pass->be, &(struct op_convert) {
                                     .out = e, .x = pass_buffer(pass, BUFFER_X_IN, 0) });
    return e;
}

static double projection_scale(const struct pass *pass)
{
    return 1 / sqrt((double)pass->model->config->hidden_size);
}

void model_inputs_prepare(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct tensor projected = pass_buffer(pass, BUFFER_PROJECTED, 0);

    if (!have_inputs(m))
        return;
    stack_forward(pass, &m->layer_inputs, 0, embeddings(pass), projected, 0);
    pass_scale(pass, projection_scale(pass), projected, projected);
    pass->ops->headnorm(pass->be, &(struct op_headnorm) {
                                      .out = pass_buffer(pass, BUFFER_INPUTS, 0),
                                      .rstd = pass_buffer(pass, BUFFER_RSTD_INPUTS, 0),
                                      .x = projected,
                                      .weight = m->layer_norm.weight->weight,
                                      .eps = (float)m->config->norm_eps,
                                      .offset = model_norm_offset(m),
                                      .heads = m->config->layers });
    add_tokens(pass);
}

/* Of the table: in pieces, because lookups go back from fp32. */
static void tokens_backward(const struct pass *pass)
{
    const struct model *m = pass->model;
    const int64_t padding = m->config->padding;
    struct piece piece = { 0 };

    while (m->layer_embed->trainable && next_piece(pass, &piece)) {
        pass->ops->convert(
            pass->be, &(struct op_convert) { .out = piece.scratch, .x = piece.inputs });
        pass->ops->embedding_backward(
            pass->be,
            &(struct op_embedding_backward) {
                .dtable = tensor_columns(m->layer_embed->grad, piece.first, piece.count),
                .dout = piece.scratch,
                .tokens = pass_buffer(pass, BUFFER_TOKENS, 0).data,
                .scale = m->layer_embed_scale,
                .padding = (int32_t)padding,
                .padded = padding >= 0 });
    }
}

void model_inputs_embed_backward(const struct pass *pass)
{
    const struct model *m = pass->model;
    struct tensor d = pass_buffer(pass, BUFFER_INPUTS, 0), dx = { 0 };

    if (!have_inputs(m))
        return;
    pass_scale(pass, M_SQRT1_2, d, d);
    tokens_backward(pass);
    if (!m->layer_inputs.trained && !m->layer_norm.weight->trainable &&
        !m->embed->trainable)
        return;
    pass->ops->headnorm_backward(
        pass->be,
        &(struct op_headnorm_backward) { .dx = d,
                                         .dweight = m->layer_norm.weight->grad,
                                         .dout = d,
                                         .x = pass_buffer(pass, BUFFER_PROJECTED, 0),
                                         .weight = m->layer_norm.weight->weight,
                                         .rstd = pass_buffer(pass, BUFFER_RSTD_INPUTS, 0),
                                         .offset = model_norm_offset(m),
                                         .heads = m->config->layers });
    pass_scale(pass, projection_scale(pass), d, d);
    if (m->embed->trainable)
        dx = output_gradient(pass, m->config->hidden_size, sublayer_index(0, 0));
    stack_backward(pass, &m->layer_inputs, 0, embeddings(pass), d, dx);
    if (dx.data)
        add_to_residual_gradient(pass, dx);
}

/* Return the input of the layer back: f(gate) times the layer's input. */
static struct tensor multiply_input(const struct pass *pass, size_t layer)
{
    struct tensor act = pass_buffer(pass, BUFFER_INPUT_ACT, 0);

    pass->ops->swiglu(pass->be, &(struct op_swiglu) {
                                    .out = act,
                                    .gate = pass_buffer(pass, BUFFER_INPUT_GATE, layer),
                                    .up = input_of(pass, layer),
                                    .kind = pass->model->config->activation });
    return act;
}

void model_inputs_forward(const struct pass *pass, size_t layer, struct tensor delta)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor x = pass_buffer(pass, BUFFER_INPUT_X, layer);
    struct tensor gate = pass_buffer(pass, BUFFER_INPUT_GATE, layer);
    struct tensor out = pass_buffer(pass, BUFFER_POST3, layer);

    pass->ops->add(pass->be,
                   &(struct op_add) { .out = x,
                                      .a = pass_buffer(pass, BUFFER_X_MID, layer),
                                      .b = delta });
    stack_forward(pass, &b->input_gate, layer, x, gate, 0);
    stack_forward(pass, &b->input_out, layer, multiply_input(pass, layer), out, 0);
    model_norm(
        pass, &b->post3,
        (struct op_rmsnorm) { .out = delta,
                              .x = out,
                              .rstd = pass_buffer(pass, BUFFER_RSTD_POST3, layer) });
}

bool model_inputs_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    struct tensor dy, d = pass_buffer(pass, BUFFER_INPUT_ACT, 0), dx;
    struct tensor gate = pass_buffer(pass, BUFFER_INPUT_GATE, layer);

    dy = post_norm_gradient(
        pass,
        &(struct norm_place) { .norm = &b->post3,
                               .x = pass_buffer(pass, BUFFER_POST3, layer),
                               .rstd = pass_buffer(pass, BUFFER_RSTD_POST3, layer) });
    stack_backward_to_input(pass, &b->input_out, layer, dy, d);
    /* the input of the layer out again, over its gradient */
    pass->ops->swiglu_backward(
        pass->be, &(struct op_swiglu_backward) { .dgate = gate,
                                                 .dup = input_of(pass, layer),
                                                 .out = d,
                                                 .dout = d,
                                                 .gate = gate,
                                                 .up = input_of(pass, layer),
                                                 .kind = m->config->activation });
    stack_backward_to_weights(pass, &b->input_out, d, dy, true);
    dx = output_gradient(pass, m->config->hidden_size,
                         sublayer_index(layer, SUBLAYER_INPUT));
    stack_backward(pass, &b->input_gate, layer, pass_buffer(pass, BUFFER_INPUT_X, layer),
                   gate, dx);
    if (!dx.data)
        return false;
    add_to_residual_gradient(pass, dx);
    return true;
}
