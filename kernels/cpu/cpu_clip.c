/* kernels/cpu/cpu_clip.c - limits of values, and the gradient within them. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

static void clip_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_clip *op = context;
    const enum format format = op->out.format;
    const vec most = vec_all(op->limit), least = vec_all(-op->limit);
    size_t rows = cpu_task_rows(op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows); row++)
        for (size_t i = 0; i < op->out.cols; i += LANES) {
            size_t count = vec_count(i, op->out.cols);
            vec x = vec_load(cpu_row(op->x, row), format, i, count);

            x = vec_select(x > most, most, vec_select(x < least, least, x));
            vec_store(cpu_row(op->out, row), format, i, count, x);
        }
}

void CPU_OP(clip)(struct backend *be, const struct op_clip *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    clip_task, (void *)op);
}

static void clip_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_clip_backward *op = context;
    const enum format format = op->dx.format;
    const float limit = op->limit;
    size_t rows = cpu_task_rows(op->dx.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dx.rows); row++)
        for (size_t i = 0; i < op->dx.cols; i += LANES) {
            size_t count = vec_count(i, op->dx.cols);
            vec x = vec_load(cpu_row(op->x, row), format, i, count);
            vec g = vec_load(cpu_row(op->dout, row), format, i, count);

            g = vec_select((x <= limit) & (x >= -limit), g, (vec) {});
            vec_store(cpu_row(op->dx, row), format, i, count, g);
        }
}

void CPU_OP(clip_backward)(struct backend *be, const struct op_clip_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dx.rows, cpu_task_rows(op->dx.cols)),
                    clip_backward_task, (void *)op);
}
