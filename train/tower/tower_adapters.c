/* train/tower/tower_adapters.c - low-rank adapters of an encoder. */
#include "config.h"

#include "train/tower/tower_adapters.h"

#include <assert.h>

#include "train/tower/tower_pass.h"

/* Streams of dropout have room for so many blocks. */
enum { BLOCKS = 1 << 16 };

/* 2^64 over the golden ratio: seeds of the passes over an item are far from each other. */
#define GOLDEN_RATIO UINT64_C(0x9e3779b97f4a7c15)

bool tower_layer_adapts(enum tower_layer layer)
{
    return layer == TOWER_QKV || layer == TOWER_ATTENTION_OUT || layer == TOWER_UP ||
           layer == TOWER_DOWN || layer == TOWER_DEEP_1 || layer == TOWER_DEEP_2;
}

/* The adapters of a layer: those of its parts, whose outputs are adjacent columns. */
struct adapters {
    const struct tower_adapter *parts; /* NULL: there are none */
    size_t count, width;
    float scale;
};

static struct adapters find(const struct tower_pass *pass, enum tower_layer layer,
                            size_t index)
{
    const struct tower_parameter *p =
        pass->adapters && tower_layer_adapts(layer)
            ? tower_parameters_find(pass->parameters, layer, index, false)
            : NULL;

    if (!p)
        return (struct adapters) { 0 };
    return (struct adapters) {
        .parts =
            &pass->adapters->list[(size_t)(p - pass->parameters->list) * TOWER_PARTS_MAX],
        .count = p->parts,
        .width = p->rows / p->parts,
        .scale = (float)pass->adapters->scale,
    };
}

/* out = dropout(x), or the gradient of it for x = that of its output */
static void drop(const struct tower_pass *pass, enum tower_layer layer, size_t index,
                 size_t part, struct tensor x, struct tensor out)
{
    const struct tower_draw *draw = &pass->adapters->draw;

    pass->be->ops->dropout(
        pass->be,
        &(struct op_dropout) {
            .out = out,
            .x = x,
            .p = (float)draw->dropout,
            .seed = draw->seed + pass->number * GOLDEN_RATIO,
            .step = draw->index,
            .stream = (uint32_t)((layer * BLOCKS + index) * TOWER_PARTS_MAX + part),
        });
}

/* Return scratch of the shape of x. */
static struct tensor scratch(const struct tower_pass *pass, struct tensor x)
{
    const struct tensor all = tower_pass_buffer(pass, TOWER_DROPPED);

    assert(x.format == all.format && x.rows * x.cols <= all.cols);
    return tensor_of(all.data, all.format, x.rows, x.cols);
}

/* Return the input of an adapter: x, or x after dropout in scratch. */
static struct tensor dropped(const struct tower_pass *pass, enum tower_layer layer,
                             size_t index, size_t part, struct tensor x)
{
    struct tensor out;

    if (!pass->size.drops)
        return x;
    out = scratch(pass, x);
    drop(pass, layer, index, part, x, out);
    return out;
}

/* Return scratch of `rows` rows, as wide as the rank. */
static struct tensor inner(const struct tower_pass *pass, size_t rows)
{
    return tensor_rows(tower_pass_buffer(pass, TOWER_ADAPTED), 0, rows);
}

static void matmul(const struct tower_pass *pass, struct op_matmul op)
{
    pass->be->ops->matmul(pass->be, &op);
}

static struct tensor columns(const struct adapters *l, size_t part, struct tensor y)
{
    return tensor_columns(y, part * l->width, l->width);
}

/* u = x A^T */
static struct tensor forward(const struct tower_pass *pass, const struct tower_adapter *l,
                             struct tensor x)
{
    const struct tensor u = inner(pass, x.rows);

    matmul(pass, (struct op_matmul) {
                     .out = u, .a = x, .b = l->a, .trans_b = true, .alpha = 1 });
    return u;
}

/* du = scale dy B */
static struct tensor backward(const struct tower_pass *pass,
                              const struct tower_adapter *l, float scale,
                              struct tensor dy)
{
    const struct tensor du = inner(pass, dy.rows);

    matmul(pass, (struct op_matmul) { .out = du, .a = dy, .b = l->b, .alpha = scale });
    return du;
}

void tower_adapters_forward(const struct tower_pass *pass, enum tower_layer layer,
                            size_t index, struct tensor x, struct tensor y)
{
    const struct adapters all = find(pass, layer, index);

    for (size_t i = 0; i < all.count; i++)
        if (all.parts[i].a.data)
            matmul(pass,
                   (struct op_matmul) { .out = columns(&all, i, y),
                                        .a = forward(pass, &all.parts[i],
                                                     dropped(pass, layer, index, i, x)),
                                        .b = all.parts[i].b,
                                        .trans_b = true,
                                        .alpha = all.scale,
                                        .beta = 1 });
}

void tower_adapters_weights(const struct tower_pass *pass, enum tower_layer layer,
                            size_t index, struct tensor x, struct tensor dy)
{
    const struct adapters all = find(pass, layer, index);

    for (size_t i = 0; i < all.count; i++) {
        const struct tower_adapter *l = &all.parts[i];
        const struct tensor out = columns(&all, i, dy);
        struct tensor in;

        if (!l->a.data)
            continue;
        in = dropped(pass, layer, index, i, x);
        matmul(pass, (struct op_matmul) { .out = l->db,
                                          .a = out,
                                          .b = forward(pass, l, in),
                                          .trans_a = true,
                                          .alpha = all.scale,
                                          .beta = 1 });
        matmul(pass, (struct op_matmul) { .out = l->da,
                                          .a = backward(pass, l, all.scale, out),
                                          .b = in,
                                          .trans_a = true,
                                          .alpha = 1,
                                          .beta = 1 });
    }
}

/* dx += dropout(du A) */
static void input_gradient(const struct tower_pass *pass, enum tower_layer layer,
                           size_t index, size_t part, const struct tower_adapter *l,
                           struct tensor du, struct tensor dx)
{
    const struct tensor to = pass->size.drops ? scratch(pass, dx) : dx;

    matmul(pass, (struct op_matmul) { .out = to,
                                      .a = du,
                                      .b = l->a,
                                      .alpha = 1,
                                      .beta = pass->size.drops ? 0 : 1 });
    if (!pass->size.drops)
        return;
    drop(pass, layer, index, part, to, to);
    pass->be->ops->add(pass->be, &(struct op_add) { .out = dx, .a = dx, .b = to });
}

void tower_adapters_input(const struct tower_pass *pass, enum tower_layer layer,
                          size_t index, struct tensor dy, struct tensor dx)
{
    const struct adapters all = find(pass, layer, index);

    for (size_t i = 0; i < all.count; i++)
        if (all.parts[i].a.data)
            input_gradient(pass, layer, index, i, &all.parts[i],
                           backward(pass, &all.parts[i], all.scale, columns(&all, i, dy)),
                           dx);
}
