/* train/tower/tower_adapters.c - low-rank adapters of an encoder. */
#include "config.h"

#include "train/tower/tower_adapters.h"

#include "train/tower/tower_pass.h"

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
            matmul(pass, (struct op_matmul) { .out = columns(&all, i, y),
                                              .a = forward(pass, &all.parts[i], x),
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

        if (!l->a.data)
            continue;
        matmul(pass, (struct op_matmul) { .out = l->db,
                                          .a = out,
                                          .b = forward(pass, l, x),
                                          .trans_a = true,
                                          .alpha = all.scale,
                                          .beta = 1 });
        matmul(pass, (struct op_matmul) { .out = l->da,
                                          .a = backward(pass, l, all.scale, out),
                                          .b = x,
                                          .trans_a = true,
                                          .alpha = 1,
                                          .beta = 1 });
    }
}

void tower_adapters_input(const struct tower_pass *pass, enum tower_layer layer,
                          size_t index, struct tensor dy, struct tensor dx)
{
    const struct adapters all = find(pass, layer, index);

    for (size_t i = 0; i < all.count; i++)
        if (all.parts[i].a.data)
            matmul(pass,
                   (struct op_matmul) { .out = dx,
                                        .a = backward(pass, &all.parts[i], all.scale,
                                                      columns(&all, i, dy)),
                                        .b = all.parts[i].a,
                                        .alpha = 1,
                                        .beta = 1 });
}
