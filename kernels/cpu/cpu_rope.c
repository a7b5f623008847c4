/* kernels/cpu/cpu_rope.c - rotary position embeddings, in Hugging Face's two-halves
 * layout. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* One head: elements at .. at + 2 * half of a row. */
static void rope_head(void *row, enum format format, size_t at, size_t half,
                      const float *table, float sign)
{
    for (size_t i = 0; i < half; i += LANES) {
        size_t count = vec_count(i, half);
        vec cosine = vec_load(table, FORMAT_FP32, i, count);
        vec sine = vec_load(table, FORMAT_FP32, half + i, count) * sign;
        vec left = vec_load(row, format, at + i, count);
        vec right = vec_load(row, format, at + half + i, count);

        vec_store(row, format, at + i, count, left * cosine - right * sine);
        vec_store(row, format, at + half + i, count, right * cosine + left * sine);
    }
}

static void rope_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_rope *op = context;
    size_t rows = cpu_task_rows(op->x.cols), size = op->x.cols / op->heads;
    size_t rotary = op->rotary ? op->rotary : size;

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++) {
        const float *table = cpu_row(op->table, (size_t)op->positions[row]);

        for (size_t head = 0; head < op->heads; head++)
            rope_head(cpu_row(op->x, row), op->x.format, head * size, rotary / 2, table,
                      op->inverse ? -1 : 1);
    }
}

void CPU_OP(rope)(struct backend *be, const struct op_rope *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)), rope_task,
                    (void *)op);
}
