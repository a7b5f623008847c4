/*
 * train/model/model_rotation.c - linear layers whose adapters rotate their inputs, forward
 * and backward; train/model/rotation.h has the formulas.
 *
 *     y = x' W^T + b     x' = x R, rounded to the compute format
 *     g = dy W           dx = g R^T     dR = x^T g, by block
 *
 * R is computed in each forward pass, and kept for the backward pass.  With P_k = 2 I + Q
 * P_(k+1) and R = I + Q P_1 (Horner's rule), and G_0 = dR:
 *
 *     dQ = sum of G_k P_(k+1)^T,   G_(k+1) = Q^T G_k
 *
 * Exactly, with M = (I + Q)^-1: R = (I + Q)^T M and dQ = -2 M^T dR M^T.
 */
#include "config.h"

#include "train/model/model_rotation.h"

#include <stdlib.h>

#include "base/arena.h"
#include "train/model/model_dora.h"
#include "train/model/model_linear.h"
#include "train/model/model_stored.h"

/* Matrices of BUFFER_ROTATION_SCRATCH: Q, or M; the factors P_1 and so on; then these. */
enum { SCRATCH_Q, SCRATCH_P };
enum { AFTER_DQ, AFTER_G, AFTER_OTHER_G };

/* Return the rotation of a layer in a block. */
static struct tensor rotation_of(const struct pass *pass, const struct rotated *r,
                                 size_t layer)
{
    float *data = pass_buffer(pass, BUFFER_ROTATIONS, layer).data;

    return tensor_of(data + r->at, FORMAT_FP32, r->blocks * r->size, r->size);
}

/* Return matrix `index` of the scratch, for all blocks of a layer. */
static struct tensor scratch_of(const struct pass *pass, const struct rotated *r,
                                size_t index)
{
    const struct tensor all = pass_buffer(pass, BUFFER_ROTATION_SCRATCH, 0);
    const size_t each = pass->model->shapes.rotation_elements;

    return tensor_of((float *)all.data + index * each, FORMAT_FP32, r->blocks * r->size,
                     r->size);
}

static struct tensor scratch_after(const struct pass *pass, const struct rotated *r,
                                   size_t index)
{
    return scratch_of(pass, r,
                      SCRATCH_P + rotation_degree(&pass->model->shapes.lora.rotation) -
                          1 + index);
}

/* Issue a matmul by block. */
static void multiply(const struct pass *pass, const struct rotated *r,
                     struct op_block_matmul op)
{
    op.blocks = r->blocks;
    op.size = r->size;
    op.alpha = op.alpha != 0 ? op.alpha : 1;
    pass->ops->block_matmul(pass->be, &op);
}

/* out = skew(oft_R) + diagonal I */
static void unpack(const struct pass *pass, const struct rotated *r, struct tensor out,
                   float diagonal)
{
    pass->ops->skew(
        pass->be,
        &(struct op_skew) { .out = out, .x = r->packed->weight, .diagonal = diagonal });
}

static void invert(const struct pass *pass, const struct rotated *r, struct tensor out)
{
    unpack(pass, r, out, 1);
    pass->ops->block_inverse(pass->be, &(struct op_block_inverse) { .x = out });
}

/* Compute Q and P_(d-1) .. P_1, each into its room. */
static void compute_factors(const struct pass *pass, const struct rotated *r,
                            size_t degree)
{
    struct tensor q = scratch_of(pass, r, SCRATCH_Q);

    unpack(pass, r, q, 0);
    unpack(pass, r, scratch_of(pass, r, SCRATCH_P + degree - 2), 2);
    for (size_t k = degree - 2; k-- > 0;)
        multiply(pass, r,
                 (struct op_block_matmul) { .out = scratch_of(pass, r, SCRATCH_P + k),
                                            .a = q,
                                            .b = scratch_of(pass, r, SCRATCH_P + k + 1),
                                            .diagonal = 2 });
}

static void compute_rotation(const struct pass *pass, const struct rotated *r,
                             size_t layer)
{
    const struct rotation *settings = &pass->model->shapes.lora.rotation;
    struct op_block_matmul op = { .out = rotation_of(pass, r, layer),
                                  .a = scratch_of(pass, r, SCRATCH_Q),
                                  .b = scratch_of(pass, r, SCRATCH_P) };

    if (settings->exact) {
        unpack(pass, r, op.a, 1);
        invert(pass, r, op.b);
        op.trans_a = true;
    } else {
        compute_factors(pass, r, rotation_degree(settings));
        op.diagonal = 1;
    }
    multiply(pass, r, op);
}

/* The input that a layer reads, until the next call. */
static struct tensor rotate(const struct pass *pass, const struct rotated *r,
                            size_t layer, struct tensor x)
{
    struct tensor out = pass_buffer(pass, BUFFER_ROTATED, 0);

    if (!r->packed)
        return x;
    out = tensor_of(out.data, out.format, x.rows, x.cols);
    multiply(pass, r,
             (struct op_block_matmul) {
                 .out = out, .a = x, .b = rotation_of(pass, r, layer) });
    return out;
}

void rotation_forward(const struct pass *pass, const struct linear_stack *l, size_t layer,
                      struct tensor x, struct tensor y, float beta)
{
    for (size_t i = 0; i < l->base_count; i++) {
        const struct rotated *r = &l->rotated[i];

        if (r->packed && !pass->decoding && !pass->recomputes) /* they are the same */
            compute_rotation(pass, r, layer);
        linear_forward(pass, &l->base[i], rotate(pass, r, layer, x), y, 1, beta);
    }
}

/* Return the room for g of a layer. */
static struct tensor gradient_of(const struct pass *pass, const struct rotated *r,
                                 size_t rows)
{
    struct tensor all = pass_buffer(pass, BUFFER_DROTATED, 0);
    const size_t cols = r->blocks * r->size, before = r->inputs_before * rows;

    return tensor_of((char *)all.data + before * format_info(all.format)->bytes,
                     all.format, rows, cols);
}

void rotation_backward_to_input(const struct pass *pass, const struct linear_stack *l,
                                size_t layer, struct tensor dy, struct tensor dx)
{
    for (size_t i = 0; i < l->base_count; i++) {
        const struct rotated *r = &l->rotated[i];
        const float beta = i == 0 ? 0 : 1;
        struct tensor g;

        if (!r->packed) {
            if (dx.data)
                linear_input_gradient(pass, &l->base[i], dy, dx, 1, beta);
            continue;
        }
        g = gradient_of(pass, r, dy.rows);
        linear_input_gradient(pass, &l->base[i], dy, g, 1, 0);
        if (dx.data)
            multiply(pass, r,
                     (struct op_block_matmul) { .out = dx,
                                                .a = g,
                                                .b = rotation_of(pass, r, layer),
                                                .trans_b = true,
                                                .beta = beta });
    }
}

/* dQ from dR, for the series. */
static void series_backward(const struct pass *pass, const struct rotated *r,
                            struct tensor dq, struct tensor dr)
{
    const size_t degree = rotation_degree(&pass->model->shapes.lora.rotation);
    struct tensor q = scratch_of(pass, r, SCRATCH_Q), g = dr,
                  next = scratch_after(pass, r, AFTER_OTHER_G);

    compute_factors(pass, r, degree);
    for (size_t k = 0; k < degree - 1; k++) {
        struct tensor free_room = g;

        multiply(pass, r,
                 (struct op_block_matmul) { .out = dq,
                                            .a = g,
                                            .b = scratch_of(pass, r, SCRATCH_P + k),
                                            .trans_b = true,
                                            .beta = k == 0 ? 0 : 1 });
        multiply(
            pass, r,
            (struct op_block_matmul) { .out = next, .a = q, .b = g, .trans_a = true });
        g = next;
        next = free_room;
    }
    pass->ops->add(pass->be, &(struct op_add) { .out = dq, .a = dq, .b = g });
}

static void exact_backward(const struct pass *pass, const struct rotated *r,
                           struct tensor dq, struct tensor dr)
{
    struct tensor m = scratch_of(pass, r, SCRATCH_Q),
                  left = scratch_after(pass, r, AFTER_OTHER_G);

    invert(pass, r, m);
    multiply(pass, r,
             (struct op_block_matmul) { .out = left, .a = m, .b = dr, .trans_a = true });
    multiply(pass, r,
             (struct op_block_matmul) {
                 .out = dq, .a = left, .b = m, .trans_b = true, .alpha = -2 });
}

void rotation_backward_to_weights(const struct pass *pass, const struct linear_stack *l,
                                  struct tensor x)
{
    for (size_t i = 0; i < l->base_count; i++) {
        const struct rotated *r = &l->rotated[i];
        struct tensor dq, dr;

        if (!r->packed || !r->packed->grad.data)
            continue;
        dq = scratch_after(pass, r, AFTER_DQ);
        dr = scratch_after(pass, r, AFTER_G);
        multiply(
            pass, r,
            (struct op_block_matmul) {
                .out = dr, .a = x, .b = gradient_of(pass, r, x.rows), .trans_a = true });
        if (pass->model->shapes.lora.rotation.exact)
            exact_backward(pass, r, dq, dr);
        else
            series_backward(pass, r, dq, dr);
        pass->ops->skew_backward(
            pass->be, &(struct op_skew_backward) { .dx = r->packed->grad,
                                                   .dout = dq,
                                                   .beta = pass->first ? 0 : 1 });
    }
}

/* The rotations of a block follow each other in the order of its modules. */
static size_t elements_before(const struct model *m, size_t layer, enum module module)
{
    size_t elements = 0;

    for (enum module i = 0; i < module; i++) {
        const struct parameter *p = model_find(m, i, PART_OFT_R, layer);

        if (p)
            elements += model_find(m, i, PART_WEIGHT, layer)->cols *
                        rotation_size(&m->shapes.lora.rotation,
                                      model_find(m, i, PART_WEIGHT, layer)->cols);
    }
    return elements;
}

void rotation_append(const struct model *m, size_t layer, enum module module,
                     struct linear_stack *l, const struct linear *linear)
{
    struct rotated *r = &l->rotated[l->base_count];

    *r = (struct rotated) { .packed = model_find(m, module, PART_OFT_R, layer) };
    l->base[l->base_count++] = *linear;
    if (!r->packed)
        return;
    r->size = rotation_size(&m->shapes.lora.rotation, linear->in_count);
    r->blocks = linear->in_count / r->size;
    r->at = elements_before(m, layer, module);
    for (const struct rotated *other = l->rotated; other < r; other++)
        r->inputs_before += other->blocks * other->size;
    l->rotates = l->trained = true;
}

void model_rotate_weights(const struct model_rows *rows, const struct rotation *rotation,
                          const float *packed)
{
    const size_t cols = rows->parameter->cols, size = rotation_size(rotation, cols);
    double *block = memory_alloc((size * size + size) * sizeof(*block));
    double *sums = block + size * size;

    for (size_t first = 0; first < cols; first += size, packed += size * (size - 1) / 2) {
        rotation_compute(rotation, size, packed, block);
        for (size_t i = 0; i < rows->count; i++) {
            float *w = rows->values + i * cols + first;

            for (size_t k = 0; k < size; k++) {
                sums[k] = 0;
                for (size_t j = 0; j < size; j++)
                    sums[k] += w[j] * block[k * size + j];
            }
            for (size_t k = 0; k < size; k++)
                w[k] = (float)sums[k];
        }
    }
    free(block);
}
