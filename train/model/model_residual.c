/* train/model/model_residual.c - the gradient of the residual, and norms on its way. */
#include "config.h"

#include "train/model/model_residual.h"

#include "train/model/model_cross.h"

/* Return the first C columns of a buffer, without the folded adapters. */
struct tensor residual_columns(const struct pass *pass, enum buffer buffer)
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
void apply_norm_backward(const struct pass *pass, const struct norm *norm,
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

/* Add the gradient of a norm to the gradient of the residual. */
void residual_norm_backward(const struct pass *pass, const struct norm_place *at,
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

static struct tensor gradient_through_gate(const struct pass *pass, size_t layer, bool o)
{
    struct tensor dx = residual_columns(pass, BUFFER_DX);
    struct tensor whole = pass_buffer(pass, BUFFER_DROPPED, 0);

    model_cross_gate_backward(pass, layer, o, dx, tensor_columns(whole, 0, dx.cols));
    return whole;
}

struct tensor post_norm_gradient(const struct pass *pass, const struct norm_place *at)
{
    struct tensor copy = pass_buffer(pass, BUFFER_DPOST_COPY, 0);
    struct op_rmsnorm_backward op = {
        .dx = residual_columns(pass, BUFFER_DPOST),
        .dcopy = residual_columns(pass, BUFFER_DPOST_COPY),
        .dout = residual_gradient(pass),
        .x = at->x,
        .rstd = at->rstd,
    };

    pass->ops->zero(pass->be, &(struct op_zero) { .out = op.dx });
    apply_norm_backward(pass, at->norm, op);
    return copy.data ? copy : pass_buffer(pass, BUFFER_DPOST, 0);
}

void add_to_residual_gradient(const struct pass *pass, struct tensor d)
{
    struct tensor dx = residual_columns(pass, BUFFER_DX);
    struct tensor copy = residual_columns(pass, BUFFER_DX_COPY);

    pass->ops->add(pass->be, &(struct op_add) { .out = dx, .a = dx, .b = d });
    if (copy.data)
        pass->ops->convert(pass->be, &(struct op_convert) { .out = copy, .x = dx });
}

/* Return the gradient of the output of layer o, or down: that of the residual, through
 * the dropout, the factor or the norm of what is added to it. */
struct tensor delta_gradient(const struct pass *pass, size_t layer, bool o)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct norm *post = o ? &b->post1 : &b->post2;
    const struct norm_place place = {
        .norm = post,
        .x = pass_buffer(pass, o ? BUFFER_POST1 : BUFFER_POST2, layer),
        .rstd = pass_buffer(pass, o ? BUFFER_RSTD_POST1 : BUFFER_RSTD_POST2, layer),
    };

    if (b->crosses)
        return gradient_through_gate(pass, layer, o);
    if (pass_uses_dropout(pass, pass->model->config->residual_dropout))
        return gradient_through_dropout(pass, layer, o);
    /* then the other has no room for folded adapters */
    if (!post->weight &&
        (pass->model->config->crosses || model_added_factor(pass, true) != 1 ||
         model_added_factor(pass, false) != 1))
        return scaled_gradient(pass, model_added_factor(pass, o));
    return post->weight ? post_norm_gradient(pass, &place) : residual_gradient(pass);
}

/* Return the buffer for the gradient of the output of a norm or of attention; absent if
 * no sublayer below is trained. */
struct tensor output_gradient(const struct pass *pass, size_t cols, size_t index)
{
    struct tensor wide = pass_buffer(pass, BUFFER_DH, 0);

    if (index <= pass->model->first_trained)
        return (struct tensor) { 0 };
    return tensor_of(wide.data, wide.format, wide.rows, cols);
}

/* Return the norm before a stack. */
struct norm_place norm_before(const struct pass *pass, enum stack stack, size_t layer)
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
struct tensor norm_output(const struct pass *pass, const struct norm_place *at,
                          bool trained)
{
    if (trained && !at->kept)
        model_norm(pass, at->norm,
                   (struct op_rmsnorm) {
                       .out = at->h, .sum = at->x, .x = at->x, .rstd = at->rstd });
    return at->h;
}
