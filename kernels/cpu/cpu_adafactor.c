/* kernels/cpu/cpu_adafactor.c - Adafactor: second moments of rows and columns, the size of
 * the update, the update.  Sums are over tasks that depend on shapes alone. */
#include "config.h"

#include "kernels/cpu/cpu_optimizer.h"

#define SQUARE_EPSILON 1e-30f

/* Tasks of a pass over the matrix, and columns of a task of the pass over columns. */
enum { MOST_TASKS = 64, TASK_COLUMNS = 64 };

/* The scalars of a step in the form the loops use. */
struct adafactor {
    struct target target;
    const float *grad;
    float *row, *col, *v; /* v: NULL for a matrix */
    size_t rows, cols, tasks;
    float grad_scale, beta, rest, keep, lr, mean;
    double sums[MOST_TASKS];
};

/* Return where a task's share of `count` begins. */
static size_t share_of(size_t count, size_t task, size_t tasks)
{
    return count / tasks * task + size_min(task, count % tasks);
}

CPU_INLINE vec gradient_at(const struct adafactor *a, size_t i, size_t count)
{
    return vec_load(a->grad, FORMAT_FP32, i, count) * a->grad_scale;
}

static void rows_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adafactor *a = context;
    size_t end = share_of(a->rows, task + 1, a->tasks);

    (void)worker;
    for (size_t row = share_of(a->rows, task, a->tasks); row < end; row++) {
        size_t first = row * a->cols, last = first + a->cols;
        double sum = 0;

        for (size_t i = first; i < last; i += LANES) {
            vec g = gradient_at(a, i, vec_count(i, last));

            sum += vec_sum_wide(g * g);
        }
        a->row[row] = a->row[row] * a->beta +
                      ((float)(sum / (double)a->cols) + SQUARE_EPSILON) * a->rest;
    }
}

/* Sums of up to 64 rows are in fp32. */
static void columns_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adafactor *a = context;
    size_t first = task * TASK_COLUMNS, last = size_min(first + TASK_COLUMNS, a->cols);
    double sums[TASK_COLUMNS] = { 0 };

    (void)worker;
    for (size_t row = 0; row < a->rows; row += 64) {
        vec part[TASK_COLUMNS / LANES] = { 0 };
        float at[TASK_COLUMNS];

        for (size_t r = row; r < size_min(row + 64, a->rows); r++)
            for (size_t i = first, k = 0; i < last; i += LANES, k++) {
                vec g = gradient_at(a, r * a->cols + i, vec_count(i, last));

                part[k] += g * g;
            }
        memcpy(at, part, sizeof(at));
        for (size_t i = first; i < last; i++)
            sums[i - first] += (double)at[i - first];
    }
    for (size_t i = first; i < last; i++)
        a->col[i] =
            a->col[i] * a->beta +
            ((float)(sums[i - first] / (double)a->rows) + SQUARE_EPSILON) * a->rest;
}

/* Elements i .. i + count of the update of a row, before it is clipped. */
CPU_INLINE vec update_at(const struct adafactor *a, float row_factor, size_t row,
                         size_t i, size_t count)
{
    vec g = gradient_at(a, row * a->cols + i, count);

    if (a->v)
        return g / vec_sqrt(vec_load(a->v, FORMAT_FP32, i, count));
    return g * row_factor / vec_sqrt(vec_load(a->col, FORMAT_FP32, i, count));
}

static float row_factor(const struct adafactor *a, size_t row)
{
    return a->v ? 1 : 1 / sqrtf(a->row[row] / a->mean);
}

static void sizes_task(void *context, size_t task, struct pool_worker *worker)
{
    struct adafactor *a = context;
    size_t end = share_of(a->rows, task + 1, a->tasks);
    double sum = 0;

    (void)worker;
    for (size_t row = share_of(a->rows, task, a->tasks); row < end; row++) {
        float factor = row_factor(a, row);

        for (size_t i = 0; i < a->cols; i += LANES) {
            size_t count = vec_count(i, a->cols);
            vec u = update_at(a, factor, row, i, count);
            float at[LANES];

            memcpy(at, &u, sizeof(at)); /* lanes after the end are not numbers */
            for (size_t k = 0; k < count; k++)
                sum += (double)at[k] * (double)at[k];
        }
    }
    a->sums[task] = sum;
}

CPU_INLINE void update_row(const struct adafactor *a, size_t row, size_t from, size_t to,
                           const uint32_t *draws)
{
    const struct tensor *target = &a->target.w;
    float factor = row_factor(a, row);

    for (size_t i = from; i < to; i += LANES) {
        size_t count = vec_count(i, to), at = row * a->cols + i;
        vec w = vec_load(target->data, target->format, at, count) * a->keep;

        w -= update_at(a, factor, row, i, count) * a->lr;
        target_store(&a->target, at, count, w, draws ? draws + (i - from) : NULL);
    }
}

/* Elements first .. last of the matrix. */
static void update_drawn(const void *context, size_t first, size_t last,
                         const uint32_t *draws)
{
    const struct adafactor *a = context;

    for (size_t at = first; at < last;) {
        size_t row = at / a->cols, end = size_min(last, (row + 1) * a->cols);

        update_row(a, row, at - row * a->cols, end - row * a->cols,
                   draws ? draws + (at - first) : NULL);
        at = end;
    }
}

static void update_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct adafactor *a = context;
    size_t first = task * CPU_TASK_ELEMENTS;

    (void)worker;
    if (a->target.stochastic)
        target_draw(&a->target, task, update_drawn, a);
    else
        update_drawn(a, first, size_min(first + CPU_TASK_ELEMENTS, a->target.w.cols),
                     NULL);
}

static void find_moments(struct backend *be, struct adafactor *a)
{
    double sum = 0;

    if (!a->v) {
        cpu_backend_run(be, a->tasks, rows_task, a);
        cpu_backend_run(be, size_divide_up(a->cols, TASK_COLUMNS), columns_task, a);
        for (size_t i = 0; i < a->rows; i++)
            sum += (double)a->row[i];
        a->mean = (float)(sum / (double)a->rows);
        return;
    }
    for (size_t i = 0; i < a->cols; i++) {
        float g = a->grad[i] * a->grad_scale;

        a->v[i] = a->v[i] * a->beta + (g * g + SQUARE_EPSILON) * a->rest;
    }
}

void CPU_OP(adafactor)(struct backend *be, const struct op_adafactor *op)
{
    const struct step_scalars *n = op->numbers;
    double lr = op->lr * (n ? n->learning_rate : 1), sum = 0, size;
    int64_t step = n ? n->step : op->step;
    double beta = 1 - pow((double)step, -0.8);
    struct adafactor a = {
        .target = target_of(op->w, op->copy),
        .grad = op->grad.data,
        .row = op->row.data,
        .col = op->col.data,
        .v = op->v.data,
        .rows = op->w.rows,
        .cols = op->w.cols,
        .tasks = size_min(op->w.rows, MOST_TASKS),
        .grad_scale = (float)(op->grad_scale * (n ? n->factor : 1)),
        .beta = (float)beta,
        .rest = (float)(1 - beta),
        .keep = (float)(1 - lr * op->decay),
    };

    if ((n && !n->finite) || a.target.w.cols == 0)
        return;
    find_moments(be, &a);
    cpu_backend_run(be, a.tasks, sizes_task, &a);
    for (size_t i = 0; i < a.tasks; i++)
        sum += a.sums[i];
    size = sqrt(sum / (double)(a.rows * a.cols));
    a.lr = (float)(lr / (size > 1 ? size : 1));
    if (op->stochastic)
        target_rounds(&a.target, op->seed, step, op->first);
    cpu_backend_run(be, size_divide_up(a.target.w.cols, CPU_TASK_ELEMENTS), update_task,
                    &a);
}
