/* kernels/cpu/cpu_pair_scale.c - learned factors of the weights of experts. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

static void scale_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_pair_scale *op = context;
    const float *scales = op->scales.data;
    size_t chosen = op->out.cols, rows = cpu_task_rows(chosen);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows);
         row++) {
        const float *weights = cpu_row(op->weights, row);
        const int32_t *experts = op->experts + row * chosen;
        float *out = cpu_row(op->out, row);

        for (size_t j = 0; j < chosen; j++)
            out[j] = weights[j] * scales[experts[j]];
    }
}

void CPU_OP(pair_scale)(struct backend *be, const struct op_pair_scale *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    scale_task, (void *)op);
}

/* A task is an expert, so that its sum has one order. */
static void scale_backward_task(void *context, size_t expert, struct pool_worker *worker)
{
    const struct op_pair_scale_backward *op = context;
    const float scale = ((const float *)op->scales.data)[expert];
    size_t chosen = op->dweights.cols;
    double sum = 0;

    (void)worker;
    for (int32_t slot = op->starts[expert]; slot < op->starts[expert + 1]; slot++) {
        size_t row = (size_t)op->order[slot] / chosen;
        size_t choice = (size_t)op->order[slot] % chosen;
        const float *weights = cpu_row(op->weights, row);
        float *dweights = cpu_row(op->dweights, row);

        sum += (double)dweights[choice] * (double)weights[choice];
        dweights[choice] *= scale;
    }
    if (op->dscales.data)
        ((float *)op->dscales.data)[expert] += (float)sum;
}

void CPU_OP(pair_scale_backward)(struct backend *be,
                                 const struct op_pair_scale_backward *op)
{
    cpu_backend_run(be, op->scales.cols, scale_backward_task, (void *)op);
}
