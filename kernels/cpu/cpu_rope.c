/* kernels/cpu/cpu_rope.c - rotary position embeddings: of two halves of a head, or of
 * adjacent elements. */
#include "config.h"

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_turn.h"

static void rope_task(void *context, size_t task, struct pool_worker *worker)
{
    const struct op_rope *op = context;
    size_t rows = cpu_task_rows(op->x.cols), size = op->x.cols / op->heads;
    struct turn turn = { .format = op->x.format,
                         .half = (op->rotary ? op->rotary : size) / 2,
                         .sign = op->inverse ? -1 : 1 };

    (void)worker;
    for (size_t row = task * rows; row < size_min((task + 1) * rows, op->x.rows); row++) {
        turn.row = cpu_row(op->x, row);
        turn.table = cpu_row(op->table, (size_t)op->positions[row]);
        for (size_t head = 0; head < op->heads; head++) {
            turn.at = head * size;
            turn_row(&turn, op->interleaved);
        }
    }
}

void CPU_OP(rope)(struct backend *be, const struct op_rope *op)
{
    cpu_backend_run(be, size_divide_up(op->x.rows, cpu_task_rows(op->x.cols)), rope_task,
                    (void *)op);
}
