/* train/model/model_linear.c - linear layers over the same input, with their adapters,
 * forward and backward; model_internal.h has the formulas. */
#include "config.h"

#include "train/model/model_linear.h"

#include "train/model/model_cross.h"
#include "train/model/model_dora.h"
#include "train/model/model_internal.h"
#include "train/model/model_rotation.h"

struct tensor pass_lora_input(const struct pass *pass, const struct linear_stack *stack,
                              struct tensor x)
{
    struct tensor scratch = pass_buffer(pass, BUFFER_LORA_X, 0);

    if (!scratch.data || !pass->training)
        return x;
    scratch = tensor_of(scratch.data, scratch.format, x.rows, x.cols);
    pass_dropout(pass, pass->model->shapes.lora.dropout, stack->dropout_stream, x,
                 scratch);
    return scratch;
}

/* Issue the matmul of a layer of the experts: each multiplies the rows of its pairs. */
static void grouped(const struct pass *pass, const struct linear *p, struct op_matmul op)
{
    const struct op_grouped_matmul of_groups = {
        .out = op.out,
        .a = op.a,
        .b = op.b,
        .starts = pass_buffer(pass, BUFFER_EXPERT_STARTS, p->layer).data,
        .groups = p->experts,
        .trans_a = op.trans_a,
        .trans_b = op.trans_b,
        .alpha = op.alpha,
        .beta = op.beta,
    };

    pass->ops->grouped_matmul(pass->be, &of_groups);
    if (op.bias.data)
        pass->ops->group_bias(pass->be,
                              &(struct op_group_bias) { .out = op.out,
                                                        .bias = op.bias,
                                                        .starts = of_groups.starts,
                                                        .groups = p->experts });
}

static void multiply(const struct pass *pass, const struct linear *p,
                     const struct op_matmul *op)
{
    if (p->experts > 0)
        grouped(pass, p, *op);
    else
        pass->ops->matmul(pass->be, op);
}

void linear_forward(const struct pass *pass, const struct linear *p, struct tensor x,
                    struct tensor y, float alpha, float beta)
{
    const struct op_matmul op = {
        .out = tensor_columns(y, p->out_first, p->out_count),
        .a = tensor_columns(x, p->in_first, p->in_count),
        .b = pass_linear_weight(pass, p),
        .bias = pass_bias(pass, p->bias),
        .trans_b = !p->transposed,
        .alpha = alpha,
        .beta = beta,
        .round_a = p->fp8 ? FORMAT_FP8_E4M3 : FORMAT_FP32,
        .round_b = p->fp8 ? FORMAT_FP8_E4M3 : FORMAT_FP32,
        .rounded_a = pass_rounded_input(pass, p, false),
        .rounded_b = pass_rounded_weight(pass, p, false),
    };

    multiply(pass, p, &op);
}

void lora_a_forward(const struct pass *pass, const struct linear_stack *l,
                    struct tensor x, struct tensor u)
{
    x = l->lora_a_count > 0 ? pass_lora_input(pass, l, x) : x;
    for (size_t i = 0; i < l->lora_a_count; i++)
        linear_forward(pass, &l->lora_a[i], x, u, 1, 0);
}

struct tensor pass_u(const struct pass *pass, const struct linear_stack *stack,
                     size_t layer)
{
    struct tensor u = pass_buffer(pass, stack->u, layer);

    if (stack->experts > 0)
        return pass_pairs(pass, stack->u, layer);
    if (stack->of_images && u.data)
        u = tensor_rows(u, 0, model_cross_rows(pass->model));
    return tensor_columns(u, stack->u_after_y ? stack->y_cols : 0, stack->u_cols);
}

void stack_recompute(const struct pass *pass, const struct linear_stack *l, size_t layer,
                     struct tensor x)
{
    if (l->dora_count > 0)
        dora_compute_z(pass, l, layer, x);
    else
        lora_a_forward(pass, l, x, pass_u(pass, l, layer));
}

/* y = beta y + factor (x W^T + b + scale u B^T), a factor other than 1 without b; y may have
 * more columns */
void stack_forward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                   struct tensor x, struct tensor y, float beta)
{
    struct tensor u = pass_u(pass, l, layer);
    float scale = l->factor * (float)pass->model->shapes.lora.scale;

    if (l->dora_count > 0 && !pass->skip_adapters) {
        dora_forward(pass, l, layer, x, y, beta);
        return;
    }
    if (l->rotates && !pass->skip_adapters) {
        rotation_forward(pass, l, layer, x, y, beta);
        return;
    }
    /* one matmul with or without adapters, so that y has the same bits */
    if (l->u_after_y) {
        linear_forward(pass, &l->fused, x, y, 1, 0);
    } else {
        for (size_t i = 0; i < l->base_count; i++)
            linear_forward(pass, &l->base[i], x, y, l->factor, beta);
    }
    if (pass->skip_adapters)
        return;
    if (!l->u_after_y)
        lora_a_forward(pass, l, x, u);
    for (size_t i = 0; i < l->lora_b_count; i++)
        linear_forward(pass, &l->lora_b[i], u, y, scale, 1);
}

/* grad (+)= alpha dy^T x, or its transpose, and the gradient of the bias.  read: dx has read dy. */
void linear_weight_gradient(const struct pass *pass, const struct linear *p,
                            struct tensor x, struct tensor dy, float alpha, bool read)
{
    struct rounded_matrix rounded = { 0 };

    if (read)
        rounded = pass_rounded_gradient(pass, p, true);

    dy = tensor_columns(dy, p->out_first, p->out_count);
    if (p->grad.data) {
        const struct tensor in = tensor_columns(x, p->in_first, p->in_count);

        multiply(pass, p,
                 &(struct op_matmul) { .out = p->grad,
                                       .a = p->transposed ? in : dy,
                                       .b = p->transposed ? dy : in,
                                       .trans_a = true,
                                       .alpha = alpha,
                                       .beta = pass->first ? 0 : 1,
                                       .round_a = p->fp8 ? FORMAT_FP8_E5M2 : FORMAT_FP32,
                                       .round_b = p->fp8 ? FORMAT_FP8_E4M3 : FORMAT_FP32,
                                       .rounded_a = rounded,
                                       .rounded_b = pass_rounded_input(pass, p, true) });
    }
    if (p->bias_grad.data && p->experts > 0)
        pass->ops->group_bias_backward(
            pass->be,
            &(struct op_group_bias_backward) {
                .dbias = p->bias_grad,
                .dout = dy,
                .starts = pass_buffer(pass, BUFFER_EXPERT_STARTS, p->layer).data,
                .groups = p->experts });
    else if (p->bias_grad.data)
        pass->ops->sum_rows(pass->be,
                            &(struct op_sum_rows) { .out = p->bias_grad, .x = dy });
}

void linear_input_gradient(const struct pass *pass, const struct linear *p,
                           struct tensor dy, struct tensor dx, float alpha, float beta)
{
    multiply(pass, p,
             &(struct op_matmul) { .out = tensor_columns(dx, p->in_first, p->in_count),
                                   .a = tensor_columns(dy, p->out_first, p->out_count),
                                   .b = pass_linear_weight(pass, p),
                                   .trans_b = p->transposed,
                                   .alpha = alpha,
                                   .beta = beta,
                                   .round_a = p->fp8 ? FORMAT_FP8_E5M2 : FORMAT_FP32,
                                   .round_b = p->fp8 ? FORMAT_FP8_E4M3 : FORMAT_FP32,
                                   .rounded_a = pass_rounded_gradient(pass, p, false),
                                   .rounded_b = pass_rounded_weight(pass, p, true) });
}

/* Return the gradient g of x A^T: it follows dy if the adapters are folded. */
static struct tensor adapter_gradient(const struct pass *pass,
                                      const struct linear_stack *l, struct tensor dy)
{
    struct tensor g = pass_buffer(pass, BUFFER_LORA_G, 0);

    if (l->folded)
        return tensor_columns(dy, l->y_cols, l->u_cols);
    return tensor_of(g.data, g.format, dy.rows, l->u_cols);
}

void lora_input_gradient(const struct pass *pass, const struct linear_stack *l,
                         struct tensor dx, float beta)
{
    struct tensor g = adapter_gradient(pass, l, dx);
    struct tensor scratch = pass_buffer(pass, BUFFER_LORA_X, 0);
    struct tensor to = dx;

    if (scratch.data)
        to = tensor_of(scratch.data, scratch.format, dx.rows, dx.cols);
    for (size_t i = 0; i < l->lora_a_count; i++)
        linear_input_gradient(pass, &l->lora_a[i], g, to, 1,
                              scratch.data && i == 0 ? beta : 1);
    if (!scratch.data)
        return;
    pass_dropout(pass, pass->model->shapes.lora.dropout, l->dropout_stream, to, to);
    pass->ops->add(pass->be, &(struct op_add) { .out = dx, .a = dx, .b = to });
}

/* g may overwrite u. */
void lora_b_backward(const struct pass *pass, const struct linear_stack *l,
                     struct tensor u, struct tensor dy)
{
    float scale = l->factor * (float)pass->model->shapes.lora.scale;
    struct tensor g = adapter_gradient(pass, l, dy);

    for (size_t i = 0; i < l->lora_b_count; i++)
        linear_weight_gradient(pass, &l->lora_b[i], u, dy, scale, false);
    for (size_t i = 0; i < l->lora_b_count; i++)
        linear_input_gradient(pass, &l->lora_b[i], dy, g, scale, 0);
}

void stack_backward_to_input(const struct pass *pass, const struct linear_stack *l,
                             size_t layer, struct tensor dy, struct tensor dx)
{
    if (l->dora_count > 0) {
        dora_backward_to_input(pass, l, layer, dy, dx);
        return;
    }
    if (l->rotates) {
        rotation_backward_to_input(pass, l, layer, dy, dx);
        return;
    }
    if (l->lora_b_count > 0)
        lora_b_backward(pass, l, pass_u(pass, l, layer), dy);
    if (!dx.data)
        return;
    if (l->folded) {
        linear_input_gradient(pass, &l->fused, dy, dx, 1, 0);
        return;
    }
    for (size_t i = 0; i < l->base_count; i++)
        linear_input_gradient(pass, &l->base[i], dy, dx, 1, i == 0 ? 0 : 1);
    if (l->lora_b_count > 0)
        lora_input_gradient(pass, l, dx, 0);
}

/* dA (+)= g^T dropout(x) */
static void lora_a_backward(const struct pass *pass, const struct linear_stack *l,
                            struct tensor x, struct tensor dy)
{
    x = pass_lora_input(pass, l, x);
    for (size_t i = 0; i < l->lora_a_count; i++)
        linear_weight_gradient(pass, &l->lora_a[i], x, adapter_gradient(pass, l, dy), 1,
                               false);
}

void adapters_backward(const struct pass *pass, const struct linear_stack *l,
                       size_t layer, struct tensor x, struct tensor dy, struct tensor dx)
{
    if (l->lora_b_count == 0)
        return;
    lora_b_backward(pass, l, pass_u(pass, l, layer), dy);
    if (dx.data)
        lora_input_gradient(pass, l, dx, 0);
    lora_a_backward(pass, l, x, dy);
}

void stack_backward_to_weights(const struct pass *pass, const struct linear_stack *l,
                               struct tensor x, struct tensor dy, bool read)
{
    if (!l->folded)
        for (size_t i = 0; i < l->base_count; i++)
            linear_weight_gradient(pass, &l->base[i], x, dy, 1, read);
    if (l->lora_b_count > 0)
        lora_a_backward(pass, l, x, dy);
    if (l->rotates)
        rotation_backward_to_weights(pass, l, x);
}

void stack_backward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                    struct tensor x, struct tensor dy, struct tensor dx)
{
    stack_backward_to_input(pass, l, layer, dy, dx);
    stack_backward_to_weights(pass, l, x, dy, dx.data != NULL);
}
