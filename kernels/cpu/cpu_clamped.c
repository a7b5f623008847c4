/* kernels/cpu/cpu_clamped.c - the clamped activation of experts, their biases, and the
 * gradients of both. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* ---- The activation ---- */

struct clamped {
    vec gate, up, share; /* share: the sigmoid */
    ivec gate_passes, up_passes;
};

CPU_INLINE struct clamped clamped_of(vec gate, vec up, float alpha, float limit)
{
    struct clamped c = { .gate_passes = ~(gate > limit),
                         .up_passes = ~(up > limit) & ~(up < -limit) };

    c.gate = vec_select(c.gate_passes, gate, vec_all(limit));
    c.up = vec_select(up > limit, vec_all(limit),
                      vec_select(up < -limit, vec_all(-limit), up));
    c.share = 1.0f / (1.0f + vec_exp(-alpha * c.gate));
    return c;
}

static void clamped_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_clamped *op = context;
    const enum format format = op->out.format;
    size_t rows = cpu_task_rows(op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows); row++)
        for (size_t i = 0; i < op->out.cols; i += LANES) {
            size_t count = vec_count(i, op->out.cols);
            struct clamped c = clamped_of(
                vec_load(cpu_row(op->gate, row), format, i, count),
                vec_load(cpu_row(op->up, row), format, i, count), op->alpha, op->limit);

            vec_store(cpu_row(op->out, row), format, i, count,
                      (c.up + 1.0f) * (c.gate * c.share));
        }
}

void CPU_OP(clamped)(struct backend *be, const struct op_clamped *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    clamped_task, (void *)op);
}

static void clamped_row_backward(const struct op_clamped_backward *op, size_t row)
{
    const enum format format = op->dout.format;

    for (size_t i = 0; i < op->dout.cols; i += LANES) {
        size_t count = vec_count(i, op->dout.cols);
        vec g = vec_load(cpu_row(op->dout, row), format, i, count);
        struct clamped c = clamped_of(vec_load(cpu_row(op->gate, row), format, i, count),
                                      vec_load(cpu_row(op->up, row), format, i, count),
                                      op->alpha, op->limit);
        vec slope = c.share * (1.0f + op->alpha * c.gate * (1.0f - c.share));
        vec by_gate = g * (c.up + 1.0f) * slope, by_up = g * (c.gate * c.share);

        vec_store(cpu_row(op->dgate, row), format, i, count,
                  vec_select(c.gate_passes, by_gate, (vec) {}));
        vec_store(cpu_row(op->dup, row), format, i, count,
                  vec_select(c.up_passes, by_up, (vec) {}));
        if (op->out.data)
            vec_store(cpu_row(op->out, row), format, i, count,
                      (c.up + 1.0f) * (c.gate * c.share));
    }
}

static void clamped_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_clamped_backward *op = context;
    size_t rows = cpu_task_rows(op->dout.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->dout.rows);
         row++)
        clamped_row_backward(op, row);
}

void CPU_OP(clamped_backward)(struct backend *be, const struct op_clamped_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dout.rows, cpu_task_rows(op->dout.cols)),
                    clamped_backward_task, (void *)op);
}

/* ---- Biases ---- */

/* Return the group of a row: the last that starts at or before it. */
static size_t group_of(const int32_t *starts, size_t groups, size_t row)
{
    size_t low = 0, high = groups;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if ((size_t)starts[middle] <= row)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void group_bias_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_group_bias *op = context;
    size_t rows = cpu_task_rows(op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows);
         row++) {
        const void *bias = cpu_row(op->bias, group_of(op->starts, op->groups, row));
        void *out = cpu_row(op->out, row);

        for (size_t i = 0; i < op->out.cols; i += LANES) {
            size_t count = vec_count(i, op->out.cols);

            vec_store(out, op->out.format, i, count,
                      vec_load(out, op->out.format, i, count) +
                          vec_load(bias, FORMAT_FP32, i, count));
        }
    }
}

void CPU_OP(group_bias)(struct backend *be, const struct op_group_bias *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    group_bias_task, (void *)op);
}

/* A task is a group, so that each sum has one order. */
static void group_bias_backward_task(void *context, size_t group,
                                     struct pool_worker *worker)
{
    const struct op_group_bias_backward *op = context;
    size_t first = (size_t)op->starts[group], end = (size_t)op->starts[group + 1];
    float *sums = cpu_row(op->dbias, group);

    (void)worker;
    for (size_t i = 0; i < op->dbias.cols; i += LANES) {
        size_t count = vec_count(i, op->dbias.cols);
        vec sum = {};

        for (size_t row = first; row < end; row++)
            sum += vec_load(cpu_row(op->dout, row), op->dout.format, i, count);
        vec_store(sums, FORMAT_FP32, i, count,
                  vec_load(sums, FORMAT_FP32, i, count) + sum);
    }
}

void CPU_OP(group_bias_backward)(struct backend *be,
                                 const struct op_group_bias_backward *op)
{
    cpu_backend_run(be, op->groups, group_bias_backward_task, (void *)op);
}
