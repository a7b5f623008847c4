/* kernels/cpu/cpu_activation.c - elementwise activation functions and their gradients. */
#include "config.h"

#include "kernels/cpu/cpu_activation.h"
#include "kernels/cpu/cpu_ops.h"

CPU_INLINE void activation_row(const struct op_activation *op, size_t row,
                               enum activation kind, enum format format)
{
    const void *x = cpu_row(op->x, row);
    void *out = cpu_row(op->out, row);
    size_t cols = op->out.cols;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);

        vec_store(out, format, i, count,
                  activated_by(kind, vec_load(x, format, i, count)).value);
    }
}

static void activation_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_activation *op = context;
    size_t rows = cpu_task_rows(op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows); row++)
        ACTIVATION_BY_KIND(op->kind, op->out.format, activation_row, op, row);
}

void CPU_OP(activation)(struct backend *be, const struct op_activation *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    activation_task, (void *)op);
}

CPU_INLINE void activation_row_backward(const struct op_activation_backward *op,
                                        size_t row, enum activation kind,
                                        enum format format)
{
    const void *x = cpu_row(op->x, row), *dout = cpu_row(op->dout, row);
    void *dx = cpu_row(op->dx, row);
    void *out = op->out.data ? cpu_row(op->out, row) : NULL;
    size_t cols = op->dout.cols;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        struct activated to = activated_by(kind, vec_load(x, format, i, count));
        vec g = vec_load(dout, format, i, count);

        vec_store(dx, format, i, count, g * to.slope * to.bend);
        if (out)
            vec_store(out, format, i, count, to.value);
    }
}

static void activation_backward_task(void *context, size_t task,
                                     struct pool_worker *worker)
{
    const struct op_activation_backward *op = context;
    size_t rows = cpu_task_rows(op->dout.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dout.rows);
         row++)
        ACTIVATION_BY_KIND(op->kind, op->dout.format, activation_row_backward, op, row);
}

void CPU_OP(activation_backward)(struct backend *be,
                                 const struct op_activation_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dout.rows, cpu_task_rows(op->dout.cols)),
                    activation_backward_task, (void *)op);
}
