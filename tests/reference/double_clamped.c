/* tests/reference/double_clamped.c - sinks of attention, and the experts of gpt-oss, in
 * double. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include <math.h>

void double_sink(struct backend *be, const struct op_sink *op)
{
    double *out = take(be, op->out), *lse = take(be, op->lse);
    const double *sinks = take(be, op->sinks);
    size_t rows = op->out.rows, cols = op->out.cols, size = cols / op->heads;

    for (size_t i = 0; i < rows * cols; i++) {
        size_t head = i % cols / size;

        out[i] /= 1 + exp(sinks[head] - lse[head * rows + i / cols]);
    }
    for (size_t i = 0; i < rows * op->heads; i++)
        lse[i] += log1p(exp(sinks[i / rows] - lse[i]));
    put(be, op->out, out);
    put(be, op->lse, lse);
    done(be);
}

void double_sink_backward(struct backend *be, const struct op_sink_backward *op)
{
    double *dsinks = take(be, op->dsinks);
    const double *out = take(be, op->out), *dout = take(be, op->dout);
    const double *lse = take(be, op->lse), *sinks = take(be, op->sinks);
    size_t rows = op->out.rows, cols = op->out.cols, size = cols / op->heads;

    for (size_t i = 0; i < rows * cols; i++) {
        size_t head = i % cols / size;

        dsinks[head] -= exp(sinks[head] - lse[head * rows + i / cols]) * out[i] * dout[i];
    }
    put(be, op->dsinks, dsinks);
    done(be);
}

static double between(double x, double low, double high)
{
    return x < low ? low : x > high ? high : x;
}

void double_clamped(struct backend *be, const struct op_clamped *op)
{
    const double *gate = take(be, op->gate), *up = take(be, op->up);
    double *out = room(be, numbers_of(op->out)), limit = (double)op->limit;

    for (size_t i = 0; i < numbers_of(op->out); i++) {
        double g = between(gate[i], -INFINITY, limit);

        out[i] =
            (between(up[i], -limit, limit) + 1) * g / (1 + exp(-(double)op->alpha * g));
    }
    put(be, op->out, out);
    done(be);
}

void double_clamped_backward(struct backend *be, const struct op_clamped_backward *op)
{
    const double *gate = take(be, op->gate), *up = take(be, op->up);
    const double *dout = take(be, op->dout);
    size_t count = numbers_of(op->dout);
    double *out = room(be, count), *dgate = room(be, count), *dup = room(be, count);
    double alpha = (double)op->alpha, limit = (double)op->limit;

    for (size_t i = 0; i < count; i++) {
        double g = between(gate[i], -INFINITY, limit), u = between(up[i], -limit, limit);
        double share = 1 / (1 + exp(-alpha * g));

        out[i] = (u + 1) * g * share;
        dgate[i] = gate[i] > limit
                       ? 0
                       : dout[i] * (u + 1) * share * (1 + alpha * g * (1 - share));
        dup[i] = fabs(up[i]) > limit ? 0 : dout[i] * g * share;
    }
    put(be, op->dgate, dgate);
    put(be, op->dup, dup);
    put(be, op->out, out);
    done(be);
}

void double_group_bias(struct backend *be, const struct op_group_bias *op)
{
    double *out = take(be, op->out);
    const double *bias = take(be, op->bias);
    size_t cols = op->out.cols;

    for (size_t g = 0; g < op->groups; g++)
        for (size_t i = (size_t)op->starts[g] * cols;
             i < (size_t)op->starts[g + 1] * cols; i++)
            out[i] += bias[g * cols + i % cols];
    put(be, op->out, out);
    done(be);
}

void double_group_bias_backward(struct backend *be,
                                const struct op_group_bias_backward *op)
{
    double *dbias = take(be, op->dbias);
    const double *dout = take(be, op->dout);
    size_t cols = op->dout.cols;

    for (size_t g = 0; g < op->groups; g++)
        for (size_t i = (size_t)op->starts[g] * cols;
             i < (size_t)op->starts[g + 1] * cols; i++)
            dbias[g * cols + i % cols] += dout[i];
    put(be, op->dbias, dbias);
    done(be);
}
