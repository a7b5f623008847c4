/* kernels/cpu/cpu_media.c - rows of sounds and images: set into the embeddings, averaged,
 * filtered, and unfolded for convolutions. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <assert.h>

/* Call `function` for each row of a task, with the format of the operand that has one row
 * for each; it is a constant there. */
#define FOR_TASK_ROWS(each, task, rows, format, function, op)                         \
    for (size_t row = (task) * (each); row < size_min(((task) + 1) * (each), (rows)); \
         row++)                                                                       \
    VEC_BY_FORMAT(format, function, op, row)

CPU_INLINE void place_row(const struct op_place_rows *op, size_t i, enum format format)
{
    const void *from = cpu_row(op->rows, i);
    size_t cols = op->rows.cols;
    float *x;

    if (op->at[i] < 0)
        return;
    x = cpu_row(op->x, (size_t)op->at[i]);
    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);
        vec value = vec_load(from, format, c, count);

        if (op->add)
            value = vec_load(x, FORMAT_FP32, c, count) + value;
        vec_store(x, FORMAT_FP32, c, count, value);
    }
}

static void place_rows_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_place_rows *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->rows.cols), task, op->rows.rows, op->rows.format,
                  place_row, op);
}

void CPU_OP(place_rows)(struct backend *be, const struct op_place_rows *op)
{
    cpu_backend_run(be, size_divide_up(op->rows.rows, cpu_task_rows(op->rows.cols)),
                    place_rows_task, (void *)op);
}

CPU_INLINE void place_row_backward(const struct op_place_rows_backward *op, size_t i,
                                   enum format format)
{
    float *dx = op->at[i] < 0 ? NULL : cpu_row(op->dx, (size_t)op->at[i]);
    void *drows = cpu_row(op->drows, i);
    size_t cols = op->dx.cols;

    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);
        vec value = dx ? vec_load(dx, FORMAT_FP32, c, count) : (vec) {};

        if (drows)
            vec_store(drows, format, c, count, value);
        if (dx && !op->add)
            vec_store(dx, FORMAT_FP32, c, count, (vec) {});
    }
}

static void place_rows_backward_task(void *context, size_t task,
                                     struct pool_worker *worker)
{
    const struct op_place_rows_backward *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->dx.cols), task, op->count, op->drows.format,
                  place_row_backward, op);
}

void CPU_OP(place_rows_backward)(struct backend *be,
                                 const struct op_place_rows_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->count, cpu_task_rows(op->dx.cols)),
                    place_rows_backward_task, (void *)op);
}

CPU_INLINE void pool_row(const struct op_pool_rows *op, size_t row, enum format format)
{
    void *out = cpu_row(op->out, row);
    size_t cols = op->out.cols;

    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);
        vec sum = {};

        for (size_t i = 0; i < op->group; i++)
            sum += vec_load(cpu_row(op->x, row * op->group + i), format, c, count);
        vec_store(out, op->out.format, c, count, sum / (float)op->group);
    }
}

static void pool_rows_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_pool_rows *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->out.cols * op->group), task, op->out.rows,
                  op->x.format, pool_row, op);
}

void CPU_OP(pool_rows)(struct backend *be, const struct op_pool_rows *op)
{
    size_t each = cpu_task_rows(op->out.cols * op->group);

    cpu_backend_run(be, size_divide_up(op->out.rows, each), pool_rows_task, (void *)op);
}

CPU_INLINE void pool_row_backward(const struct op_pool_rows_backward *op, size_t row,
                                  enum format format)
{
    void *dx = cpu_row(op->dx, row);
    size_t cols = op->dx.cols, from = row / op->group;

    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);
        vec value = {};

        if (from < op->dout.rows)
            value = vec_load(cpu_row(op->dout, from), format, c, count);
        vec_store(dx, op->dx.format, c, count, value / (float)op->group);
    }
}

static void pool_rows_backward_task(void *context, size_t task,
                                    struct pool_worker *worker)
{
    const struct op_pool_rows_backward *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->dx.cols), task, op->dx.rows, op->dout.format,
                  pool_row_backward, op);
}

void CPU_OP(pool_rows_backward)(struct backend *be,
                                const struct op_pool_rows_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dx.rows, cpu_task_rows(op->dx.cols)),
                    pool_rows_backward_task, (void *)op);
}

/* The columns of one vector of x in a row of op_unfold's output, in fp32. */
struct unfold_block {
    float at[LANES * UNFOLD_SIZE_MAX];
};

CPU_INLINE void unfold_row(const struct op_unfold *op, size_t row, enum format format)
{
    const int32_t *taps = op->taps + row * op->size;
    size_t cols = op->x.cols, size = op->size;
    void *out = cpu_row(op->out, row);
    struct unfold_block block;

    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);

        for (size_t k = 0; k < size; k++) {
            vec value = {};

            if (taps[k] >= 0)
                value = vec_load(cpu_row(op->x, (size_t)taps[k]), format, c, count);
            for (size_t i = 0; i < LANES; i++)
                block.at[i * size + k] = value[i];
        }
        for (size_t i = 0; i < count * size; i += LANES)
            vec_store(out, op->out.format, c * size + i, vec_count(i, count * size),
                      vec_get(block.at + i));
    }
}

static void unfold_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_unfold *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->out.cols), task, op->out.rows, op->x.format,
                  unfold_row, op);
}

void CPU_OP(unfold)(struct backend *be, const struct op_unfold *op)
{
    assert(op->size > 0 && op->size <= UNFOLD_SIZE_MAX);
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    unfold_task, (void *)op);
}

/* Return column c .. c + count of dx for one use. */
CPU_INLINE vec unfold_used(const struct op_unfold_backward *op, size_t use, size_t c,
                           size_t count, enum format format)
{
    const void *dout = cpu_row(op->dout, use / op->size);
    size_t size = op->size, k = use % size;
    struct unfold_block block;
    vec value = {};

    for (size_t i = 0; i < count * size; i += LANES)
        vec_put(block.at + i,
                vec_load(dout, format, c * size + i, vec_count(i, count * size)));
    for (size_t i = 0; i < count; i++)
        value[i] = block.at[i * size + k];
    return value;
}

CPU_INLINE void unfold_row_backward(const struct op_unfold_backward *op, size_t row,
                                    enum format format)
{
    const int32_t *uses = op->uses + row * op->most;
    void *dx = cpu_row(op->dx, row);
    size_t cols = op->dx.cols;

    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);
        vec sum = {};

        for (size_t u = 0; u < op->most; u++)
            if (uses[u] >= 0)
                sum += unfold_used(op, (size_t)uses[u], c, count, format);
        vec_store(dx, op->dx.format, c, count, sum);
    }
}

static void unfold_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_unfold_backward *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->dx.cols * op->most), task, op->dx.rows,
                  op->dout.format, unfold_row_backward, op);
}

void CPU_OP(unfold_backward)(struct backend *be, const struct op_unfold_backward *op)
{
    size_t each = cpu_task_rows(op->dx.cols * op->most);

    assert(op->size > 0 && op->size <= UNFOLD_SIZE_MAX);
    cpu_backend_run(be, size_divide_up(op->dx.rows, each), unfold_backward_task,
                    (void *)op);
}

CPU_INLINE void filter_row(const struct op_filter_rows *op, size_t row,
                           enum format format)
{
    const int32_t *taps = op->taps + row * op->size;
    void *out = cpu_row(op->out, row);
    size_t cols = op->x.cols;

    for (size_t c = 0; c < cols; c += LANES) {
        size_t count = vec_count(c, cols);
        vec sum = {};

        if (op->bias.data)
            sum = vec_load(op->bias.data, FORMAT_FP32, c, count);
        for (size_t k = 0; k < op->size; k++)
            if (taps[k] >= 0)
                sum += vec_load(cpu_row(op->weight, k), FORMAT_FP32, c, count) *
                       vec_load(cpu_row(op->x, (size_t)taps[k]), format, c, count);
        vec_store(out, op->out.format, c, count, sum);
    }
}

static void filter_rows_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_filter_rows *op = context;

    (void)worker;
    FOR_TASK_ROWS(cpu_task_rows(op->out.cols * op->size), task, op->out.rows,
                  op->x.format, filter_row, op);
}

void CPU_OP(filter_rows)(struct backend *be, const struct op_filter_rows *op)
{
    size_t each = cpu_task_rows(op->out.cols * op->size);

    cpu_backend_run(be, size_divide_up(op->out.rows, each), filter_rows_task, (void *)op);
}
