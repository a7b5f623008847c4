/* tests/reference/double_heads.c - LayerNorm of heads, and limits of values, in double. */
#include "config.h"

#include "tests/reference/double_operand.h"

#include <math.h>

void double_headlayer(struct backend *be, const struct op_headlayer *op)
{
    const double *x = take(be, op->x), *weight = take(be, op->weight);
    const double *bias = take(be, op->bias);
    size_t size = op->weight.cols, count = op->x.rows * op->heads;
    double *out = room(be, count * size), *stats = room(be, 2 * count);

    for (size_t h = 0; h < count; h++) {
        size_t of = op->weight.rows > 1 ? h % op->heads * size : 0;
        double mean = 0, variance = 0;

        for (size_t i = 0; i < size; i++)
            mean += x[h * size + i] / (double)size;
        for (size_t i = 0; i < size; i++)
            variance += pow(x[h * size + i] - mean, 2) / (double)size;
        stats[2 * h] = mean;
        stats[2 * h + 1] = 1 / sqrt(variance + (double)op->eps);
        for (size_t i = 0; i < size; i++)
            out[h * size + i] =
                (x[h * size + i] - mean) * stats[2 * h + 1] * weight[of + i] +
                (bias ? bias[of + i] : 0);
    }
    put(be, op->out, out);
    put(be, op->stats, stats);
    done(be);
}

void double_headlayer_backward(struct backend *be, const struct op_headlayer_backward *op)
{
    const double *x = take(be, op->x), *weight = take(be, op->weight);
    const double *dout = take(be, op->dout), *stats = take(be, op->stats);
    double *dweight = take(be, op->dweight), *dbias = take(be, op->dbias);
    size_t size = op->weight.cols, count = op->x.rows * op->heads;
    double *dx = room(be, count * size);

    for (size_t h = 0; h < count; h++) {
        size_t of = op->weight.rows > 1 ? h % op->heads * size : 0;
        double rstd = stats[2 * h + 1], all = 0, along = 0;

        for (size_t i = 0; i < size; i++) {
            double normal = (x[h * size + i] - stats[2 * h]) * rstd;
            double by = dout[h * size + i];

            if (dweight)
                dweight[of + i] += by * normal;
            if (dbias)
                dbias[of + i] += by;
            all += by * weight[of + i] / (double)size;
            along += by * weight[of + i] * normal / (double)size;
        }
        for (size_t i = 0; i < size; i++)
            dx[h * size + i] = rstd * (dout[h * size + i] * weight[of + i] - all -
                                       (x[h * size + i] - stats[2 * h]) * rstd * along);
    }
    put(be, op->dx, dx);
    put(be, op->dweight, dweight);
    put(be, op->dbias, dbias);
    done(be);
}

void double_clip(struct backend *be, const struct op_clip *op)
{
    double *x = take(be, op->x), limit = (double)op->limit;

    for (size_t i = 0; i < numbers_of(op->x); i++)
        x[i] = fabs(x[i]) > limit ? copysign(limit, x[i]) : x[i];
    put(be, op->out, x);
    done(be);
}

void double_clip_backward(struct backend *be, const struct op_clip_backward *op)
{
    const double *x = take(be, op->x);
    double *dout = take(be, op->dout);

    for (size_t i = 0; i < numbers_of(op->x); i++)
        if (!(fabs(x[i]) <= (double)op->limit))
            dout[i] = 0;
    put(be, op->dx, dout);
    done(be);
}
