/* kernels/cpu/cpu_xielu.c - the activation xIELU, whose slopes are learned. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <math.h>

/* Gradients of the parameters: rows are divided into slices by shape alone; the sums of the
 * slices are added in order. */
enum { XIELU_SLICES = 64 };

/* The slopes, and by how much each changes with its parameter. */
struct slopes {
    float p, n, beta, eps, dp, dn;
};

static double scalar(struct tensor x)
{
    return (double)vec_load(x.data, x.format, 0, 1)[0];
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static struct slopes slopes_of(const struct xielu *by)
{
    return (struct slopes) {
        .p = (float)softplus(scalar(by->alpha_p)),
        .n = (float)(scalar(by->beta) + softplus(scalar(by->alpha_n))),
        .beta = (float)scalar(by->beta),
        .eps = (float)scalar(by->eps),
        .dp = (float)(1 / (1 + exp(-scalar(by->alpha_p)))),
        .dn = (float)(1 / (1 + exp(-scalar(by->alpha_n)))),
    };
}

/* e^x - 1 - x for x <= 0.  Near 0, where it loses digits, the series: its next term is below
 * 2^-24 of it. */
CPU_INLINE vec xielu_tail(vec x)
{
    vec small = vec_max(vec_all(-0.5f), x);
    vec series = vec_all(1.0f / 362880);

    series = series * small + 1.0f / 40320;
    series = series * small + 1.0f / 5040;
    series = series * small + 1.0f / 720;
    series = series * small + 1.0f / 120;
    series = series * small + 1.0f / 24;
    series = series * small + 1.0f / 6;
    series = series * small + 0.5f;
    return vec_select(x > -0.5f, small * small * series, vec_exp(x) - 1.0f - x);
}

/* What the slopes multiply: x^2, or e^min(x, eps) - 1 - x. */
CPU_INLINE vec xielu_curve(const struct slopes *s, vec x)
{
    vec near = vec_min(vec_all(s->eps), x); /* the same, from eps on */
    vec tail = xielu_tail(near) + (near - x);

    return vec_select(x > 0, x * x, tail);
}

CPU_INLINE vec xielu_value(const struct slopes *s, vec x, vec curve)
{
    vec slope = vec_select(x > 0, vec_all(s->p), vec_all(s->n));

    return slope * curve + s->beta * x;
}

CPU_INLINE vec xielu_slope(const struct slopes *s, vec x)
{
    vec growth = vec_select(x >= s->eps, (vec) {}, vec_exp(x)) - 1.0f; /* NaN stays */
    vec left = s->n * growth + s->beta;

    return vec_select(x > 0, 2.0f * s->p * x + s->beta, left);
}

struct xielu_job {
    const struct op_xielu *op;
    struct slopes slopes;
};

CPU_INLINE void xielu_row(const struct xielu_job *job, size_t row, enum format format)
{
    const struct op_xielu *op = job->op;
    const void *from = cpu_row(op->x, row);
    void *out = cpu_row(op->out, row);
    size_t cols = op->out.cols;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec x = vec_load(from, format, i, count);

        vec_store(out, format, i, count,
                  xielu_value(&job->slopes, x, xielu_curve(&job->slopes, x)));
    }
}

static void xielu_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct xielu_job *job = context;
    size_t rows = cpu_task_rows(job->op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, job->op->out.rows);
         row++)
        VEC_BY_FORMAT(job->op->out.format, xielu_row, job, row);
}

void CPU_OP(xielu)(struct backend *be, const struct op_xielu *op)
{
    struct xielu_job job = { op, slopes_of(&op->by) };

    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    xielu_task, &job);
}

struct xielu_back {
    const struct op_xielu_backward *op;
    struct slopes slopes;
    size_t rows; /* of a slice */
    double sums[XIELU_SLICES][2];
};

CPU_INLINE void xielu_row_backward(const struct xielu_back *back, size_t row,
                                   double sums[2], enum format format)
{
    const struct op_xielu_backward *op = back->op;
    const struct slopes *s = &back->slopes;
    const void *from = cpu_row(op->x, row), *by = cpu_row(op->dout, row);
    void *dx = cpu_row(op->dx, row), *out = op->out.data ? cpu_row(op->out, row) : NULL;
    size_t cols = op->dout.cols;
    vec right = {}, left = {};

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec x = vec_load(from, format, i, count), g = vec_load(by, format, i, count);
        vec curve = xielu_curve(s, x);

        /* lanes past the row have g = 0 */
        right += vec_select(x > 0, g * curve, (vec) {});
        left += vec_select(x > 0, (vec) {}, g * curve);
        vec_store(dx, format, i, count, g * xielu_slope(s, x));
        if (out)
            vec_store(out, format, i, count, xielu_value(s, x, curve));
    }
    sums[0] += (double)vec_sum(right);
    sums[1] += (double)vec_sum(left);
}

static void xielu_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    struct xielu_back *back = context;
    const struct op_xielu_backward *op = back->op;
    size_t first = task * back->rows;
    double *sums = back->sums[task];

    (void)worker;
    sums[0] = sums[1] = 0;
    for (size_t row = first; row < size_min(first + back->rows, op->dout.rows); row++)
        VEC_BY_FORMAT(op->dout.format, xielu_row_backward, back, row, sums);
}

static void add_gradient(struct tensor to, double sum)
{
    if (to.data)
        *(float *)to.data += (float)sum;
}

void CPU_OP(xielu_backward)(struct backend *be, const struct op_xielu_backward *op)
{
    struct xielu_back back = { .op = op, .slopes = slopes_of(&op->by) };
    double right = 0, left = 0;
    size_t slices;

    if (op->dout.rows == 0)
        return;
    back.rows = size_divide_up(op->dout.rows, XIELU_SLICES);
    slices = size_divide_up(op->dout.rows, back.rows);
    cpu_backend_run(be, slices, xielu_backward_task, &back);
    for (size_t i = 0; i < slices; i++) {
        right += back.sums[i][0];
        left += back.sums[i][1];
    }
    add_gradient(op->dalpha_p, right * (double)back.slopes.dp);
    add_gradient(op->dalpha_n, left * (double)back.slopes.dn);
}
