/* kernels/cpu/cpu_grouped_matmul.c - a matmul for each group of rows. */
#include "config.h"

#include "kernels/cpu/cpu_backend.h"

/* The operands of a group. */
static struct op_matmul matmul_of(const struct op_grouped_matmul *op, size_t group)
{
    size_t first = (size_t)op->starts[group];
    size_t rows = (size_t)op->starts[group + 1] - first;
    size_t step = (op->trans_a ? op->out.rows : op->b.rows) / op->groups;
    struct tensor of_rows = tensor_rows(op->a, first, rows);

    if (op->trans_a)
        return (struct op_matmul) { .out = tensor_rows(op->out, group * step, step),
                                    .a = of_rows,
                                    .b = tensor_rows(op->b, first, rows),
                                    .trans_a = true,
                                    .alpha = op->alpha,
                                    .beta = op->beta };
    return (struct op_matmul) { .out = tensor_rows(op->out, first, rows),
                                .a = of_rows,
                                .b = tensor_rows(op->b, group * step, step),
                                .trans_b = op->trans_b,
                                .alpha = op->alpha,
                                .beta = op->beta };
}

void cpu_grouped_matmul(struct backend *be, const struct op_grouped_matmul *op)
{
    for (size_t g = 0; g < op->groups; g++) {
        struct op_matmul matmul = matmul_of(op, g);

        if (matmul.a.rows > 0)
            cpu_matmul(be, &matmul);
        else if (op->trans_a && op->beta == 0)
            cpu_zero(be, &(struct op_zero) { matmul.out });
    }
}
