/*
 * tests/unit/test_cpu_matmul_sums.c - a matmul of ones equals its depth exactly, so that a
 * part of the sum that is missing shows, whatever the tolerance.
 *
 * The depths are those of the backward matmuls of Llama 1B with folded LoRA adapters of
 * rank 16, whose last columns are the adapters', and of public reports about split sums.
 */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(matmul)

enum { LARGE = 20000 };
static const size_t depths[] = {
    1040, 2064, 2112, 3120, 8192, 8648, 11528, 16416, 57608,
};

/* A GPU's library has other tiles for more rows; loops are too slow for them. */
static const struct {
    size_t rows, cols;
} sizes[] = { { 4, 8 }, { 64, 256 }, { 256, 256 }, { 1024, 256 } };

static void check_sums(struct machines *machines, const struct op_matmul *op,
                       struct operand *out, size_t depth)
{
    struct operand sum = operand_filled(out->tensor.format, 1, 1, (double)depth);

    machines_try(machines, run_matmul, op, &(struct outcome) { .operand = out }, 1);
    for (size_t i = 0; i < out->numbers; i++)
        if (out->real[i] != sum.real[0])
            fail_msg("%zu x %zu, depth %zu, transposed %d %d: element %zu is %.9g",
                     out->tensor.rows, out->tensor.cols, depth, op->trans_a, op->trans_b,
                     i, out->real[i]);
    operand_clear(&sum);
}

struct formats {
    enum format in, out;
};

/* layout: 1: a is stored transposed, 2: b is */
static void try_sums(struct machines *machines, const struct formats *formats,
                     size_t size, size_t depth, int layout)
{
    size_t rows = sizes[size].rows, cols = sizes[size].cols;
    bool trans_a = layout & 1, trans_b = layout & 2;
    struct operand a = trans_a ? operand_filled(formats->in, depth, rows, 1)
                               : operand_filled(formats->in, rows, depth, 1);
    struct operand b = trans_b ? operand_filled(formats->in, cols, depth, 1)
                               : operand_filled(formats->in, depth, cols, 1);
    struct operand out = operand_filled(formats->out, rows, cols, 0);

    check_sums(machines,
               &(struct op_matmul) { .out = out.tensor,
                                     .a = a.tensor,
                                     .b = b.tensor,
                                     .trans_a = trans_a,
                                     .trans_b = trans_b,
                                     .alpha = 1 },
               &out, depth);
    operand_clear(&a);
    operand_clear(&b);
    operand_clear(&out);
}

static void test_matmul_sums_every_element(void **state)
{
    static const struct formats formats[] = {
        { FORMAT_BF16, FORMAT_BF16 },
        { FORMAT_BF16, FORMAT_FP32 },
        { FORMAT_FP16, FORMAT_FP32 },
        { FORMAT_FP32, FORMAT_FP32 },
    };
    struct machines *machines = *state;
    bool gpu = machines->backends[0]->ops->kind == DEVICE_CUDA && !machines->slow;

    for (size_t size = 0; size < (gpu ? TS_COUNT(sizes) : 1); size++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (size_t i = 0; i < TS_COUNT(depths); i++)
                for (int layout = 0; layout < 3; layout++)
                    if (size == 0 || depths[i] < LARGE)
                        try_sums(machines, &formats[f], size, depths[i], layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_sums_every_element),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
