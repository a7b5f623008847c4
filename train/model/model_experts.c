/*
 * train/model/model_experts.c - blocks with a mixture of experts, forward and backward.
 *
 *     z = h Wr^T                          the router; op_route chooses k experts for a row
 *     x = rows of h by expert             M = k N pairs
 *     y = (f(x Wg^T) x Wu^T) Wd^T         each group of rows by the matrices of its expert
 *     out = sum over the pairs of a row of their weights times y
 *
 * Or the weights multiply the rows of x instead: Llama 4.
 *
 * Experts and router may have norms of their own: model_branches.c.
 *
 * The MLP next to the experts is like an expert that all rows choose, with weight 1 or the
 * sigmoid of another router.
 */
#include "config.h"

#include "train/model/model.h"

#include "train/model/expert_config.h"
#include "train/model/model_internal.h"
#include "train/model/model_linear.h"

struct tensor pass_pairs(const struct pass *pass, enum buffer buffer, size_t layer)
{
    struct tensor t = pass_buffer(pass, buffer, layer);
    size_t k = pass->model->config->chosen_experts;

    return t.data ? tensor_of(t.data, t.format, t.rows * k, t.cols / k) : t;
}

static int32_t *ids(const struct pass *pass, enum buffer buffer, size_t layer)
{
    return pass_buffer(pass, buffer, layer).data;
}

static bool is_mixer(const struct pass *pass)
{
    return pass->model->config->architecture->experts.mixer_jitter > 0;
}

/* Return whether this pass draws the noise of the inputs, and the experts of rows. */
static bool pass_draws(const struct pass *pass)
{
    return pass->training && !pass->second;
}

static bool pass_samples_experts(const struct pass *pass)
{
    return pass_draws(pass) && is_mixer(pass);
}

void model_experts_jitter(const struct pass *pass, size_t layer, struct tensor x)
{
    const struct model *m = pass->model;

    if (pass_draws(pass) && m->config->input_jitter > 0)
        pass->ops->jitter(pass->be,
                          &(struct op_jitter) { .x = x,
                                                .twice = is_mixer(pass),
                                                .size = (float)m->config->input_jitter,
                                                .seed = (uint64_t)m->plan->seed,
                                                .stream = (uint32_t)layer + 1,
                                                .draw = &pass->scalars->draw,
                                                .rows = &pass->scalars->rows });
}

/* Return the operands of the routing to the experts. */
static struct op_route experts_route(const struct pass *pass, size_t layer)
{
    const struct model_config *c = pass->model->config;
    const struct expert_columns *row = &c->architecture->experts;
    const struct parameter *bias = pass->model->blocks[layer].router_bias;

    return (struct op_route) {
        .probabilities = pass_buffer(pass, BUFFER_ROUTED, layer),
        .weights = pass_buffer(pass, BUFFER_PAIR_WEIGHTS, layer),
        .logits = pass_buffer(pass, BUFFER_ROUTER_LOGITS, 0),
        .bias = bias ? bias->weight : (struct tensor) { 0 },
        .experts = ids(pass, BUFFER_PAIR_EXPERTS, layer),
        .order = ids(pass, BUFFER_PAIR_ORDER, layer),
        .slots = ids(pass, BUFFER_PAIR_SLOTS, layer),
        .starts = ids(pass, BUFFER_EXPERT_STARTS, layer),
        .counts = ids(pass, BUFFER_EXPERT_COUNTS, 0),
        .rows = &pass->scalars->rows,
        .kind = row->mixer_jitter > 0 ? ROUTE_SPARSEMIXER
                : row->sigmoid        ? ROUTE_SIGMOID
                                      : ROUTE_SOFTMAX,
        .normalize = c->normalizes_experts,
        .group_pairs = row->sigmoid || row->group_pairs,
        .groups = c->expert_groups,
        .groups_kept = c->expert_groups_kept,
        .scale = (float)c->expert_scale,
        .least_sum = (float)row->least_sum,
        .jitter = (float)c->router_jitter,
        .sampled = pass_samples_experts(pass),
        .seed = (uint64_t)pass->model->plan->seed,
        .draw = &pass->scalars->draw,
        .stream = (uint32_t)layer,
    };
}

/* Return those of the sigmoid that weights the MLP next to the experts: one expert, which
 * every row chooses, so the pairs are in the order of the rows. */
static struct op_route shared_route(const struct pass *pass, size_t layer)
{
    size_t n = pass->rows;
    float *both = pass_buffer(pass, BUFFER_SHARED_WEIGHT, layer).data;
    int32_t *scratch = ids(pass, BUFFER_SHARED_IDS, 0);

    return (struct op_route) {
        .probabilities = tensor_of(both, FORMAT_FP32, n, 1),
        .weights = tensor_of(both + n, FORMAT_FP32, n, 1),
        .logits =
            tensor_of(pass_buffer(pass, BUFFER_ROUTER_LOGITS, 0).data, FORMAT_FP32, n, 1),
        .experts = scratch,
        .order = scratch + n,
        .slots = ids(pass, BUFFER_SHARED_SLOTS, layer),
        .starts = scratch + 2 * n,
        .kind = ROUTE_SIGMOID,
    };
}

static struct tensor expert_columns(const struct pass *pass, size_t layer, size_t index)
{
    size_t size = pass->model->config->expert_size;

    return tensor_columns(pass_pairs(pass, BUFFER_EXPERT_GATE_UP, layer), index * size,
                          size);
}

static void activate(const struct pass *pass, size_t layer, struct tensor act)
{
    const struct model_config *c = pass->model->config;
    struct tensor gate = expert_columns(pass, layer, 0),
                  up = expert_columns(pass, layer, 1);

    if (c->clamp_limit > 0)
        pass->ops->clamped(pass->be,
                           &(struct op_clamped) { .out = act,
                                                  .gate = gate,
                                                  .up = up,
                                                  .alpha = (float)c->clamp_alpha,
                                                  .limit = (float)c->clamp_limit });
    else
        pass->ops->swiglu(
            pass->be, &(struct op_swiglu) {
                          .out = act, .gate = gate, .up = up, .kind = c->activation });
}

static bool scales_inputs(const struct pass *pass)
{
    return pass->model->config->architecture->experts.scales_inputs;
}

/* Return the weights of pairs, with learned factors if there are any. */
static struct tensor pair_weights(const struct pass *pass, size_t layer)
{
    struct tensor factors = pass_buffer(pass, BUFFER_PAIR_FACTORS, layer);

    return factors.data ? factors : pass_buffer(pass, BUFFER_PAIR_WEIGHTS, layer);
}

/* Return the operands that multiply rows of x by the weights of their pairs, into dy: what
 * the backward pass of a weighted sum does, too. */
static struct op_combine_backward scale_pairs(const struct pass *pass, size_t layer,
                                              struct tensor dy, struct tensor x)
{
    return (struct op_combine_backward) {
        .dy = dy,
        .dout = x,
        .weights = pair_weights(pass, layer),
        .slots = ids(pass, BUFFER_PAIR_SLOTS, layer),
    };
}

static void copy_pairs(const struct pass *pass, size_t layer, struct tensor pairs,
                       struct tensor x)
{
    pass->ops->gather_pairs(
        pass->be,
        &(struct op_gather_pairs) {
            .out = pairs, .x = x, .order = ids(pass, BUFFER_PAIR_ORDER, layer) });
}

/* Write the input of the experts: the rows of h, sorted by expert. */
static struct tensor gather(const struct pass *pass, size_t layer, struct tensor h)
{
    struct tensor x = pass_pairs(pass, BUFFER_EXPERT_X, 0);
    const struct op_combine_backward scaled = scale_pairs(pass, layer, x, h);

    if (scales_inputs(pass))
        pass->ops->combine_backward(pass->be, &scaled);
    else
        copy_pairs(pass, layer, x, h);
    return x;
}

/* Sum up the pairs of each row, in addition to `base`, which is `out` or absent. */
static void sum_pairs(const struct pass *pass, size_t layer, struct tensor out, bool add,
                      struct tensor pairs, bool weighted)
{
    const int32_t *slots = ids(pass, BUFFER_PAIR_SLOTS, layer);

    if (weighted)
        pass->ops->combine(
            pass->be, &(struct op_combine) { .out = out,
                                             .base = add ? out : (struct tensor) { 0 },
                                             .y = pairs,
                                             .weights = pair_weights(pass, layer),
                                             .slots = slots });
    else
        pass->ops->sum_pairs(pass->be,
                             &(struct op_sum_pairs) {
                                 .out = out, .y = pairs, .slots = slots, .add = add });
}

void model_experts_begin(const struct pass *pass)
{
    static const enum buffer counted[] = { BUFFER_EXPERT_COUNTS, BUFFER_EXPERT_SUMS };

    for (size_t i = 0; i < 2; i++) {
        struct tensor t = pass_buffer(pass, counted[i], 0);

        if (t.data)
            pass->ops->zero(pass->be, &(struct op_zero) { .out = tensor_rows(t, 0, 1) });
    }
}

/* Return the output of the MLP next to the experts; absent if it has no factor. */
static struct tensor shared_out(const struct pass *pass, size_t layer)
{
    struct tensor whole = pass_buffer(pass, BUFFER_SHARED_OUT, layer);

    return whole.data ? tensor_columns(whole, 0, pass->model->config->hidden_size)
                      : whole;
}

/* A block that is computed again is not counted again. */
void model_experts_route(const struct pass *pass, size_t layer, struct tensor h,
                         bool recompute)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor sums = pass_buffer(pass, BUFFER_EXPERT_SUMS, 0);
    struct op_route op = experts_route(pass, layer);

    stack_forward(pass, &b->router, layer, h, op.logits, 0);
    if (recompute)
        op.counts = NULL;
    pass->ops->route(pass->be, &op);
    if (b->expert_scale)
        pass->ops->pair_scale(pass->be,
                              &(struct op_pair_scale) { .out = pair_weights(pass, layer),
                                                        .weights = op.weights,
                                                        .scales = b->expert_scale->weight,
                                                        .experts = op.experts });
    if (sums.data && !recompute) /* probabilities of padding rows are 0 */
        pass->ops->sum_rows(pass->be,
                            &(struct op_sum_rows) { .out = tensor_rows(sums, 0, 1),
                                                    .x = op.probabilities });
}

/* Run the MLP next to the experts; false: there is none. */
static bool shared_forward(const struct pass *pass, size_t layer, struct tensor h,
                           struct tensor out, bool recompute)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor own = shared_out(pass, layer), act;
    const struct op_route op = shared_route(pass, layer);

    if (b->down.base_count == 0)
        return false;
    stack_forward(pass, &b->gate_up, layer, h, pass_buffer(pass, BUFFER_GATE_UP, layer),
                  0);
    if (recompute && !own.data && b->down.lora_a_count == 0)
        return true; /* the backward pass computes the activation with its gradient */
    act = model_activate(pass, layer);
    if (recompute && !own.data) {
        lora_a_forward(pass, &b->down, act, pass_u(pass, &b->down, layer));
        return true;
    }
    stack_forward(pass, &b->down, layer, act, own.data ? own : out, 0);
    if (!own.data)
        return true;
    stack_forward(pass, &b->shared_router, layer, h, op.logits, 0);
    pass->ops->route(pass->be, &op);
    if (!recompute)
        pass->ops->combine(pass->be, &(struct op_combine) { .out = out,
                                                            .y = own,
                                                            .weights = op.weights,
                                                            .slots = op.slots });
    return true;
}

/* Return the output of the experts for each pair. */
static struct tensor run_pairs(const struct pass *pass, size_t layer, struct tensor h)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor y = pass_pairs(pass, BUFFER_EXPERT_OUT, layer);
    struct tensor act = pass_pairs(pass, BUFFER_EXPERT_ACT, 0);

    stack_forward(pass, &b->expert_gate_up, layer, gather(pass, layer, h),
                  pass_pairs(pass, BUFFER_EXPERT_GATE_UP, layer), 0);
    activate(pass, layer, act);
    stack_forward(pass, &b->expert_down, layer, act, y, 0);
    return y;
}

void model_experts_run(const struct pass *pass, size_t layer, struct tensor h,
                       struct tensor out)
{
    sum_pairs(pass, layer, out, false, run_pairs(pass, layer, h), true);
}

void model_experts_forward(const struct pass *pass, size_t layer, struct tensor h,
                           struct tensor out, bool recompute)
{
    struct tensor y;
    bool shared;

    model_experts_route(pass, layer, h, recompute);
    y = run_pairs(pass, layer, h);
    shared = shared_forward(pass, layer, h, out, recompute);
    if (!recompute)
        sum_pairs(pass, layer, out, shared, y, !scales_inputs(pass));
}

static struct tensor dlogits_of(const struct pass *pass, const struct op_route *forward)
{
    return tensor_of(pass_buffer(pass, BUFFER_DROUTER, 0).data,
                     pass->model->shapes.compute, forward->logits.rows,
                     forward->logits.cols);
}

/* A router with the operands of its forward pass. */
struct routing {
    const struct linear_stack *router;
    struct op_route forward;
    size_t layer;
    bool adds; /* other layers wrote the gradient of its input */
};

/* From the gradient of the weights to those of a router, of its adapter, and of its input. */
static void router_backward(const struct pass *pass, const struct routing *r,
                            struct tensor h, struct tensor dh)
{
    const struct model *m = pass->model;
    const struct op_route *forward = &r->forward;
    const struct linear_stack *router = r->router;
    struct tensor logits = forward->logits;
    bool balances = forward->counts != NULL;
    const struct op_route_backward op = {
        .dlogits = dlogits_of(pass, forward),
        .dweights = tensor_of(pass_buffer(pass, BUFFER_DPAIR_WEIGHTS, 0).data,
                              FORMAT_FP32, logits.rows, forward->weights.cols),
        .forward = *forward,
        .layers = m->config->sparse_layers,
        .coefficient = balances ? (float)expert_config_balance(m->plan, m->config) : 0,
        .factor = &pass->scalars->loss_scale,
    };

    if (forward->kind == ROUTE_SPARSEMIXER) /* other blocks have overwritten them */
        linear_forward(pass, &router->base[0], h, logits, router->factor, 0);
    pass->ops->route_backward(pass->be, &op);
    linear_weight_gradient(pass, &router->base[0], h, op.dlogits, router->factor, false);
    if (dh.data)
        linear_input_gradient(pass, &router->base[0], op.dlogits, dh, router->factor,
                              r->adds ? 1 : 0);
    adapters_backward(pass, router, r->layer, h, op.dlogits, dh);
}

/* Return whether it wrote dh. */
static bool shared_backward(const struct pass *pass, size_t layer, struct tensor h,
                            struct tensor dy, struct tensor dh)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor own = shared_out(pass, layer);
    const struct routing routing = { &b->shared_router, shared_route(pass, layer), layer,
                                     true };
    struct op_combine_backward op = { .dy = own,
                                      .dout = tensor_columns(dy, 0, h.cols),
                                      .y = own,
                                      .weights = routing.forward.weights,
                                      .slots = routing.forward.slots };
    bool goes_on = dh.data || b->gate_up.trained;

    if (b->down.base_count == 0)
        return false;
    op.dweights = tensor_of(pass_buffer(pass, BUFFER_DPAIR_WEIGHTS, 0).data, FORMAT_FP32,
                            dy.rows, 1);
    if (own.data) {
        pass->ops->combine_backward(pass->be, &op);
        dy = pass_buffer(pass, BUFFER_SHARED_OUT, layer); /* over it */
    }
    model_down_backward(pass, layer, dy, goes_on);
    if (goes_on)
        stack_backward(pass, &b->gate_up, layer, h,
                       pass_buffer(pass, BUFFER_GATE_UP, layer), dh);
    if (own.data && (dh.data || b->shared_router.trained))
        router_backward(pass, &routing, h, dh);
    return dh.data != NULL;
}

/* From dact to the gradients of gate and up, over them; the activation overwrites dact. */
static void activate_backward(const struct pass *pass, size_t layer, struct tensor dact)
{
    const struct model_config *c = pass->model->config;
    struct tensor gate = expert_columns(pass, layer, 0),
                  up = expert_columns(pass, layer, 1);

    if (c->clamp_limit > 0)
        pass->ops->clamped_backward(
            pass->be, &(struct op_clamped_backward) { .dgate = gate,
                                                      .dup = up,
                                                      .out = dact,
                                                      .dout = dact,
                                                      .gate = gate,
                                                      .up = up,
                                                      .alpha = (float)c->clamp_alpha,
                                                      .limit = (float)c->clamp_limit });
    else
        pass->ops->swiglu_backward(
            pass->be, &(struct op_swiglu_backward) { .dgate = gate,
                                                     .dup = up,
                                                     .out = dact,
                                                     .dout = dact,
                                                     .gate = gate,
                                                     .up = up,
                                                     .kind = c->activation });
}

/* From dpairs, the gradient of their outputs, to that of their inputs, which overwrites it,
 * if `reads`. */
static void pairs_backward(const struct pass *pass, size_t layer, struct tensor h,
                           struct tensor dpairs, bool reads)
{
    const struct block *b = &pass->model->blocks[layer];
    struct tensor act;
    struct tensor dx = reads ? dpairs : (struct tensor) { 0 };

    act = pass_pairs(pass, BUFFER_EXPERT_ACT, 0);
    stack_backward_to_input(pass, &b->expert_down, layer, dpairs, act);
    activate_backward(pass, layer, act);
    stack_backward_to_weights(pass, &b->expert_down, act, dpairs, true);
    stack_backward(pass, &b->expert_gate_up, layer,
                   b->expert_gate_up.trained ? gather(pass, layer, h)
                                             : (struct tensor) { 0 },
                   pass_pairs(pass, BUFFER_EXPERT_GATE_UP, layer), dx);
}

void model_experts_run_backward(const struct pass *pass, size_t layer, struct tensor h,
                                struct tensor dy, struct tensor dh)
{
    struct tensor dpairs = pass_pairs(pass, BUFFER_DEXPERT, 0);
    struct op_combine_backward op =
        scale_pairs(pass, layer, dpairs, tensor_columns(dy, 0, h.cols));

    op.dweights = pass_buffer(pass, BUFFER_DPAIR_WEIGHTS, 0);
    op.y = pass_pairs(pass, BUFFER_EXPERT_OUT, layer);
    pass->ops->combine_backward(pass->be, &op);
    pairs_backward(pass, layer, h, dpairs, dh.data != NULL);
    if (dh.data)
        sum_pairs(pass, layer, dh, false, dpairs, false);
}

void model_experts_route_backward(const struct pass *pass, size_t layer, struct tensor h,
                                  struct tensor dh)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct routing routing = { &b->router, experts_route(pass, layer), layer,
                                     false };
    const struct op_pair_scale_backward op = {
        .dweights = pass_buffer(pass, BUFFER_DPAIR_WEIGHTS, 0),
        .dscales = b->expert_scale->grad,
        .weights = routing.forward.weights,
        .scales = b->expert_scale->weight,
        .order = routing.forward.order,
        .starts = routing.forward.starts,
    };

    pass->ops->pair_scale_backward(pass->be, &op);
    router_backward(pass, &routing, h, dh);
}

void model_experts_backward(const struct pass *pass, size_t layer, struct tensor h,
                            struct tensor dy, struct tensor dh)
{
    const struct block *b = &pass->model->blocks[layer];
    const struct routing routing = { &b->router, experts_route(pass, layer), layer,
                                     true };
    struct tensor dpairs = pass_pairs(pass, BUFFER_DEXPERT, 0);
    const bool scaled = scales_inputs(pass), routes = dh.data || b->router.trained;
    bool written = shared_backward(pass, layer, h, dy, dh);
    struct op_combine_backward op =
        scale_pairs(pass, layer, dpairs, tensor_columns(dy, 0, h.cols));

    op.dweights = pass_buffer(pass, BUFFER_DPAIR_WEIGHTS, 0);
    op.y = pass_pairs(pass, BUFFER_EXPERT_OUT, layer);
    if (scaled)
        copy_pairs(pass, layer, dpairs, op.dout);
    else
        pass->ops->combine_backward(pass->be, &op);
    pairs_backward(pass, layer, h, dpairs, scaled ? routes : dh.data != NULL);
    if (dh.data)
        sum_pairs(pass, layer, dh, written, dpairs, scaled);
    op.dout = h;
    op.y = dpairs; /* overwritten, but not used again */
    if (scaled && routes)
        pass->ops->combine_backward(pass->be, &op);
    if (routes)
        router_backward(pass, &routing, h, dh);
}

void model_experts_expect_rows(const struct pass *pass, uint64_t rows)
{
    if (pass->model->results[0].expert_counts)
        pass->ops->upload(pass->be, &model_step_scalars(pass->model)->rows, &rows,
                          sizeof(rows));
}

void model_experts_download(const struct pass *pass)
{
    const struct window *w = &pass->model->results[0];
    const size_t bytes = pass->model->config->experts * sizeof(float);

    if (!w->expert_counts)
        return;
    pass->ops->download(pass->be, w->expert_counts,
                        pass_buffer(pass, BUFFER_EXPERT_COUNTS, 0).data, bytes);
    pass->ops->download(pass->be, w->expert_sums,
                        pass_buffer(pass, BUFFER_EXPERT_SUMS, 0).data, bytes);
}

double model_experts_loss(const struct model *model, const float *counts,
                          const float *sums)
{
    const struct model_config *c = model->config;
    const int32_t *chosen = (const int32_t *)(const void *)counts;
    double rows = 0, loss = 0; /* rows of all layers */

    if (!counts)
        return 0;
    for (size_t e = 0; e < c->experts; e++)
        rows += (double)chosen[e] / (double)c->chosen_experts;
    for (size_t e = 0; e < c->experts; e++)
        loss += chosen[e] / rows * (sums[e] / rows);
    return expert_config_balance(model->plan, c) * (double)c->experts * loss;
}

double model_experts_window_loss(const struct model *model, const struct window *w)
{
    const double tokens = (double)w->scalars.loss_scale / w->scalars.grad_scale;
    const size_t experts = model->config->experts;
    double sum = 0;

    for (size_t i = 1; w->expert_counts && i <= w->batch_count; i++) {
        size_t row = i % w->batch_count * experts;

        sum += model_experts_loss(model, w->expert_counts + row, w->expert_sums + row);
    }
    return sum > 0 ? sum * tokens : 0;
}
