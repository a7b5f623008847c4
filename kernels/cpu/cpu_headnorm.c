/* kernels/cpu/cpu_headnorm.c - RMSNorm of each head separately, and its gradients. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_row_norm.h"

#include <assert.h>

/*
 * The gradient of the weights: rows are divided into at most HEADNORM_SLICES slices, by
 * shape alone. Each slice sums HEADNORM_ROWS rows before it adds them to its total, and
 * the totals are added in order. HEADNORM_ROOM elements of scratch hold all of it.
 */
enum { HEADNORM_SLICES = 64, HEADNORM_ROWS = 16, HEADNORM_ROOM = 1 << 14 };

/* 1 / rms of `size` elements from position `first` on. */
CPU_INLINE float headnorm_rstd(const void *x, enum format format, size_t first,
                               size_t size, float eps)
{
    vec even = {}, odd = {}, value;

    for (size_t i = 0; i < size; i += ROWS_STEP) {
        value = vec_load(x, format, first + i, vec_count(i, size));
        even += value * value;
        if (i + LANES >= size)
            break;
        value = vec_load(x, format, first + i + LANES, vec_count(i + LANES, size));
        odd += value * value;
    }
    return 1 / sqrtf(vec_sum(even + odd) / (float)size + eps);
}

/* The factors of a head: offset + weight. */
CPU_INLINE vec headnorm_factor(struct tensor weight, float offset, size_t at,
                               size_t count)
{
    return offset + vec_load(weight.data, weight.format, at, count);
}

CPU_INLINE void headnorm_row(const struct op_headnorm *op, size_t row, enum format format)
{
    const struct tensor weight = op->weight;
    const float offset = op->offset, eps = op->eps;
    const size_t heads = op->heads, size = weight.cols;
    const void *x = cpu_row(op->x, row);
    void *out = cpu_row(op->out, row);
    float *rstds = cpu_row(op->rstd, row);

    for (size_t head = 0; head < heads; head++) {
        size_t first = head * size;
        float rstd = headnorm_rstd(x, format, first, size, eps);

        rstds[head] = rstd;
        for (size_t i = 0; i < size; i += LANES) {
            size_t count = vec_count(i, size);

            vec_store(out, format, first + i, count,
                      vec_load(x, format, first + i, count) * rstd *
                          headnorm_factor(weight, offset, i, count));
        }
    }
}

static void headnorm_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_headnorm *op = context;
    size_t rows = cpu_task_rows(op->x.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++)
        VEC_BY_FORMAT(op->x.format, headnorm_row, op, row);
}

void CPU_OP(headnorm)(struct backend *be, const struct op_headnorm *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)),
                    headnorm_task, (void *)op);
}

/* One row of the backward pass. */
struct headnorm_back {
    const void *x, *dout;
    void *dx;
    struct tensor weight;
    float offset;
};

/* g * x of a head at a position, g = dout * factor */
CPU_INLINE vec headnorm_product(const struct headnorm_back *b, enum format format,
                                size_t first, size_t at)
{
    size_t count = vec_count(at, b->weight.cols);

    return vec_load(b->dout, format, first + at, count) *
           headnorm_factor(b->weight, b->offset, at, count) *
           vec_load(b->x, format, first + at, count);
}

/* With h = x * rstd: dx = rstd * (g - h * mean(g * h)). Adds dout * h to `sums` unless it
 * is NULL. dx may be dout. */
CPU_INLINE void headnorm_head(const struct headnorm_back *b, size_t first, float rstd,
                              float *sums, enum format format)
{
    const size_t size = b->weight.cols;
    vec even = {}, odd = {};
    float slope;

    for (size_t i = 0; i < size; i += ROWS_STEP) {
        even += headnorm_product(b, format, first, i);
        if (i + LANES < size)
            odd += headnorm_product(b, format, first, i + LANES);
    }
    slope = vec_sum(even + odd) * rstd * rstd / (float)size;
    for (size_t i = 0; i < size; i += LANES) {
        size_t count = vec_count(i, size);
        vec value = vec_load(b->x, format, first + i, count);
        vec by = vec_load(b->dout, format, first + i, count);
        vec g = by * headnorm_factor(b->weight, b->offset, i, count);

        if (sums)
            vec_store(sums, FORMAT_FP32, i, count,
                      vec_load(sums, FORMAT_FP32, i, count) + value * rstd * by);
        vec_store(b->dx, format, first + i, count, (g - value * slope) * rstd);
    }
}

CPU_INLINE void headnorm_row_backward(const struct op_headnorm_backward *op, size_t row,
                                      float *sums, enum format format)
{
    const struct headnorm_back b = { cpu_row(op->x, row), cpu_row(op->dout, row),
                                     cpu_row(op->dx, row), op->weight, op->offset };
    const float *rstds = cpu_row(op->rstd, row);

    for (size_t head = 0; head < op->heads; head++)
        headnorm_head(&b, head * b.weight.cols, rstds[head], sums, format);
}

/* For each slice a total and a partial sum, (slices, 2 D). */
struct headnorm_slices {
    const struct op_headnorm_backward *op;
    size_t count, rows;
    float sums[HEADNORM_ROOM];
};

static void headnorm_add(float *to, const float *from, size_t size)
{
    for (size_t i = 0; i < size; i += LANES) {
        size_t count = vec_count(i, size);

        vec_store(to, FORMAT_FP32, i, count,
                  vec_load(to, FORMAT_FP32, i, count) +
                      vec_load(from, FORMAT_FP32, i, count));
    }
}

static void headnorm_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    struct headnorm_slices *slices = context;
    const struct op_headnorm_backward *op = slices->op;
    size_t size = op->weight.cols, first = task * slices->rows;
    size_t last = size_min(first + slices->rows, op->x.rows);
    float *total = slices->sums + 2 * size * task;
    float *part = op->dweight.data ? total + size : NULL;

    (void)worker;
    if (part)
        memset(total, 0, size * sizeof(*total));
    for (size_t begin = first; begin < last; begin += HEADNORM_ROWS) {
        if (part)
            memset(part, 0, size * sizeof(*part));
        for (size_t row = begin; row < size_min(begin + HEADNORM_ROWS, last); row++)
            VEC_BY_FORMAT(op->x.format, headnorm_row_backward, op, row, part);
        if (part)
            headnorm_add(total, part, size);
    }
}

void CPU_OP(headnorm_backward)(struct backend *be, const struct op_headnorm_backward *op)
{
    struct headnorm_slices slices;
    size_t size = op->weight.cols;

    if (op->x.rows == 0 || size == 0)
        return;
    assert(2 * size <= HEADNORM_ROOM);
    slices.op = op;
    slices.count = size_min(HEADNORM_SLICES, HEADNORM_ROOM / (2 * size));
    slices.rows = size_divide_up(op->x.rows, slices.count);
    slices.count = size_divide_up(op->x.rows, slices.rows);
    cpu_backend_run(be, slices.count, headnorm_backward_task, &slices);
    for (size_t i = 0; op->dweight.data && i < slices.count; i++)
        headnorm_add(op->dweight.data, slices.sums + 2 * size * i, size);
}
