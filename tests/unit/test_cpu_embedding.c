/* tests/unit/test_cpu_embedding.c - rows are read from the table, and gradients are added
 * to it. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(embedding)
OPERATION(embedding_backward)

enum { WORDS = 37 };

static const size_t sizes[][2] = {
    { 1, 1 }, { 3, 17 }, { 17, 576 }, { 257, 100 }, { 2, 20000 }
};

static int32_t *tokens_new(size_t rows, size_t words)
{
    int32_t *tokens = machines_memory(rows * sizeof(*tokens));

    for (size_t i = 0; i < rows; i++)
        tokens[i] = (int32_t)(i * i % words);
    return tokens;
}

static void try_embedding(struct machines *machines, enum format format, size_t rows,
                          size_t cols, float scale)
{
    struct operand table = operand_random(format, WORDS, cols, 1, 1);
    struct operand out = operand_filled(FORMAT_FP32, rows, cols, 7);
    double *wanted = calloc(out.numbers, sizeof(double));
    int32_t *tokens = tokens_new(rows, WORDS);
    struct op_embedding op = { out.tensor, table.tensor, tokens, scale };

    for (size_t i = 0; i < out.numbers; i++)
        wanted[i] =
            (double)((scale != 0 ? scale : 1) *
                     (float)table.real[(size_t)tokens[i / cols] * cols + i % cols]);
    machines_try(machines, run_embedding, &op,
                 (struct outcome[]) { { &out, wanted, 0, 0 } }, 1);
    operand_clear(&table);
    operand_clear(&out);
    free(wanted);
    machines_memory_free(tokens);
}

static void test_embedding_copies_rows(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            try_embedding(*state, formats[f], sizes[i][0], sizes[i][1],
                          f == 1 ? 24.0f : 0);
}

/* In row order, so even the rounding is known, with a scale of 0 or a power of two. */
static void try_backward(struct machines *machines, size_t rows, size_t cols,
                         size_t words, float scale, int32_t padding)
{
    struct operand dout = operand_random(FORMAT_FP32, rows, cols, 1, 1);
    struct operand dtable = operand_random(FORMAT_FP32, words, cols, 1, 2);
    double *wanted = calloc(dtable.numbers, sizeof(double));
    int32_t *tokens = tokens_new(rows, words);
    struct op_embedding_backward op = { .dtable = dtable.tensor,
                                        .dout = dout.tensor,
                                        .tokens = tokens,
                                        .scale = scale,
                                        .padding = padding,
                                        .padded = padding >= 0 };

    memcpy(wanted, dtable.real, dtable.numbers * sizeof(double));
    for (size_t k = 0; k < dout.numbers; k++) {
        double *to = &wanted[(size_t)tokens[k / cols] * cols + k % cols];

        if (tokens[k / cols] == padding)
            continue;
        *to = (double)((float)*to + (scale != 0 ? scale : 1) * (float)dout.real[k]);
    }
    machines_try(machines, run_embedding_backward, &op,
                 (struct outcome[]) { { &dtable, wanted, 0, 0 } }, 1);
    for (size_t k = 0; k < dtable.numbers; k++)
        assert_true(dtable.real[k] == wanted[k]);
    operand_clear(&dout);
    operand_clear(&dtable);
    free(wanted);
    machines_memory_free(tokens);
}

static void test_embedding_backward_adds_in_order(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++)
        try_backward(*state, sizes[i][0], sizes[i][1], WORDS, i % 2 ? 4.0f : 0, -1);
}

/* One token, two tokens shared by all rows, and a vocabulary of three radix-sort
 * digits. */
static void test_embedding_backward_handles_many_rows(void **state)
{
    try_backward(*state, 33, 4, 1, 0, -1);
    try_backward(*state, 4099, 4, 2, 1, -1);
    try_backward(*state, 2000, 4, 700, 1, -1); /* slightly more than one digit */
    try_backward(*state, 4101, 3, 300001, 0.5f, -1);
}

/* The first token, the last one, one that is absent. */
static void test_embedding_backward_skips_padding(void **state)
{
    static const int32_t paddings[] = { 0, 1, 4, 36 };

    for (size_t i = 0; i < TS_COUNT(paddings); i++)
        for (size_t k = 0; k < TS_COUNT(sizes); k++)
            try_backward(*state, sizes[k][0], sizes[k][1], WORDS, 0, paddings[i]);
    try_backward(*state, 4099, 4, 2, 1, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embedding_copies_rows),
        cmocka_unit_test(test_embedding_backward_adds_in_order),
        cmocka_unit_test(test_embedding_backward_handles_many_rows),
        cmocka_unit_test(test_embedding_backward_skips_padding),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
