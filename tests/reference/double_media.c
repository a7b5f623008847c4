/* tests/reference/double_media.c - rows of sounds and images, in double. */
#include "config.h"

#include "tests/reference/double_operand.h"

void double_place_rows(struct backend *be, const struct op_place_rows *op)
{
    const double *rows = take(be, op->rows);
    double *x = take(be, op->x);
    size_t cols = op->x.cols;

    for (size_t i = 0; i < op->rows.rows; i++)
        for (size_t c = 0; op->at[i] >= 0 && c < cols; c++) {
            double *to = &x[(size_t)op->at[i] * cols + c];

            *to = rows[i * cols + c] + (op->add ? *to : 0);
        }
    put(be, op->x, x);
    done(be);
}

void double_place_rows_backward(struct backend *be,
                                const struct op_place_rows_backward *op)
{
    size_t cols = op->dx.cols;
    double *dx = take(be, op->dx), *drows = room(be, op->count * cols);

    for (size_t i = 0; i < op->count; i++)
        for (size_t c = 0; c < cols; c++) {
            double *from = op->at[i] < 0 ? NULL : &dx[(size_t)op->at[i] * cols + c];

            drows[i * cols + c] = from ? *from : 0;
            if (from && !op->add)
                *from = 0;
        }
    put(be, op->dx, dx);
    put(be, op->drows, drows);
    done(be);
}

void double_pool_rows(struct backend *be, const struct op_pool_rows *op)
{
    const double *x = take(be, op->x);
    size_t cols = op->x.cols, group = op->group;
    double *out = room(be, numbers_of(op->out));

    for (size_t i = 0; i < op->out.rows; i++)
        for (size_t c = 0; c < cols; c++) {
            double sum = 0;

            for (size_t j = 0; j < group; j++)
                sum += x[(i * group + j) * cols + c];
            out[i * cols + c] = sum / (double)group;
        }
    put(be, op->out, out);
    done(be);
}

void double_pool_rows_backward(struct backend *be, const struct op_pool_rows_backward *op)
{
    const double *dout = take(be, op->dout);
    size_t cols = op->dx.cols;
    double *dx = room(be, numbers_of(op->dx));

    for (size_t n = 0; n < op->dx.rows; n++)
        for (size_t c = 0; c < cols; c++)
            dx[n * cols + c] = n / op->group < op->dout.rows
                                   ? dout[n / op->group * cols + c] / (double)op->group
                                   : 0;
    put(be, op->dx, dx);
    done(be);
}

void double_unfold(struct backend *be, const struct op_unfold *op)
{
    const double *x = take(be, op->x);
    size_t cols = op->x.cols;
    double *out = room(be, numbers_of(op->out));

    for (size_t i = 0; i < op->out.rows * op->size; i++)
        for (size_t c = 0; c < cols; c++)
            out[i / op->size * op->out.cols + c * op->size + i % op->size] =
                op->taps[i] < 0 ? 0 : x[(size_t)op->taps[i] * cols + c];
    put(be, op->out, out);
    done(be);
}

void double_unfold_backward(struct backend *be, const struct op_unfold_backward *op)
{
    const double *dout = take(be, op->dout);
    size_t cols = op->dx.cols;
    double *dx = room(be, numbers_of(op->dx));

    for (size_t n = 0; n < op->dx.rows; n++)
        for (size_t c = 0; c < cols; c++) {
            dx[n * cols + c] = 0;
            for (size_t u = 0; u < op->most; u++) {
                int32_t use = op->uses[n * op->most + u];

                if (use >= 0)
                    dx[n * cols + c] += dout[(size_t)use / op->size * op->dout.cols +
                                             c * op->size + (size_t)use % op->size];
            }
        }
    put(be, op->dx, dx);
    done(be);
}

void double_filter_rows(struct backend *be, const struct op_filter_rows *op)
{
    const double *x = take(be, op->x), *weight = take(be, op->weight);
    const double *bias = op->bias.data ? take(be, op->bias) : NULL;
    size_t cols = op->x.cols;
    double *out = room(be, numbers_of(op->out));

    for (size_t m = 0; m < op->out.rows; m++)
        for (size_t c = 0; c < cols; c++) {
            double sum = bias ? bias[c] : 0;

            for (size_t k = 0; k < op->size; k++) {
                int32_t tap = op->taps[m * op->size + k];

                if (tap >= 0)
                    sum += weight[k * cols + c] * x[(size_t)tap * cols + c];
            }
            out[m * cols + c] = sum;
        }
    put(be, op->out, out);
    done(be);
}
