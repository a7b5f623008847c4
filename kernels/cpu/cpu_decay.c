/* kernels/cpu/cpu_decay.c - the decay and beta of each head of op_delta, and their
 * gradients.  There are few heads, so a value at a time is fast enough. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

static float decay_sigmoid(float x)
{
    float t = expf(-fabsf(x));

    return x < 0 ? t / (1 + t) : 1 / (1 + t);
}

static float decay_softplus(float x)
{
    return x > 20 ? x : (x > 0 ? x : 0) + log1pf(expf(-fabsf(x)));
}

CPU_INLINE float decay_get(struct tensor x, size_t row, size_t col)
{
    return vec_load(cpu_row(x, row), x.format, col, 1)[0];
}

static void decay_set(struct tensor x, size_t row, size_t col, float value)
{
    vec_store(cpu_row(x, row), x.format, col, 1, vec_all(value));
}

static void decay_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_decay *op = context;
    size_t rows = cpu_task_rows(op->a.cols * 16);

    (void)worker;
    for (size_t n = task * rows; n < size_min((task + 1) * rows, op->a.rows); n++)
        for (size_t h = 0; h < op->a.cols; h++) {
            float plus =
                decay_softplus(decay_get(op->a, n, h) + decay_get(op->bias, 0, h));

            decay_set(op->decay, n, h, -expf(decay_get(op->a_log, 0, h)) * plus);
            decay_set(op->beta, n, h, decay_sigmoid(decay_get(op->b, n, h)));
        }
}

void CPU_OP(decay)(struct backend *be, const struct op_decay *op)
{
    cpu_backend_run(be, size_divide_up(op->a.rows, cpu_task_rows(op->a.cols * 16)),
                    decay_task, (void *)op);
}

/* A task is a head: it adds up its rows in order. */
static void decay_backward_task(void *context, size_t h, struct pool_worker *worker)
{
    const struct op_decay_backward *op = context;
    float rate = -expf(decay_get(op->a_log, 0, h)), bias = decay_get(op->bias, 0, h);
    double da_log = 0, dbias = 0;

    (void)worker;
    for (size_t n = 0; n < op->a.rows; n++) {
        float x = decay_get(op->a, n, h) + bias, slope = decay_get(op->ddecay, n, h);
        float beta = decay_sigmoid(decay_get(op->b, n, h));
        float da = slope * rate * (x > 20 ? 1 : decay_sigmoid(x));

        da_log += (double)(slope * rate * decay_softplus(x));
        dbias += (double)da;
        decay_set(op->da, n, h, da);
        decay_set(op->db, n, h,
                  decay_get(op->dbeta, n, h) * beta *
                      decay_sigmoid(-decay_get(op->b, n, h)));
    }
    if (op->da_log.data)
        ((float *)op->da_log.data)[h] += (float)da_log;
    if (op->dbias.data)
        ((float *)op->dbias.data)[h] += (float)dbias;
}

void CPU_OP(decay_backward)(struct backend *be, const struct op_decay_backward *op)
{
    cpu_backend_run(be, op->a.cols, decay_backward_task, (void *)op);
}
