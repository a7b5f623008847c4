/* train/model/shapes_rotation.c - the dimensions of orthogonal adapters. */
#include "config.h"

#include "train/model/shapes.h"

#include "train/model/shapes_internal.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Sums over the layers of a block, and over those of one of its stacks. */
struct sums {
    size_t layer, elements, inputs;
    enum stack stack;
};

static void add_layer(struct shapes_builder *m, const struct shape_parameter *p,
                      struct sums *sums)
{
    size_t *d = m->dims, inputs, elements;
    const enum stack stack = shapes_stack(p->module);

    inputs = p->rows * shapes_rotation_size(p);
    elements = shapes_times(m, inputs, shapes_rotation_size(p));
    if (p->layer != sums->layer)
        sums->elements = 0;
    if (p->layer != sums->layer || stack != sums->stack)
        sums->inputs = 0;
    sums->layer = p->layer;
    sums->stack = stack;
    sums->elements += elements;
    sums->inputs += inputs;
    m->out->rotation_elements = larger(m->out->rotation_elements, elements);
    d[DIM_ROTATIONS] = larger(d[DIM_ROTATIONS], sums->elements);
    d[DIM_ROTATED] = larger(d[DIM_ROTATED], inputs);
    d[DIM_DROTATED] = larger(d[DIM_DROTATED], sums->inputs);
}

size_t shapes_rotation_size(const struct shape_parameter *p)
{
    size_t size = 1;

    while (size * (size - 1) / 2 < p->cols)
        size++;
    return size;
}

bool shapes_rotation_dims(struct shapes_builder *m, struct error *err)
{
    const struct rotation *rotation = &m->out->lora.rotation;
    struct sums sums = { .layer = SIZE_MAX };

    if (!rotation->on)
        return true;
    for (size_t i = 0; i < m->out->count; i++) {
        const struct shape_parameter *p = &m->out->parameters[i];

        if (p->part == PART_OFT_R && p->cols == 0)
            return error_set(
                err, ERROR_JOB, "%s: the %zu inputs of %s have no divisor near it",
                rotation->size ? "oft_block_size" : "oft_rank", p->rows, p->name);
        if (p->part == PART_OFT_R)
            add_layer(m, p, &sums);
    }
    /* Q, the factors, and three more: model_rotation.c */
    m->dims[DIM_ROTATION_SCRATCH] =
        shapes_times(m, m->out->rotation_elements, rotation_degree(rotation) + 3);
    return true;
}
