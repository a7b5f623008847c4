/* kernels/cpu/cpu_dora.c - norms of adapted rows of weights, and the scaling of the columns
 * of outputs by magnitudes. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <assert.h>

/* Columns of one task, and rows summed before they are added to the total, in the gradient
 * of magnitudes. */
enum { DORA_COLUMNS = 64, DORA_ROWS = 64 };

/* `count` columns from `at` on of w + b a, in row `row`. */
CPU_INLINE vec dora_adapted(const struct op_dora_norm *op, size_t row, size_t at,
                            const float *b, size_t count)
{
    vec sum = vec_load(cpu_row(op->w, row), op->w.format, at, count);

    for (size_t k = 0; k < op->a.rows; k++)
        sum += b[k] * vec_load(cpu_row(op->a, k), op->a.format, at, count);
    return sum;
}

static void dora_norm_task(void *context, size_t row, struct pool_worker *worker)
{
    const struct op_dora_norm *op = context;
    float b[DORA_RANK_MAX];
    double sum = 0;

    (void)worker;
    format_convert(b, FORMAT_FP32, cpu_row(op->b, row), op->b.format, op->b.cols);
    for (size_t k = 0; k < op->b.cols; k++)
        b[k] *= op->scale;
    for (size_t i = 0; i < op->w.cols; i += LANES) {
        vec value = dora_adapted(op, row, i, b, vec_count(i, op->w.cols));

        sum += (double)vec_sum(value * value);
    }
    ((float *)op->norm.data)[row] = (float)sqrt(sum);
}

void CPU_OP(dora_norm)(struct backend *be, const struct op_dora_norm *op)
{
    assert(op->b.cols <= DORA_RANK_MAX);
    cpu_backend_run(be, op->w.rows, dora_norm_task, (void *)op);
}

/* The factors of columns `at` and those after it. */
CPU_INLINE vec dora_factor(struct tensor magnitude, struct tensor norm, float offset,
                           size_t at, size_t count)
{
    if (!magnitude.data)
        return vec_all(1 + offset);
    return vec_load(magnitude.data, magnitude.format, at, count) /
               vec_load(norm.data, FORMAT_FP32, at, count) +
           offset;
}

static void dora_scale_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_dora_scale *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++) {
        const void *x = cpu_row(op->x, row);
        void *out = cpu_row(op->out, row);

        for (size_t i = 0; i < op->x.cols; i += LANES) {
            size_t count = vec_count(i, op->x.cols);
            vec value = vec_load(x, op->x.format, i, count) *
                        dora_factor(op->magnitude, op->norm, op->offset, i, count);

            if (op->bias.data)
                value += vec_load(op->bias.data, FORMAT_FP32, i, count);
            if (op->beta != 0)
                value += vec_load(out, op->out.format, i, count);
            vec_store(out, op->out.format, i, count, value);
        }
    }
}

void CPU_OP(dora_scale)(struct backend *be, const struct op_dora_scale *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    dora_scale_task, (void *)op);
}

/* Columns first .. last of a row; adds dout * x to `sums` unless it is NULL. */
static void dora_row_backward(const struct op_dora_scale_backward *op, size_t row,
                              size_t first, size_t last, float *sums)
{
    const void *x = cpu_row(op->x, row), *dout = cpu_row(op->dout, row);
    void *dx = cpu_row(op->dx, row);

    for (size_t i = first; i < last; i += LANES) {
        size_t count = vec_count(i, last);
        vec by = vec_load(dout, op->dout.format, i, count);

        if (sums)
            vec_store(sums, FORMAT_FP32, i - first, count,
                      vec_load(sums, FORMAT_FP32, i - first, count) +
                          by * vec_load(x, op->x.format, i, count));
        vec_store(dx, op->dx.format, i, count,
                  by * dora_factor(op->magnitude, op->norm, op->offset, i, count));
    }
}

static void dora_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_dora_scale_backward *op = context;
    size_t first = task * DORA_COLUMNS;
    size_t last = size_min(first + DORA_COLUMNS, op->dout.cols);
    float total[DORA_COLUMNS] = { 0 };
    float *out = op->dmagnitude.data;
    const float *norm = op->norm.data;

    (void)worker;
    for (size_t begin = 0; begin < op->dout.rows; begin += DORA_ROWS) {
        float part[DORA_COLUMNS] = { 0 };

        for (size_t row = begin; row < size_min(begin + DORA_ROWS, op->dout.rows); row++)
            dora_row_backward(op, row, first, last, out ? part : NULL);
        for (size_t i = 0; i < last - first; i++)
            total[i] += part[i];
    }
    for (size_t i = first; out && i < last; i++)
        out[i] += total[i - first] / norm[i];
}

void CPU_OP(dora_scale_backward)(struct backend *be,
                                 const struct op_dora_scale_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dout.cols, DORA_COLUMNS), dora_backward_task,
                    (void *)op);
}
