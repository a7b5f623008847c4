/* kernels/cpu/cpu_projected.c - GaLore and APOLLO: Adam on a projected gradient, APOLLO's
 * factors and limit, and the update. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

#define NORM_EPSILON 1e-8
/* apollo_torch/apollo.py: norms of two steps grow by at most this factor */
#define GROWTH 1.01

enum { MOST_TASKS = 64, COLUMNS_A_TASK = 256 };

/* ---- Adam ---- */

struct projected_adam {
    struct tensor out, x, m, v;
    float grad_scale, beta1, beta2, rest1, rest2, eps;
};

static void adam_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct projected_adam *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;
    size_t last = size_min(first + CPU_TASK_ELEMENTS, a->x.cols);

    (void)worker;
    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec x = vec_load(a->x.data, FORMAT_FP32, i, count) * a->grad_scale;
        vec m = vec_load(a->m.data, FORMAT_FP32, i, count);
        vec v = vec_load(a->v.data, FORMAT_FP32, i, count);

        m = m * a->beta1 + x * a->rest1;
        v = v * a->beta2 + x * x * a->rest2;
        vec_store(a->m.data, FORMAT_FP32, i, count, m);
        vec_store(a->v.data, FORMAT_FP32, i, count, v);
        vec_store(a->x.data, FORMAT_FP32, i, count, x);
        vec_store(a->out.data, FORMAT_FP32, i, count, m / (vec_sqrt(v) + a->eps));
    }
}

void CPU_OP(projected_adam)(struct backend *be, const struct op_projected_adam *op)
{
    const struct step_scalars *n = op->numbers;
    struct projected_adam a = {
        .out = cpu_flat(op->out),
        .x = cpu_flat(op->x),
        .m = cpu_flat(op->m),
        .v = cpu_flat(op->v),
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
        .beta1 = (float)op->beta1,
        .beta2 = (float)op->beta2,
        .rest1 = (float)(1 - op->beta1),
        .rest2 = (float)(1 - op->beta2),
        .eps = (float)op->eps,
    };

    if (n && !n->finite)
        return;
    cpu_backend_run(be, size_divide_up(a.x.cols, CPU_TASK_ELEMENTS), adam_task, &a);
}

/* ---- Factors ---- */

struct factors {
    const float *out, *x;
    float *factor;
    size_t rows, cols;
};

static float factor_of(double out, double x)
{
    return (float)(sqrt(out) / (sqrt(x) + NORM_EPSILON));
}

/* Sum of squares of consecutive elements. */
CPU_INLINE double squares(const float *x, size_t count)
{
    double sum = 0;

    for (size_t i = 0; i < count; i += LANES) {
        vec part = vec_load(x, FORMAT_FP32, i, vec_count(i, count));

        sum += vec_sum_wide(part * part);
    }
    return sum;
}

/* The rows may be one, of everything. */
static void rows_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct factors *f = context;
    size_t each = cpu_task_rows(f->cols), end = size_min((task + 1) * each, f->rows);

    (void)worker;
    for (size_t row = task * each; row < end; row++)
        f->factor[row] = factor_of(squares(f->out + row * f->cols, f->cols),
                                   squares(f->x + row * f->cols, f->cols));
}

static void columns_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct factors *f = context;
    size_t first = task * COLUMNS_A_TASK;
    size_t count = size_min(f->cols - first, COLUMNS_A_TASK);
    double out[COLUMNS_A_TASK] = { 0 }, x[COLUMNS_A_TASK] = { 0 };

    (void)worker;
    for (size_t row = 0; row < f->rows; row++)
        for (size_t i = 0; i < count; i++) {
            double a = f->out[row * f->cols + first + i];
            double b = f->x[row * f->cols + first + i];

            out[i] += a * a;
            x[i] += b * b;
        }
    for (size_t i = 0; i < count; i++)
        f->factor[first + i] = factor_of(out[i], x[i]);
}

void CPU_OP(apollo_factors)(struct backend *be, const struct op_apollo_factors *op)
{
    size_t rows = op->x.rows, cols = op->x.cols;
    struct factors f = { op->out.data, op->x.data, op->factor.data, rows, cols };

    if (op->factor.rows == rows && op->factor.cols == 1) {
        cpu_backend_run(be, size_divide_up(rows, cpu_task_rows(cols)), rows_task, &f);
    } else if (op->factor.cols == cols && op->factor.rows == 1) {
        cpu_backend_run(be, size_divide_up(cols, COLUMNS_A_TASK), columns_task, &f);
    } else {
        f.rows = 1;
        f.cols = rows * cols;
        cpu_backend_run(be, 1, rows_task, &f);
    }
}

/* ---- Rows of a matrix with their factors ---- */

struct scaled {
    const float *x, *factor;
    size_t cols;
    bool by_row, by_column; /* neither: one factor, or none */
};

static struct scaled scaled_of(struct tensor x, struct tensor factor)
{
    return (struct scaled) {
        .x = x.data,
        .factor = factor.data,
        .cols = x.cols,
        .by_row = factor.data && factor.cols == 1 && factor.rows > 1,
        .by_column = factor.data && factor.rows == 1 && factor.cols > 1,
    };
}

/* Elements from `at` on, which are of one row. */
CPU_INLINE vec scaled_load(const struct scaled *s, size_t row, size_t at, size_t count)
{
    vec x = vec_load(s->x, FORMAT_FP32, at, count);

    if (s->by_column)
        return x * vec_load(s->factor, FORMAT_FP32, at - row * s->cols, count);
    return s->factor ? x * s->factor[s->by_row ? row : 0] : x;
}

/* ---- The limit ---- */

struct limit {
    struct scaled scaled;
    size_t rows, tasks;
    double sums[MOST_TASKS];
};

static void limit_task(void *context, size_t task, struct pool_worker *worker)
{
    struct limit *l = context;
    size_t each = size_divide_up(l->rows, l->tasks), cols = l->scaled.cols;
    size_t end = size_min((task + 1) * each, l->rows);
    double sum = 0;

    (void)worker;
    for (size_t row = task * each; row < end; row++)
        for (size_t i = row * cols; i < (row + 1) * cols; i += LANES) {
            vec x = scaled_load(&l->scaled, row, i, vec_count(i, (row + 1) * cols));

            sum += vec_sum_wide(x * x);
        }
    l->sums[task] = sum;
}

void CPU_OP(apollo_limit)(struct backend *be, const struct op_apollo_limit *op)
{
    const struct step_scalars *n = op->numbers;
    double grad_scale = op->grad_scale * (n ? n->factor : 1), sum = 0, norm, by = 1;
    struct limit l = { .scaled = scaled_of(op->grad, op->factor), .rows = op->grad.rows };
    float *last = op->norm.data, *limit = op->limit.data;

    if (n && !n->finite)
        return;
    l.tasks = size_min(op->grad.rows, MOST_TASKS);
    cpu_backend_run(be, l.tasks, limit_task, &l);
    for (size_t i = 0; i < l.tasks; i++)
        sum += l.sums[i];
    norm = op->scale * grad_scale * sqrt(sum);
    if (*last > 0)
        by = fmax(norm / ((double)*last + NORM_EPSILON), GROWTH) / GROWTH;
    *limit = (float)(grad_scale / by);
    *last = (float)(norm / by);
}

/* ---- The update ---- */

struct projected_end {
    struct target target;
    struct scaled scaled;
    float keep, rate;
};

/* Elements first .. last, of one row. */
CPU_INLINE void end_part(const struct projected_end *a, size_t first, size_t last,
                         const uint32_t *draws)
{
    const struct tensor *target = &a->target.w;
    size_t row = first / a->scaled.cols;

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec w = vec_load(target->data, target->format, i, count);

        w = (w - scaled_load(&a->scaled, row, i, count) * a->rate) * a->keep;
        target_store(&a->target, i, count, w, draws ? draws + (i - first) : NULL);
    }
}

static void end_drawn(const void *context, size_t first, size_t last,
                      const uint32_t *draws)
{
    const struct projected_end *a = context;

    for (size_t at = first; at < last;) {
        size_t end = size_min(last, (at / a->scaled.cols + 1) * a->scaled.cols);

        end_part(a, at, end, draws ? draws + (at - first) : NULL);
        at = end;
    }
}

static void end_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct projected_end *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (a->target.stochastic)
        target_draw(&a->target, task, end_drawn, a);
    else
        end_drawn(a, first, size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols), NULL);
}

void CPU_OP(projected_end)(struct backend *be, const struct op_projected_end *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1);
    double step = (double)(n ? n->step : op->step);
    double rate = lr * sqrt(1 - pow(op->beta2, step)) / (1 - pow(op->beta1, step));
    struct projected_end a = {
        .target = target_of(op->w, op->copy),
        .scaled = scaled_of(op->x, op->factor),
        .keep = (float)(1 - lr * op->decay),
        .rate = (float)(rate * op->scale),
    };

    if (n && !n->finite)
        return;
    if (op->limit.data)
        a.rate *= *(const float *)op->limit.data;
    if (op->stochastic)
        target_rounds(&a.target, op->seed, (int64_t)step, op->first);
    cpu_backend_run(be, size_divide_up(a.target.w.cols, CPU_TASK_ELEMENTS), end_task, &a);
}
