/*
 * train/model/model_branches.c - blocks whose MLP and experts have norms of their own, forward
 * and backward (Gemma 4).
 *
 *     s = norm'(MLP(norm2(x_mid)))        of all rows
 *     e = norm'(experts(norm(x_mid)))     chosen by a router of norm(x_mid) * scale / sqrt(C)
 *     d = norm'(s + e)                    what is added to the residual
 *
 * The three norms of x_mid have different weights, and the same 1 / rms.
 */
#include "config.h"

#include "train/model/model.h"

#include "train/model/model_internal.h"
#include "train/model/model_linear.h"
#include "train/model/model_residual.h"

/* Return a norm of x_mid whose output is scratch. */
static struct norm_place own_norm(const struct pass *pass, size_t layer,
                                  const struct norm *norm)
{
    return (struct norm_place) {
        .norm = norm,
        .x = pass_buffer(pass, BUFFER_X_MID, layer),
        .rstd = pass_buffer(pass, BUFFER_RSTD2, layer),
        .h = pass_buffer(pass, BUFFER_EXPERT_H, 0),
    };
}

/* A norm of the output of a branch. */
struct branch {
    const struct norm *norm;
    enum buffer out, rstd;
};

static void post_norm(const struct pass *pass, size_t layer, const struct branch *branch,
                      struct tensor to)
{
    model_norm(pass, branch->norm,
               (struct op_rmsnorm) { .out = to,
                                     .x = pass_buffer(pass, branch->out, layer),
                                     .rstd = pass_buffer(pass, branch->rstd, layer) });
}

static struct branch mlp_branch(const struct block *b)
{
    return (struct branch) { &b->shared_post, BUFFER_MLP_OUT, BUFFER_RSTD_MLP };
}

static struct branch experts_branch(const struct block *b)
{
    return (struct branch) { &b->expert_post, BUFFER_EXPERTS_OUT, BUFFER_RSTD_EXPERTS };
}

void model_branches_forward(const struct pass *pass, size_t layer, struct tensor h,
                            bool recompute)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct branch mlp = mlp_branch(b), experts = experts_branch(b);
    const struct norm_place router = own_norm(pass, layer, &b->router_norm);
    const struct norm_place input = own_norm(pass, layer, &b->expert_norm);
    struct tensor sum = pass_buffer(pass, BUFFER_POST2, layer);
    struct tensor other = pass_buffer(pass, BUFFER_DELTA, 0);

    model_experts_route(pass, layer, norm_output(pass, &router, true), recompute);
    model_experts_run(pass, layer, norm_output(pass, &input, true),
                      pass_buffer(pass, experts.out, layer));
    stack_forward(pass, &b->gate_up, layer, h, pass_buffer(pass, BUFFER_GATE_UP, layer),
                  0);
    stack_forward(pass, &b->down, layer, model_activate(pass, layer),
                  pass_buffer(pass, mlp.out, layer), 0);
    post_norm(pass, layer, &mlp, sum);
    post_norm(pass, layer, &experts, other);
    pass->ops->add(pass->be, &(struct op_add) { .out = sum, .a = sum, .b = other });
}

/* Return the gradient of the output of a branch before its norm, with room for folded
 * adapters after it. */
static struct tensor branch_gradient(const struct pass *pass, size_t layer,
                                     const struct branch *branch, struct tensor d)
{
    struct tensor copy = pass_buffer(pass, BUFFER_DBRANCH_COPY, 0);
    struct op_rmsnorm_backward op = {
        .dx = residual_columns(pass, BUFFER_DBRANCH),
        .dcopy = residual_columns(pass, BUFFER_DBRANCH_COPY),
        .dout = d,
        .x = pass_buffer(pass, branch->out, layer),
        .rstd = pass_buffer(pass, branch->rstd, layer),
    };

    pass->ops->zero(pass->be, &(struct op_zero) { .out = op.dx });
    apply_norm_backward(pass, branch->norm, op);
    return copy.data ? copy : pass_buffer(pass, BUFFER_DBRANCH, 0);
}

static void experts_backward(const struct pass *pass, size_t layer, struct tensor d,
                             struct tensor dh)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct branch experts = experts_branch(b);
    const struct norm_place router = own_norm(pass, layer, &b->router_norm);
    const struct norm_place input = own_norm(pass, layer, &b->expert_norm);

    model_experts_run_backward(pass, layer,
                               norm_output(pass, &input, b->expert_gate_up.trained),
                               branch_gradient(pass, layer, &experts, d), dh);
    if (dh.data)
        residual_norm_backward(pass, &input, dh);
    if (!dh.data && !b->router.trained && !b->expert_scale->trainable)
        return;
    model_experts_route_backward(pass, layer,
                                 norm_output(pass, &router, b->router.trained), dh);
    if (dh.data)
        residual_norm_backward(pass, &router, dh);
}

bool model_branches_backward(const struct pass *pass, size_t layer)
{
    const struct model *m = pass->model;
    const struct block *b = &m->blocks[layer];
    const struct branch mlp = mlp_branch(b);
    const struct norm_place norm = norm_before(pass, STACK_GATE_UP, layer);
    struct tensor dh = output_gradient(pass, m->config->hidden_size,
                                       sublayer_index(layer, SUBLAYER_GATE_UP));
    struct tensor d = delta_gradient(pass, layer, false), h;

    d = tensor_columns(d, 0, m->config->hidden_size);
    experts_backward(pass, layer, d, dh);
    h = norm_output(pass, &norm, b->gate_up.trained);
    if (model_down_backward(pass, layer, branch_gradient(pass, layer, &mlp, d),
                            dh.data || b->gate_up.trained))
        stack_backward(pass, &b->gate_up, layer, h,
                       pass_buffer(pass, BUFFER_GATE_UP, layer), dh);
    if (!dh.data)
        return false;
    residual_norm_backward(pass, &norm, dh);
    return sublayer_index(layer, SUBLAYER_NORM2) > m->first_trained;
}
