/* train/tower/tower_layers.c - linear layers and norms of an encoder, with their gradients. */
#include "config.h"

#include "train/tower/tower_layers.h"

struct tensor tower_parameter_of(const struct tower_pass *pass, enum tower_layer layer,
                                 size_t index, bool bias)
{
    const struct tower_parameter *p =
        tower_parameters_find(pass->parameters, layer, index, bias);

    if (p && pass->weights)
        return pass->weights[p - pass->parameters->list];
    return p ? tensor_of(pass->block + p->at, p->format, p->rows, p->cols)
             : (struct tensor) { 0 };
}

struct tensor tower_gradient_of(const struct tower_pass *pass, enum tower_layer layer,
                                size_t index, bool bias)
{
    const struct tower_parameter *p =
        tower_parameters_find(pass->parameters, layer, index, bias);

    return p && pass->gradients ? pass->gradients[p - pass->parameters->list]
                                : (struct tensor) { 0 };
}

struct tensor tower_joined(struct tensor t, size_t group)
{
    return tensor_of(t.data, t.format, t.rows / group, t.cols * group);
}

struct tensor tower_parted(struct tensor t, size_t columns)
{
    return tensor_of(t.data, t.format, t.rows * (t.cols / columns), columns);
}

struct tensor tower_kept(const struct tower_pass *pass, size_t done)
{
    const size_t rows = pass->size.rows;

    return tensor_rows(tower_pass_buffer(pass, TOWER_KEPT), done * rows, rows);
}

static bool is_transposed(const struct tower_pass *pass, enum tower_layer layer)
{
    return pass->config->family->transposed && layer == TOWER_PROJECTOR_1;
}

void tower_linear(const struct tower_pass *pass, enum tower_layer layer, size_t index,
                  struct tensor x, struct tensor y)
{
    pass->be->ops->matmul(
        pass->be,
        &(struct op_matmul) { .out = y,
                              .a = x,
                              .b = tower_parameter_of(pass, layer, index, false),
                              .bias = tower_parameter_of(pass, layer, index, true),
                              .trans_b = !is_transposed(pass, layer),
                              .alpha = 1 });
    tower_adapters_forward(pass, layer, index, x, y);
}

/* The model has no such bias, so that it must stay zero. */
static void zero_missing(const struct tower_pass *pass, enum tower_layer layer,
                         struct tensor db)
{
    const struct tower_parameter *p =
        tower_parameters_find(pass->parameters, layer, 0, true);
    const size_t each = db.cols / p->parts;

    for (size_t part = 0; part < p->parts; part++)
        if (!tower_config_has_bias(pass->config, layer, part))
            pass->be->ops->zero(
                pass->be,
                &(struct op_zero) { .out = tensor_columns(db, part * each, each) });
}

void tower_weight_gradient(const struct tower_pass *pass, enum tower_layer layer,
                           size_t index, struct tensor x, struct tensor dy)
{
    const bool transposed = is_transposed(pass, layer);
    const struct tensor dw = tower_gradient_of(pass, layer, index, false);
    const struct tensor db = tower_gradient_of(pass, layer, index, true);

    if (dw.data)
        pass->be->ops->matmul(pass->be, &(struct op_matmul) { .out = dw,
                                                              .a = transposed ? x : dy,
                                                              .b = transposed ? dy : x,
                                                              .trans_a = true,
                                                              .alpha = 1,
                                                              .beta = 1 });
    if (db.data)
        pass->be->ops->sum_rows(pass->be, &(struct op_sum_rows) { .out = db, .x = dy });
    if (db.data)
        zero_missing(pass, layer, db);
    tower_adapters_weights(pass, layer, index, x, dy);
}

void tower_input_gradient(const struct tower_pass *pass, enum tower_layer layer,
                          size_t index, struct tensor dy, struct tensor dx)
{
    pass->be->ops->matmul(
        pass->be,
        &(struct op_matmul) { .out = dx,
                              .a = dy,
                              .b = tower_parameter_of(pass, layer, index, false),
                              .trans_b = is_transposed(pass, layer),
                              .alpha = 1 });
    tower_adapters_input(pass, layer, index, dy, dx);
}

static struct tensor stats_of(const struct tower_pass *pass, const struct tower_norm *n)
{
    const struct tensor all =
        tower_pass_buffer(pass, n->second ? TOWER_STATS_2 : TOWER_STATS);

    return tensor_of(all.data, all.format, n->rms ? 1 : 2, n->x.rows);
}

void tower_norm(const struct tower_pass *pass, const struct tower_norm *n)
{
    const struct tensor weight = tower_parameter_of(pass, n->layer, n->index, false);
    const struct tensor bias = tower_parameter_of(pass, n->layer, n->index, true);
    const struct tensor sum = n->sum.data ? n->sum : n->x;

    if (n->rms)
        pass->be->ops->rmsnorm(pass->be, &(struct op_rmsnorm) { .out = n->out,
                                                                .sum = sum,
                                                                .rstd = stats_of(pass, n),
                                                                .x = n->x,
                                                                .delta = n->delta,
                                                                .weight = weight,
                                                                .eps = (float)n->eps,
                                                                .offset = n->offset });
    else
        pass->be->ops->layernorm(pass->be,
                                 &(struct op_layernorm) { .out = n->out,
                                                          .sum = sum,
                                                          .stats = stats_of(pass, n),
                                                          .x = n->x,
                                                          .delta = n->delta,
                                                          .weight = weight,
                                                          .bias = bias,
                                                          .eps = (float)n->eps });
}

/* The eps is the default of the class, which is not a setting (InternVLVisionRMSNorm). */
void tower_norm_heads(const struct tower_pass *pass, size_t block, struct tensor heads)
{
    const struct tensor weight = tower_parameter_of(pass, TOWER_QK_NORM, block, false);
    const size_t width = pass->config->width;
    struct tensor stats = tower_pass_buffer(pass, TOWER_STATS);

    stats = tensor_of(stats.data, stats.format, heads.rows, 1);
    for (size_t i = 0; i < 2; i++) {
        const struct tensor x = tensor_columns(heads, i * width, width);

        pass->be->ops->headnorm(
            pass->be,
            &(struct op_headnorm) { .out = x,
                                    .rstd = stats,
                                    .x = x,
                                    .weight = tensor_columns(weight, i * width, width),
                                    .eps = 1e-6f,
                                    .heads = 1 });
    }
}

void tower_norm_backward(const struct tower_pass *pass, const struct tower_norm *n,
                         struct tensor dout, struct tensor dx)
{
    const struct tensor weight = tower_parameter_of(pass, n->layer, n->index, false);
    const struct tensor dweight = tower_gradient_of(pass, n->layer, n->index, false);
    const struct tensor x = n->sum.data ? n->sum : n->x;

    if (n->rms)
        pass->be->ops->rmsnorm_backward(
            pass->be, &(struct op_rmsnorm_backward) { .dx = dx,
                                                      .dweight = dweight,
                                                      .dout = dout,
                                                      .x = x,
                                                      .weight = weight,
                                                      .rstd = stats_of(pass, n),
                                                      .offset = n->offset });
    else
        pass->be->ops->layernorm_backward(
            pass->be, &(struct op_layernorm_backward) {
                          .dx = dx,
                          .dweight = dweight,
                          .dbias = tower_gradient_of(pass, n->layer, n->index, true),
                          .dout = dout,
                          .x = x,
                          .weight = weight,
                          .stats = stats_of(pass, n) });
}

bool tower_has_gate(const struct tower_pass *pass, enum tower_layer gate, size_t block)
{
    return pass->gated && tower_parameters_find(pass->parameters, gate, block, false);
}

void tower_gate(const struct tower_pass *pass, enum tower_layer gate, size_t block,
                struct tensor x)
{
    if (tower_has_gate(pass, gate, block))
        pass->be->ops->gate(
            pass->be,
            &(struct op_gate) {
                .out = x, .x = x, .gate = tower_parameter_of(pass, gate, block, false) });
}

void tower_gate_backward(const struct tower_pass *pass, enum tower_layer gate,
                         size_t block, struct tensor x, struct tensor dout,
                         struct tensor dx)
{
    pass->be->ops->gate_backward(
        pass->be, &(struct op_gate_backward) {
                      .dx = dx,
                      .dgate = tower_gradient_of(pass, gate, block, false),
                      .dout = dout,
                      .x = x,
                      .gate = tower_parameter_of(pass, gate, block, false) });
}
