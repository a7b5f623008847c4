/* kernels/cpu/cpu_sink.c - sinks of attention, and their gradients. */
#include "config.h"

#include <math.h>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* Return the share of the weights that the keys keep; *lse becomes that of both. */
static float sink_share(float *lse, float sink)
{
    float most = fmaxf(*lse, sink), key = expf(*lse - most), own = expf(sink - most);

    if (*lse != *lse) /* fmaxf drops NaN */
        return *lse;
    *lse = most + logf(key + own);
    return key / (key + own);
}

static void sink_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_sink *op = context;
    const float *sinks = op->sinks.data;
    size_t rows = cpu_task_rows(op->out.cols), size = op->out.cols / op->heads;

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows); row++)
        for (size_t h = 0; h < op->heads; h++) {
            void *out = cpu_row(op->out, row);
            float share = sink_share((float *)cpu_row(op->lse, h) + row, sinks[h]);

            for (size_t i = 0; i < size; i += LANES) {
                size_t count = vec_count(i, size), at = h * size + i;

                vec_store(out, op->out.format, at, count,
                          vec_load(out, op->out.format, at, count) * share);
            }
        }
}

void CPU_OP(sink)(struct backend *be, const struct op_sink *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    sink_task, (void *)op);
}

/* A task is a head, so that its sum has one order. */
static void sink_backward_task(void *context, size_t head, struct pool_worker *worker)
{
    const struct op_sink_backward *op = context;
    const float *lse = cpu_row(op->lse, head);
    const float sink = ((const float *)op->sinks.data)[head];
    float *dsink = (float *)op->dsinks.data + head;
    size_t size = op->out.cols / op->heads;
    double sum = 0;

    (void)worker;
    for (size_t row = 0; row < op->out.rows; row++) {
        const void *out = cpu_row(op->out, row), *dout = cpu_row(op->dout, row);
        vec products = {};

        for (size_t i = 0; i < size; i += LANES) {
            size_t count = vec_count(i, size), at = head * size + i;

            products += vec_load(out, op->out.format, at, count) *
                        vec_load(dout, op->dout.format, at, count);
        }
        sum += (double)(expf(sink - lse[row]) * vec_sum(products));
    }
    *dsink -= (float)sum;
}

void CPU_OP(sink_backward)(struct backend *be, const struct op_sink_backward *op)
{
    cpu_backend_run(be, op->heads, sink_backward_task, (void *)op);
}
