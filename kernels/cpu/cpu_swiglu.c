/* kernels/cpu/cpu_swiglu.c - gated activations (SwiGLU, GeGLU), and their gradients. */
#include "config.h"

#include "kernels/cpu/cpu_activation.h"
#include "kernels/cpu/cpu_ops.h"

CPU_INLINE void swiglu_row(const struct op_swiglu *op, size_t row, enum activation kind,
                           enum format format)
{
    const void *gate = cpu_row(op->gate, row), *up = cpu_row(op->up, row);
    void *out = cpu_row(op->out, row);

    for (size_t i = 0; i < op->out.cols; i += LANES) {
        size_t count = vec_count(i, op->out.cols);
        vec value = activated_by(kind, vec_load(gate, format, i, count)).value;

        vec_store(out, format, i, count, value * vec_load(up, format, i, count));
    }
}

static void swiglu_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_swiglu *op = context;
    size_t rows = cpu_task_rows(op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows); row++)
        ACTIVATION_BY_KIND(op->kind, op->out.format, swiglu_row, op, row);
}

void CPU_OP(swiglu)(struct backend *be, const struct op_swiglu *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    swiglu_task, (void *)op);
}

CPU_INLINE void swiglu_row_backward(const struct op_swiglu_backward *op, size_t row,
                                    enum activation kind, enum format format)
{
    const void *gate = cpu_row(op->gate, row), *up = cpu_row(op->up, row);
    const void *dout = cpu_row(op->dout, row);
    void *dgate = cpu_row(op->dgate, row), *dup = cpu_row(op->dup, row);
    void *out = op->out.data ? cpu_row(op->out, row) : NULL;

    for (size_t i = 0; i < op->dout.cols; i += LANES) {
        size_t count = vec_count(i, op->dout.cols);
        vec x = vec_load(gate, format, i, count);
        vec y = vec_load(up, format, i, count);
        vec g = vec_load(dout, format, i, count);
        struct activated to = activated_by(kind, x);

        vec_store(dgate, format, i, count, g * y * to.slope * to.bend);
        vec_store(dup, format, i, count,
                  kind == ACTIVATION_SIGMOID ? g * to.value : g * x * to.share);
        if (out)
            vec_store(out, format, i, count, to.value * y);
    }
}

static void swiglu_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_swiglu_backward *op = context;
    size_t rows = cpu_task_rows(op->dout.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dout.rows);
         row++)
        ACTIVATION_BY_KIND(op->kind, op->dout.format, swiglu_row_backward, op, row);
}

void CPU_OP(swiglu_backward)(struct backend *be, const struct op_swiglu_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dout.rows, cpu_task_rows(op->dout.cols)),
                    swiglu_backward_task, (void *)op);
}
