/* kernels/cpu/cpu_gate.c - a learned gate of the output of a layer. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

#include <math.h>

/* The gradient of the gate: rows are divided into slices by shape alone; the sums of the
 * slices are added in order. */
enum { GATE_SLICES = 64 };

static double gate_value(struct tensor gate)
{
    return tanh((double)vec_load(gate.data, gate.format, 0, 1)[0]);
}

static bool gate_sees(const int32_t *seen, size_t row)
{
    return !seen || seen[row] != 0;
}

struct gate_job {
    const struct op_gate *op;
    float factor;
};

static void gate_row(const struct gate_job *job, size_t row)
{
    const struct op_gate *op = job->op;
    bool seen = gate_sees(op->seen, row);
    size_t cols = op->out.cols;

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec x = seen ? vec_load(cpu_row(op->x, row), op->x.format, i, count) : (vec) {};

        vec_store(cpu_row(op->out, row), op->out.format, i, count, x * job->factor);
    }
}

static void gate_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct gate_job *job = context;
    size_t rows = cpu_task_rows(job->op->out.cols);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, job->op->out.rows);
         row++)
        gate_row(job, row);
}

void CPU_OP(gate)(struct backend *be, const struct op_gate *op)
{
    struct gate_job job = { op, (float)gate_value(op->gate) };

    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    gate_task, &job);
}

struct gate_back {
    const struct op_gate_backward *op;
    float factor;
    size_t rows; /* of a slice */
    double sums[GATE_SLICES];
};

/* Return the sum of dout * x of the row. */
static double gate_row_backward(const struct gate_back *back, size_t row)
{
    const struct op_gate_backward *op = back->op;
    bool seen = gate_sees(op->seen, row), learns = seen && op->dgate.data;
    size_t cols = op->dout.cols;
    vec sum = {};

    for (size_t i = 0; i < cols; i += LANES) {
        size_t count = vec_count(i, cols);
        vec g = {};

        if (seen) /* lanes past the row are 0 */
            g = vec_load(cpu_row(op->dout, row), op->dout.format, i, count);
        if (learns)
            sum += g * vec_load(cpu_row(op->x, row), op->x.format, i, count);
        vec_store(cpu_row(op->dx, row), op->dx.format, i, count, g * back->factor);
    }
    return (double)vec_sum(sum);
}

static void gate_backward_task(void *context, size_t task, struct pool_worker *worker)
{
    struct gate_back *back = context;
    size_t first = task * back->rows;
    size_t last = size_min(first + back->rows, back->op->dout.rows);

    (void)worker;
    back->sums[task] = 0;
    for (size_t row = first; row < last; row++)
        back->sums[task] += gate_row_backward(back, row);
}

void CPU_OP(gate_backward)(struct backend *be, const struct op_gate_backward *op)
{
    double value = gate_value(op->gate), sum = 0;
    struct gate_back back = { .op = op, .factor = (float)value };
    size_t slices;

    if (op->dout.rows == 0)
        return;
    back.rows = size_divide_up(op->dout.rows, GATE_SLICES);
    slices = size_divide_up(op->dout.rows, back.rows);
    cpu_backend_run(be, slices, gate_backward_task, &back);
    for (size_t i = 0; i < slices; i++)
        sum += back.sums[i];
    if (op->dgate.data)
        *(float *)op->dgate.data += (float)((1 - value * value) * sum);
}
