/* kernels/cpu/cpu_embedding.c - looks up rows of a table by token, and adds gradients
 * back to it. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_vector.h"

/* Columns of one task of the backward pass. */
enum { EMBEDDING_COLUMNS = 64 };

static float embedding_scale(float scale)
{
    return scale != 0 ? scale : 1;
}

static void embedding_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_embedding *op = context;
    size_t rows = cpu_task_rows(op->out.cols), cols = op->out.cols;
    float scale = embedding_scale(op->scale);

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->out.rows);
         row++) {
        const void *from = cpu_row(op->table, (size_t)op->tokens[row]);
        void *out = cpu_row(op->out, row);

        for (size_t i = 0; i < cols; i += LANES) {
            size_t count = vec_count(i, cols);

            vec_store(out, op->out.format, i, count,
                      scale * vec_load(from, op->table.format, i, count));
        }
    }
}

void CPU_OP(embedding)(struct backend *be, const struct op_embedding *op)
{
    cpu_backend_run(be, size_divide_up(op->out.rows, cpu_task_rows(op->out.cols)),
                    embedding_task, (void *)op);
}

/* A task processes some columns of all rows, so one task adds to each element, in order
 * of n. */
static void embedding_backward_task(void *context, size_t task,
                                    struct pool_worker *worker)
{
    const struct op_embedding_backward *op = context;
    size_t first = task * EMBEDDING_COLUMNS;
    float scale = embedding_scale(op->scale);
    size_t cols = size_min(first + EMBEDDING_COLUMNS, op->dout.cols);

    (void)worker;
    for (size_t row = 0; row < op->dout.rows; row++) {
        const void *dout = cpu_row(op->dout, row);
        float *to = cpu_row(op->dtable, (size_t)op->tokens[row]);

        if (op->padded && op->tokens[row] == op->padding)
            continue;
        for (size_t i = first; i < cols; i += LANES) {
            size_t count = vec_count(i, cols);

            vec_store(to, FORMAT_FP32, i, count,
                      vec_load(to, FORMAT_FP32, i, count) +
                          scale * vec_load(dout, op->dout.format, i, count));
        }
    }
}

void CPU_OP(embedding_backward)(struct backend *be,
                                const struct op_embedding_backward *op)
{
    cpu_backend_run(be, size_divide_up(op->dout.cols, EMBEDDING_COLUMNS),
                    embedding_backward_task, (void *)op);
}
