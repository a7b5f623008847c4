/* kernels/cpu/cpu_pairs.c - rows to the experts that were chosen for them, and back. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

static void gather_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_gather_pairs *op = context;
    size_t rows = cpu_task_rows(op->out.cols), cols = op->out.cols;
    size_t chosen = op->out.rows / op->x.rows;

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows);
         row++) {
        const void *from = cpu_row(op->x, (size_t)op->order[row] / chosen);
        void *out = cpu_row(op->out, row);

        if (op->x.format == op->out.format) {
            memcpy(out, from, cols * format_info(op->x.format)->bytes);
            continue;
        }
        for (size_t i = 0; i < cols; i += LANES) {
            size_t count = vec_count(i, cols);

            vec_store(out, op->out.format, i, count,
                      vec_load(from, op->x.format, i, count));
        }
    }
}

void CPU_OP(gather_pairs)(struct backend *be, const struct op_gather_pairs *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    gather_task, (void *)op);
}

/* Return the rows of a task of op_combine. */
static size_t combine_rows(const struct op_combine *op)
{
    return op->out.rows ? cpu_task_rows(op->y.rows / op->out.rows * op->out.cols) : 1;
}

static void combine_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_combine *op = context;
    size_t rows = combine_rows(op);
    size_t cols = op->out.cols, chosen = op->y.rows / op->out.rows;

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows);
         row++) {
        const int32_t *slots = op->slots + row * chosen;
        const float *weights = cpu_row(op->weights, row);
        const void *base = cpu_row(op->base, row);

        for (size_t i = 0; i < cols; i += LANES) {
            size_t count = vec_count(i, cols);
            vec sum = {};

            if (base)
                sum = vec_load(base, op->base.format, i, count);
            for (size_t j = 0; j < chosen; j++) {
                vec y =
                    vec_load(cpu_row(op->y, (size_t)slots[j]), op->y.format, i, count);

                sum += (weights ? weights[j] : 1) * y;
            }
            vec_store(cpu_row(op->out, row), op->out.format, i, count, sum);
        }
    }
}

void CPU_OP(combine)(struct backend *be, const struct op_combine *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, combine_rows(op)), combine_task,
                    (void *)op);
}

/* op_combine with weights 1. */
void CPU_OP(sum_pairs)(struct backend *be, const struct op_sum_pairs *op)
{
    CPU_OP(combine)
    (be, &(struct op_combine) { .out = op->out,
                                .base = op->add ? op->out : (struct tensor) { 0 },
                                .y = op->y,
                                .slots = op->slots });
}

static void combine_backward_row(const struct op_combine_backward *op, size_t row,
                                 size_t choice, size_t slot)
{
    const void *dout = cpu_row(op->dout, row), *y = cpu_row(op->y, slot);
    float *dweights = cpu_row(op->dweights, row);
    float weight = ((const float *)cpu_row(op->weights, row))[choice];
    void *dy = cpu_row(op->dy, slot);
    vec sum = {};

    for (size_t i = 0; i < op->dout.cols; i += LANES) {
        size_t count = vec_count(i, op->dout.cols);
        vec g = vec_load(dout, op->dout.format, i, count);

        if (dweights)
            sum += g * vec_load(y, op->y.format, i, count);
        vec_store(dy, op->dy.format, i, count, weight * g);
    }
    if (dweights)
        dweights[choice] = vec_sum(sum);
}

static void combine_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_combine_backward *op = context;
    size_t chosen = op->weights.cols, rows = cpu_task_rows(chosen * op->dout.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dout.rows);
         row++)
        for (size_t j = 0; j < chosen; j++)
            combine_backward_row(op, row, j, (size_t)op->slots[row * chosen + j]);
}

void CPU_OP(combine_backward)(struct backend *be, const struct op_combine_backward *op)
{
    size_t rows = cpu_task_rows(op->weights.cols * op->dout.cols);

    cpu_backend_run(be, size_divide_up(op->dout.rows, rows), combine_backward_task,
                    (void *)op);
}
