/* kernels/cpu/cpu_grouped_matmul.c - op_grouped_matmul: checks the operands; the tiles of
 * all groups are tasks of one loop. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/cpu_matmul.h"

#include <assert.h>

static bool operands_are_valid(const struct op_grouped_matmul *op)
{
    size_t depth = op->trans_b ? op->b.cols : op->b.rows / op->groups;

    if (op->trans_a)
        return !op->trans_b && op->out.rows == op->groups * op->a.cols &&
               op->out.cols == op->b.cols && op->a.rows == op->b.rows;
    return op->out.rows == op->a.rows && op->a.cols == depth &&
           op->out.cols == (op->trans_b ? op->b.rows / op->groups : op->b.cols);
}

struct op_matmul matmul_of_group(const struct op_grouped_matmul *op, size_t group)
{
    size_t first = (size_t)op->starts[group];
    size_t rows = (size_t)op->starts[group + 1] - first;
    size_t step = (op->trans_a ? op->out.rows : op->b.rows) / op->groups;
    struct op_matmul matmul = { .out = op->out,
                                .a = tensor_rows(op->a, first, rows),
                                .b = op->b,
                                .trans_a = op->trans_a,
                                .trans_b = op->trans_b,
                                .alpha = op->alpha,
                                .beta = op->beta };
    struct tensor *of_rows = op->trans_a ? &matmul.b : &matmul.out;
    struct tensor *of_stack = op->trans_a ? &matmul.out : &matmul.b;

    *of_rows = tensor_rows(*of_rows, first, rows);
    *of_stack = tensor_rows(*of_stack, group * step, step);
    return matmul;
}

void cpu_grouped_matmul(struct backend *be, const struct op_grouped_matmul *op)
{
    struct cpu_backend *cpu = cpu_backend_of(be);

    assert(operands_are_valid(op));
    if (cpu->failed.code != ERROR_NONE)
        return;
    for (size_t g = 0; op->trans_a && op->beta == 0 && g < op->groups; g++)
        if (op->starts[g] == op->starts[g + 1])
            cpu_zero(be, &(struct op_zero) {
                             tensor_rows(op->out, g * op->a.cols, op->a.cols) });
    matmul_grouped(cpu->matmul, cpu->pool, op);
}
