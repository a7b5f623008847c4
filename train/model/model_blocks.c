/* train/model/model_blocks.c - sets up the layers of every block. */
#include "config.h"

#include "train/model/model.h"

#include <assert.h>
#include <math.h>

#include "train/model/expert_adapters.h"
#include "train/model/model_dora.h"
#include "train/model/model_internal.h"
#include "train/model/model_rotation.h"
#include "train/model/shapes.h"
#include "train/model/shared_keys.h"

size_t model_slot(enum module module, enum part part, size_t layer)
{
    return (layer * MODULES + module) * PARTS + part;
}

struct parameter *model_find(const struct model *m, enum module module, enum part part,
                             size_t layer)
{
    return m->slots[model_slot(module, part, layer)];
}

struct tensor model_matmul_operand(const struct parameter *p)
{
    return p->copy.data ? p->copy : p->weight;
}

/* Return whether b directly follows a in memory, so that both are one matrix (or are both
 * absent). */
static bool is_adjacent(struct tensor a, struct tensor b, bool vector)
{
    size_t bytes;

    if (!a.data || !b.data)
        return !a.data && !b.data;
    bytes = a.rows * a.cols * format_info(a.format)->bytes;
    return a.format == b.format && (vector || a.cols == b.cols) &&
           (char *)a.data + bytes == (char *)b.data;
}

static void add_rows(struct tensor *a, struct tensor b)
{
    if (a->data)
        a->rows += b.rows;
}

static void add_columns(struct tensor *a, struct tensor b)
{
    if (a->data)
        *a = tensor_of(a->data, a->format, 1, a->cols + b.cols);
}

/* Append a linear layer, or extend the last one by it. */
static void append_linear(struct linear *list, size_t *count, const struct linear *next)
{
    struct linear *last = *count > 0 ? &list[*count - 1] : NULL;

    if (!last || !is_adjacent(last->weight, next->weight, false) ||
        !is_adjacent(last->grad, next->grad, false) ||
        !is_adjacent(last->bias, next->bias, true) ||
        !is_adjacent(last->bias_grad, next->bias_grad, true) ||
        last->in_first != next->in_first) {
        list[(*count)++] = *next;
        return;
    }
    add_rows(&last->weight, next->weight);
    add_rows(&last->grad, next->grad);
    add_columns(&last->bias, next->bias);
    add_columns(&last->bias_grad, next->bias_grad);
    last->quantized_count += next->quantized_count;
    last->out_count += next->out_count;
}

static struct linear linear_of(const struct parameter *weight,
                               const struct parameter *bias, size_t first, size_t from)
{
    struct linear p = { .weight = model_matmul_operand(weight),
                        .grad = weight->grad,
                        .out_first = first,
                        .out_count = weight->rows,
                        .in_first = from,
                        .in_count = weight->cols };

    if (weight->quantized.codes) {
        p.quantized = weight;
        p.quantized_count = 1;
    }
    if (bias) {
        p.bias = bias->weight;
        p.bias_grad = bias->grad;
    }
    return p;
}

/* Make W and A one matrix: the layout puts A's copy after W, and zeros after W's bias. */
static void fold(struct linear_stack *l)
{
    l->fused = l->base[0];
    assert(l->base_count == 1 && l->lora_a_count == 1 &&
           is_adjacent(l->fused.weight, l->lora_a[0].weight, false));
    add_rows(&l->fused.weight, l->lora_a[0].weight);
    if (l->fused.bias.data)
        l->fused.bias =
            tensor_of(l->fused.bias.data, l->fused.bias.format, 1, l->y_cols + l->u_cols);
    l->fused.out_count = l->y_cols + l->u_cols;
}

static const enum dropout_site lora_dropout[STACKS] = {
    [STACK_QKV] = DROP_LORA_QKV,
    [STACK_Q_B] = DROP_LORA_Q_B,
    [STACK_KV_B] = DROP_LORA_KV_B,
    [STACK_CROSS_KV] = DROP_LORA_CROSS_KV,
    [STACK_O] = DROP_LORA_O,
    [STACK_GATE_UP] = DROP_LORA_GATE_UP,
    [STACK_DOWN] = DROP_LORA_DOWN,
    [STACK_EXPERT_GATE_UP] = DROP_LORA_EXPERT_GATE_UP,
    [STACK_EXPERT_DOWN] = DROP_LORA_EXPERT_DOWN,
    [STACK_ROUTER] = DROP_LORA_ROUTER,
    [STACK_SCAN_OUT] = DROP_LORA_SCAN_OUT,
    [STACK_INPUT_GATE] = DROP_LORA_INPUT_GATE,
    [STACK_INPUT_OUT] = DROP_LORA_INPUT_OUT,
    [STACK_LAYER_INPUTS] = DROP_LORA_LAYER_INPUTS
};

/* The rooms for weight and input are after those of the block's earlier modules. */
static void place_rooms(const struct model *m, enum module module, struct linear *p)
{
    enum stack last = STACKS;
    size_t weights = 0, inputs = 0;

    for (enum module i = 0; i < module; i++) {
        const enum stack stack = shapes_stack(i);
        const struct parameter *weight = stack < STACKS && stack != STACK_CROSS_KV
                                             ? model_find(m, i, PART_WEIGHT, p->layer)
                                             : NULL;

        if (!weight)
            continue;
        weights += weight->rows * weight->cols;
        if (stack != last && stack != shapes_stack(module))
            inputs += weight->cols;
        last = stack;
    }
    p->w_room = shapes_room_at(module, 2 * weights);
    p->x_room = shapes_room_at(shapes_stack(module), m->shapes.rows * inputs);
}

/* Set up the linear layers first .. last of a block. */
static void make_stack(const struct model *m, size_t layer, enum module first,
                       enum module last, struct linear_stack *out)
{
    size_t y = 0, u = 0, rank = m->shapes.lora.rank;

    for (enum module i = first; i <= last; i++) {
        const struct parameter *weight = model_find(m, i, PART_WEIGHT, layer);
        const struct parameter *bias = model_find(m, i, PART_BIAS, layer);
        const struct parameter *a = model_find(m, i, PART_LORA_A, layer);
        const struct parameter *b = model_find(m, i, PART_LORA_B, layer);
        struct linear p;

        if (!weight)
            continue;
        p = linear_of(weight, bias, y, 0);
        p.fp8 = m->plan->precision.fp8;
        p.layer = layer;
        p.dy_room = shapes_room_at(i, m->shapes.rows * y);
        place_rooms(m, i, &p);
        if (m->shapes.lora.rotation.on && !module_is_of_experts(i))
            rotation_append(m, layer, i, out, &p);
        else
            append_linear(out->base, &out->base_count, &p);
        if (a && !(m->shapes.lora.joined && module_is_of_experts(i))) {
            p = linear_of(a, NULL, u, 0);
            append_linear(out->lora_a, &out->lora_a_count, &p);
            out->lora_b[out->lora_b_count++] = linear_of(b, NULL, y, u);
            u += rank;
        }
        y += weight->rows;
        out->trained =
            out->trained || weight->trainable || (bias && bias->trainable) || a;
    }
    /* a matmul whose bias is added later processes the rows of x in parts */
    out->base[0].rounds_x = out->base[0].fp8 && out->base_count == 1 &&
                            out->base[0].grad.data && !out->base[0].bias.data;
    out->dropout_stream = dropout_stream(layer, lora_dropout[shapes_stack(first)]);
    out->y_cols = y;
    out->u_cols = u;
    if (m->shapes.lora.dora && u > 0)
        dora_open(m, layer, first, last, out);
    out->folded = out->folded && u > 0; /* some layers lack the stack, or its adapters */
    out->u_after_y = out->u_after_y && out->folded;
    if (out->folded)
        fold(out);
}

/* u is in a separate buffer, or follows y in the buffer of y. */
static struct linear_stack stack_of(const struct model *m, enum stack stack,
                                    enum buffer separate, enum buffer y)
{
    bool folded = m->shapes.folded[stack], u_after_y = folded && y != separate;

    return (struct linear_stack) { .folded = folded,
                                   .u_after_y = u_after_y,
                                   .u = u_after_y ? y : separate,
                                   .factor = 1 };
}

/* Make layers of the first expert stacks of those of all. */
static void stack_experts(struct linear *list, size_t count, size_t layer, size_t experts)
{
    for (struct linear *p = list; p < list + count; p++) {
        p->layer = layer;
        p->fp8 = p->rounds_x = false;
        p->experts = experts;
        p->weight.rows *= experts;
        if (p->grad.data)
            p->grad.rows *= experts;
        if (p->bias.data)
            p->bias.rows = experts;
        if (p->bias_grad.data)
            p->bias_grad.rows = experts;
        p->quantized_count *= experts;
    }
}

/* Append A or B of an adapter of the matrices of all experts: before them, from x to u, or
 * after, from u to y. */
static void add_joined_part(const struct model *m, size_t layer, enum module module,
                            enum part part, struct linear_stack *out)
{
    const struct parameter *p = model_find(m, module, part, layer);
    const struct expert_adapter shape =
        expert_adapter_of(m->config, &m->shapes.lora, module, part);
    const size_t rank = m->shapes.lora.rank;
    struct linear *to = shape.reads ? out->lora_a : out->lora_b;

    *to = (struct linear) { .weight = model_matmul_operand(p),
                            .grad = p->grad,
                            .experts = m->config->experts,
                            .transposed = shape.transposed,
                            .layer = layer,
                            .in_count = shape.reads ? shape.outer : rank,
                            .out_count = shape.reads ? rank : shape.outer };
}

static void add_joined(const struct model *m, size_t layer, enum module module,
                       struct linear_stack *out)
{
    if (!model_find(m, module, PART_LORA_A, layer))
        return;
    add_joined_part(m, layer, module, PART_LORA_A, out);
    add_joined_part(m, layer, module, PART_LORA_B, out);
    out->lora_a_count = out->lora_b_count = 1;
    out->u_cols = m->shapes.lora.rank;
}

/* Set up the layers first .. last of the experts of a block.  The parameters of an expert
 * that are adjacent are like one layer, as elsewhere; those of the experts follow each
 * other. */
static void make_expert_stack(const struct model *m, size_t layer, enum module first,
                              enum module last, struct linear_stack *out)
{
    const size_t experts = out->experts = m->config->experts;

    make_stack(m, layer, first, last, out);
    stack_experts(out->base, out->base_count, layer, experts);
    stack_experts(out->lora_a, out->lora_a_count, layer, experts);
    stack_experts(out->lora_b, out->lora_b_count, layer, experts);
    if (m->shapes.lora.joined)
        add_joined(m, layer, first, out);
}

/* Set up a router that can have an adapter, which has too few outputs for a matrix of 8 bits,
 * or a layer of the layers' own inputs. */
static void make_plain(const struct model *m, size_t layer, enum module module,
                       struct linear_stack *out)
{
    make_stack(m, layer, module, module, out);
    out->base[0].fp8 = out->base[0].rounds_x = false;
}

/* Keys and values of cross-attention read rows that have no rooms for 8 bits. */
static void make_beside(const struct model *m, size_t layer, struct linear_stack *out)
{
    make_stack(m, layer, MODULE_CROSS_K, MODULE_CROSS_V, out);
    out->of_images = true;
    for (size_t i = 0; i < out->base_count; i++)
        out->base[i].fp8 = out->base[i].rounds_x = false;
}

static void add_plain_router(const struct model *m, size_t layer,
                             struct linear_stack *out)
{
    const struct parameter *weight = model_find(m, MODULE_ROUTER, PART_WEIGHT, layer);
    const struct parameter *bias = model_find(m, MODULE_ROUTER, PART_BIAS, layer);
    struct linear p;

    if (!weight)
        return;
    p = linear_of(weight, bias, 0, 0);
    append_linear(out->base, &out->base_count, &p);
    out->trained = weight->trainable || (bias && bias->trainable);
}

struct linear_stack model_input_layer(const struct model *m)
{
    struct linear_stack out =
        stack_of(m, STACK_LAYER_INPUTS, BUFFER_U_LAYER_INPUTS, BUFFER_U_LAYER_INPUTS);

    make_plain(m, 0, MODULE_LAYER_INPUTS, &out);
    return out;
}

struct linear model_score_layer(const struct model *m)
{
    return linear_of(model_find(m, MODULE_HEAD, PART_WEIGHT, 0),
                     model_find(m, MODULE_HEAD, PART_BIAS, 0), 0, 0);
}

struct norm model_norm_of(const struct model *m, enum module module, size_t layer)
{
    return (struct norm) { model_find(m, module, PART_WEIGHT, layer),
                           model_find(m, module, PART_BIAS, layer) };
}

void model_make_block(const struct model *m, size_t layer, struct block *out)
{
    const struct model_config *c = m->config;
    bool windowed = c->windowed && c->windowed[layer];
    double scale = c->score_scale / (double)(c->score_by_layer ? layer + 1 : 1);

    *out = (struct block) {
        .norm1 = model_norm_of(m, MODULE_NORM1, layer),
        .norm2 = model_norm_of(m, MODULE_NORM2, layer),
        .q_norm = model_norm_of(m, MODULE_Q_NORM, layer),
        .k_norm = model_norm_of(m, MODULE_K_NORM, layer),
        .conv = model_find(m, MODULE_CONV, PART_WEIGHT, layer),
        .conv_bias = model_find(m, MODULE_CONV, PART_BIAS, layer),
        .skip = model_find(m, MODULE_SKIP, PART_WEIGHT, layer),
        .a_log = model_find(m, MODULE_A_LOG, PART_WEIGHT, layer),
        .dt_bias = model_find(m, MODULE_DT_BIAS, PART_WEIGHT, layer),
        .v_norm = model_find(m, MODULE_V_NORM, PART_WEIGHT, layer),
        .post1 = model_norm_of(m, MODULE_POST1, layer),
        .post2 = model_norm_of(m, MODULE_POST2, layer),
        .factor = model_find(m, MODULE_FACTOR, PART_WEIGHT, layer),
        .alpha_p = model_find(m, MODULE_ALPHA_P, PART_WEIGHT, layer),
        .alpha_n = model_find(m, MODULE_ALPHA_N, PART_WEIGHT, layer),
        .beta = model_find(m, MODULE_BETA, PART_WEIGHT, layer),
        .eps = model_find(m, MODULE_EPS, PART_WEIGHT, layer),
        .qkv = stack_of(m, STACK_QKV, BUFFER_U_QKV, BUFFER_QKV),
        .q_b = stack_of(m, STACK_Q_B, BUFFER_U_Q_B, BUFFER_U_Q_B),
        .kv_b = stack_of(m, STACK_KV_B, BUFFER_U_KV_B, BUFFER_U_KV_B),
        .cross_kv = stack_of(m, STACK_CROSS_KV, BUFFER_U_CROSS_KV, BUFFER_U_CROSS_KV),
        .crosses = model_config_crosses(c, layer),
        .cross_q_norm = model_norm_of(m, MODULE_CROSS_Q_NORM, layer),
        .cross_k_norm = model_norm_of(m, MODULE_CROSS_K_NORM, layer),
        .cross_gate = model_find(m, MODULE_CROSS_GATE, PART_WEIGHT, layer),
        .cross_mlp_gate = model_find(m, MODULE_CROSS_MLP_GATE, PART_WEIGHT, layer),
        .o = stack_of(m, STACK_O, BUFFER_U_O, BUFFER_U_O),
        .scan_out = stack_of(m, STACK_SCAN_OUT, BUFFER_U_SCAN_OUT, BUFFER_U_SCAN_OUT),
        .gate_up = stack_of(m, STACK_GATE_UP, BUFFER_U_GATE_UP, BUFFER_GATE_UP),
        .down = stack_of(m, STACK_DOWN, BUFFER_U_DOWN, BUFFER_U_DOWN),
        .input_gate =
            stack_of(m, STACK_INPUT_GATE, BUFFER_U_INPUT_GATE, BUFFER_U_INPUT_GATE),
        .input_out = stack_of(m, STACK_INPUT_OUT, BUFFER_U_INPUT_OUT, BUFFER_U_INPUT_OUT),
        .post3 = model_norm_of(m, MODULE_POST3, layer),
        .borrows_keys = model_config_shares_keys(c, layer),
        .lends_keys = shared_keys_are_shared(c, layer),
        .ends_keys = shared_keys_is_last(c, layer),
        .expert_gate_up =
            stack_of(m, STACK_EXPERT_GATE_UP, BUFFER_U_EXPERT_GATE_UP, BUFFER_EXPERT_X),
        .expert_down =
            stack_of(m, STACK_EXPERT_DOWN, BUFFER_U_EXPERT_DOWN, BUFFER_EXPERT_X),
        .sparse = c->sparse && c->sparse[layer],
        .router = stack_of(m, STACK_ROUTER, BUFFER_U_ROUTER, BUFFER_U_ROUTER),
        .router_bias = model_find(m, MODULE_ROUTER_BIAS, PART_WEIGHT, layer),
        .expert_norm = model_norm_of(m, MODULE_EXPERT_NORM, layer),
        .router_norm = model_norm_of(m, MODULE_ROUTER_SCALE, layer),
        .expert_post = model_norm_of(m, MODULE_EXPERT_POST, layer),
        .shared_post = model_norm_of(m, MODULE_SHARED_POST, layer),
        .expert_scale = model_find(m, MODULE_EXPERT_SCALE, PART_WEIGHT, layer),
        .sinks = model_find(m, MODULE_SINKS, PART_WEIGHT, layer),
        .shared_router = stack_of(m, STACK_ROUTER, BUFFER_U_ROUTER, BUFFER_U_ROUTER),
        .window = windowed ? c->sliding_window : 0,
        .chunk = c->chunked && c->chunked[layer] ? c->attention_chunk : 0,
        .scales_queries =
            c->query_scaling.beta != 0 &&
            (!c->query_scaling.unrotated || (c->rotated && !c->rotated[layer])),
        .rotates = c->rotary > 0 && (!c->rotated || c->rotated[layer]),
        .rope = windowed && c->has_local ? BUFFER_ROPE_LOCAL : BUFFER_ROPE,
        .scale = (float)scale,
    };
    make_stack(m, layer, MODULE_QKV, MODULE_IN_A, &out->qkv);
    make_stack(m, layer, MODULE_Q_B, MODULE_Q_B, &out->q_b);
    make_stack(m, layer, MODULE_KV_B, MODULE_KV_B, &out->kv_b);
    make_beside(m, layer, &out->cross_kv);
    make_stack(m, layer, MODULE_O, MODULE_OUT, &out->o);
    make_stack(m, layer, MODULE_SCAN_OUT, MODULE_SCAN_OUT, &out->scan_out);
    make_stack(m, layer, MODULE_GATE_UP, MODULE_SHARED_UP, &out->gate_up);
    make_stack(m, layer, MODULE_DOWN, MODULE_SHARED_DOWN, &out->down);
    make_plain(m, layer, MODULE_SHARED_ROUTER, &out->shared_router);
    make_plain(m, layer, MODULE_LINEAR_ROUTER, &out->router);
    make_plain(m, layer, MODULE_INPUT_GATE, &out->input_gate);
    make_plain(m, layer, MODULE_INPUT_OUT, &out->input_out);
    if (out->router.base_count == 0)
        add_plain_router(m, layer, &out->router);
    if (out->router_norm.weight)
        out->router.factor = 1 / sqrtf((float)c->hidden_size);
    if (out->sparse) {
        make_expert_stack(m, layer, MODULE_EXPERT_GATE, MODULE_EXPERT_UP,
                          &out->expert_gate_up);
        make_expert_stack(m, layer, MODULE_EXPERT_DOWN, MODULE_EXPERT_DOWN,
                          &out->expert_down);
    }
    if (architecture_is_gated(c->architecture) && out->gate_up.base_count > 0) {
        /* in a parallel block, the layer o uses the rooms for dy before gate and up do */
        out->gate_up.base[0].measures_dy =
            out->gate_up.base_count == 1 && !c->parallel && c->gate_factor == 1;
        out->down.base[0].measures_x = true;
    }
}
