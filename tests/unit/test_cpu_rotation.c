/* tests/unit/test_cpu_rotation.c - stacks of skew-symmetric matrices, matmuls by block and
 * inverses follow their formulas. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(skew)
OPERATION(skew_backward)
OPERATION(block_matmul)
OPERATION(block_inverse)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };
/* blocks and their sizes */
static const size_t sizes[][2] = { { 1, 1 },  { 3, 2 },  { 5, 7 },
                                   { 4, 32 }, { 2, 70 }, { 1, 129 } };

/* Return the index in row `block` of the element of a pair j < k. */
static size_t packed(size_t block, size_t size, size_t j, size_t k)
{
    size_t before = 0;

    for (size_t i = 0; i < j; i++)
        before += size - 1 - i;
    return block * (size * (size - 1) / 2) + before + k - j - 1;
}

static void try_skew(struct machines *machines, enum format format, const size_t shape[2],
                     bool adds)
{
    const size_t blocks = shape[0], size = shape[1], pairs = size * (size - 1) / 2;
    struct operand x = operand_random(format, blocks, pairs, 1, 1);
    struct operand out = operand_filled(FORMAT_FP32, blocks * size, size, 7);
    struct operand dx = operand_random(FORMAT_FP32, blocks, pairs, 1, 2);
    struct operand dout = operand_random(FORMAT_FP32, blocks * size, size, 1, 3);
    double *wanted = calloc(out.numbers, sizeof(double));
    double *gradient = calloc(x.numbers + 1, sizeof(double));

    for (size_t i = 0; i < out.numbers; i++) {
        size_t block = i / (size * size), j = i / size % size, k = i % size;

        wanted[i] = 2;
        if (j < k) {
            size_t at = packed(block, size, j, k);

            wanted[i] = x.real[at];
            gradient[at] = (adds ? dx.real[at] : 0) + dout.real[i] -
                           dout.real[(block * size + k) * size + j];
        } else if (j > k) {
            wanted[i] = -x.real[packed(block, size, k, j)];
        }
    }
    machines_try(machines, run_skew, &(struct op_skew) { out.tensor, x.tensor, 2 },
                 (struct outcome[]) { { &out, wanted, 1, 0 } }, 1);
    machines_try(machines, run_skew_backward,
                 &(struct op_skew_backward) { dx.tensor, dout.tensor, adds },
                 (struct outcome[]) { { &dx, gradient, 4, 0 } }, 1);
    operand_clear(&x);
    operand_clear(&out);
    operand_clear(&dx);
    operand_clear(&dout);
    free(wanted);
    free(gradient);
}

static void test_skew_unpacks_triangles(void **state)
{
    for (size_t i = 1; i < TS_COUNT(sizes); i++)
        for (size_t mix = 0; mix < 3; mix++)
            try_skew(*state, formats[mix], sizes[i], mix > 0);
}

/* Return the index of an element of a block: of a stack, or of a matrix with columns of all
 * blocks. */
static size_t element(bool stacked, const size_t shape[2], size_t block, size_t row,
                      size_t col)
{
    const size_t blocks = shape[0], size = shape[1];

    return stacked ? (block * size + row) * size + col
                   : row * blocks * size + block * size + col;
}

struct matmul_case {
    bool out_stacked, a_stacked, b_stacked, trans_a, trans_b;
};

/* What orthogonal adapters use: rotations of inputs, their gradients, those of matrices, and
 * matmuls of stacks. */
static const struct matmul_case cases[] = {
    { false, false, true, false, false }, { false, false, true, false, true },
    { true, false, false, true, false },  { true, true, true, false, false },
    { true, true, true, true, false },    { true, true, true, false, true },
};

static void try_matmul(struct machines *machines, const struct matmul_case *c, size_t mix,
                       const size_t shape[2], size_t rows)
{
    const size_t blocks = shape[0], size = shape[1];
    const size_t height = c->out_stacked ? size : rows;
    const size_t depth = c->trans_a && !c->a_stacked ? rows : size;
    const enum format wide = formats[mix % 3];
    struct operand a = operand_random(c->a_stacked ? FORMAT_FP32 : wide,
                                      c->a_stacked ? blocks * size : rows,
                                      c->a_stacked ? size : blocks * size, 1, 1);
    struct operand b = operand_random(c->b_stacked ? FORMAT_FP32 : wide,
                                      c->b_stacked ? blocks * size : rows,
                                      c->b_stacked ? size : blocks * size, 1, 2);
    struct operand out = operand_random(c->out_stacked ? FORMAT_FP32 : wide,
                                        c->out_stacked ? blocks * size : rows,
                                        c->out_stacked ? size : blocks * size, 1, 3);
    const bool adds = mix >= 3;
    double *wanted = calloc(out.numbers, sizeof(double));

    for (size_t i = 0; i < blocks * height * size; i++) {
        size_t block = i / (height * size), row = i / size % height, col = i % size;
        size_t at = element(c->out_stacked, shape, block, row, col);
        double sum = 0;

        for (size_t k = 0; k < depth; k++)
            sum += a.real[element(c->a_stacked, shape, block, c->trans_a ? k : row,
                                  c->trans_a ? row : k)] *
                   b.real[element(c->b_stacked, shape, block, c->trans_b ? col : k,
                                  c->trans_b ? k : col)];
        wanted[at] = 0.5 * sum + (adds ? out.real[at] : 0) + (row == col ? 2 : 0);
    }
    machines_try(machines, run_block_matmul,
                 &(struct op_block_matmul) { .out = out.tensor,
                                             .a = a.tensor,
                                             .b = b.tensor,
                                             .blocks = blocks,
                                             .size = size,
                                             .trans_a = c->trans_a,
                                             .trans_b = c->trans_b,
                                             .alpha = 0.5f,
                                             .beta = adds,
                                             .diagonal = 2 },
                 (struct outcome[]) { { &out, wanted, 8 + (double)depth / 8, 0 } }, 1);
    operand_clear(&a);
    operand_clear(&b);
    operand_clear(&out);
    free(wanted);
}

static void test_matmuls_multiply_blocks(void **state)
{
    static const size_t rows[] = { 1, 3, 67, 130 };

    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        for (size_t j = 0; j < TS_COUNT(cases); j++)
            for (size_t mix = 0; mix < 6; mix++)
                try_matmul(*state, &cases[j], mix, sizes[i],
                           rows[(i + j + mix) % TS_COUNT(rows)]);
}

/* The inverse times the matrix is the identity; compared with an elimination in double. */
static void try_inverse(struct machines *machines, const size_t shape[2])
{
    const size_t blocks = shape[0], size = shape[1];
    struct operand x = operand_random(FORMAT_FP32, blocks * size, size, 0.2, 1);
    double *wanted = calloc(2 * size * size, sizeof(double)), *rest;
    double *all = calloc(x.numbers, sizeof(double));

    rest = wanted + size * size;
    for (size_t i = 0; i < x.numbers; i++) {
        size_t j = i / size % size, k = i % size;

        if (j >= k)
            x.real[i] = j == k ? 1 : -x.real[i - j * size - k + k * size + j];
    }
    operand_write(&x);
    operand_read(&x);
    for (size_t block = 0; block < blocks; block++) {
        for (size_t i = 0; i < size * size; i++) {
            rest[i] = x.real[block * size * size + i];
            wanted[i] = i / size == i % size;
        }
        for (size_t p = 0; p < size; p++) /* rows of [rest | wanted] */
            for (size_t j = 0; j < size; j++) {
                double by = rest[j * size + p] / rest[p * size + p];

                for (size_t k = 0; j != p && k < size; k++) {
                    rest[j * size + k] -= by * rest[p * size + k];
                    wanted[j * size + k] -= by * wanted[p * size + k];
                }
            }
        for (size_t i = 0; i < size * size; i++)
            all[block * size * size + i] = wanted[i] / rest[i / size * (size + 1)];
    }
    machines_try(machines, run_block_inverse, &(struct op_block_inverse) { x.tensor },
                 (struct outcome[]) { { &x, all, 8 + (double)size, 0 } }, 1);
    operand_clear(&x);
    free(wanted);
    free(all);
}

static void test_inverses_of_stacks(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        try_inverse(*state, sizes[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_skew_unpacks_triangles),
        cmocka_unit_test(test_matmuls_multiply_blocks),
        cmocka_unit_test(test_inverses_of_stacks),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
