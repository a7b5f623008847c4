/* tests/reference/double_experts.c - the operands of a mixture of experts in double, passed
 * to the loops of reference_experts.h. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include "tests/reference/reference_experts.h"

static struct reference_route route_of(struct backend *be, const struct op_route *op)
{
    return (struct reference_route) {
        .op = op,
        .logits = take(be, op->logits),
        .bias = take(be, op->bias),
        .probabilities = take(be, op->probabilities),
        .weights = take(be, op->weights),
        .experts = op->experts,
        .order = op->order,
        .slots = op->slots,
        .starts = op->starts,
        .counts = op->counts,
    };
}

void double_route(struct backend *be, const struct op_route *op)
{
    struct reference_route r = route_of(be, op);

    reference_route(&r);
    put(be, op->probabilities, r.probabilities);
    put(be, op->weights, r.weights);
    done(be);
}

void double_route_backward(struct backend *be, const struct op_route_backward *op)
{
    struct reference_route_backward r = {
        .op = op,
        .forward = route_of(be, &op->forward),
        .dweights = take(be, op->dweights),
        .dlogits = room(be, numbers_of(op->dlogits)),
    };

    reference_route_backward(&r);
    put(be, op->dlogits, r.dlogits);
    if (op->coefficient != 0)
        double_of(be)->balance += reference_balance(&r);
    done(be);
}

void double_pair_scale(struct backend *be, const struct op_pair_scale *op)
{
    double *out = room(be, numbers_of(op->out)), *weights = take(be, op->weights);
    double *scales = take(be, op->scales);

    for (size_t i = 0; i < numbers_of(op->out); i++)
        out[i] = weights[i] * scales[op->experts[i]];
    put(be, op->out, out);
    done(be);
}

void double_pair_scale_backward(struct backend *be,
                                const struct op_pair_scale_backward *op)
{
    double *dweights = take(be, op->dweights), *dscales = take(be, op->dscales);
    double *weights = take(be, op->weights), *scales = take(be, op->scales);

    for (size_t e = 0; e < op->scales.cols; e++)
        for (int32_t slot = op->starts[e]; slot < op->starts[e + 1]; slot++) {
            if (dscales)
                dscales[e] += dweights[op->order[slot]] * weights[op->order[slot]];
            dweights[op->order[slot]] *= scales[e];
        }
    put(be, op->dweights, dweights);
    put(be, op->dscales, dscales);
    done(be);
}

void double_grouped_matmul(struct backend *be, const struct op_grouped_matmul *op)
{
    struct reference_grouped_matmul r = {
        .groups = op->groups,
        .inner = op->a.cols,
        .cols = op->out.cols,
        .starts = op->starts,
        .a = take(be, op->a),
        .b = take(be, op->b),
        .trans_a = op->trans_a,
        .trans_b = op->trans_b,
        .alpha = (double)op->alpha,
        .beta = (double)op->beta,
        .out = take(be, op->out),
    };

    reference_grouped_matmul(&r);
    put(be, op->out, r.out);
    done(be);
}

void double_gather_pairs(struct backend *be, const struct op_gather_pairs *op)
{
    double *x = take(be, op->x), *out = room(be, numbers_of(op->out));
    size_t cols = op->out.cols, chosen = op->out.rows / op->x.rows;

    for (size_t i = 0; i < numbers_of(op->out); i++)
        out[i] = x[(size_t)op->order[i / cols] / chosen * cols + i % cols];
    put(be, op->out, out);
    done(be);
}

void double_sum_pairs(struct backend *be, const struct op_sum_pairs *op)
{
    struct reference_combine r = {
        .rows = op->out.rows,
        .chosen = op->y.rows / op->out.rows,
        .cols = op->out.cols,
        .slots = op->slots,
        .base = op->add ? take(be, op->out) : NULL,
        .y = take(be, op->y),
        .out = room(be, numbers_of(op->out)),
    };

    reference_combine(&r);
    put(be, op->out, r.out);
    done(be);
}

void double_combine(struct backend *be, const struct op_combine *op)
{
    struct reference_combine r = {
        .rows = op->out.rows,
        .chosen = op->weights.cols,
        .cols = op->out.cols,
        .slots = op->slots,
        .base = take(be, op->base),
        .y = take(be, op->y),
        .weights = take(be, op->weights),
        .out = room(be, numbers_of(op->out)),
    };

    reference_combine(&r);
    put(be, op->out, r.out);
    done(be);
}

void double_combine_backward(struct backend *be, const struct op_combine_backward *op)
{
    struct reference_combine r = {
        .rows = op->dout.rows,
        .chosen = op->weights.cols,
        .cols = op->dout.cols,
        .slots = op->slots,
        .y = take(be, op->y),
        .weights = take(be, op->weights),
        .dout = take(be, op->dout),
        .dy = room(be, numbers_of(op->dy)),
        .dweights = op->dweights.data ? room(be, numbers_of(op->weights)) : NULL,
    };

    reference_combine_backward(&r);
    put(be, op->dy, r.dy);
    put(be, op->dweights, r.dweights);
    done(be);
}
