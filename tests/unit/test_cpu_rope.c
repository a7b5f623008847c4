/* tests/unit/test_cpu_rope.c - rotations follow the formula, and the inverse undoes
 * them. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(rope)

enum { POSITIONS = 40 };

enum { INTERLEAVED = 1, INVERSE = 2, VARIANTS = 4 }; /* sums of these */

/* rotary 0: the whole head.  Partial rotation: as in Pythia, and without alignment. */
static const struct {
    size_t rows, heads, head_size, rotary;
} sizes[] = { { 1, 1, 2, 0 },     { 3, 2, 8, 0 },    { 17, 9, 64, 0 },  { 257, 3, 80, 0 },
              { 3, 1, 256, 0 },   { 17, 8, 64, 16 }, { 3, 5, 80, 20 },  { 9, 3, 96, 24 },
              { 3, 2, 257, 254 }, { 5, 3, 7, 4 },    { 17, 2, 64, 64 }, { 4, 1, 8, 2 },
              { 7, 320, 2, 0 } };

static struct operand table_new(size_t rotary)
{
    struct operand table = operand_filled(FORMAT_FP32, POSITIONS, rotary, 0);

    for (size_t p = 0; p < POSITIONS; p++)
        for (size_t d = 0; d < rotary / 2; d++) {
            double angle = (double)p * pow(10000, -2.0 * (double)d / (double)rotary);

            table.real[p * rotary + d] = cos(angle);
            table.real[p * rotary + rotary / 2 + d] = sin(angle);
        }
    operand_write(&table);
    return table;
}

static void try_rope(struct machines *machines, enum format format, size_t size,
                     int variant)
{
    size_t rows = sizes[size].rows, heads = sizes[size].heads,
           head = sizes[size].head_size;
    size_t rotary = sizes[size].rotary ? sizes[size].rotary : head;
    struct operand table = table_new(rotary),
                   x = operand_random(format, rows, heads * head, 1, 1);
    double *wanted = calloc(x.numbers, sizeof(double));
    int32_t *positions = machines_memory(rows * sizeof(*positions));
    struct op_rope op = { .x = x.tensor,
                          .table = table.tensor,
                          .positions = positions,
                          .heads = heads,
                          .rotary = sizes[size].rotary,
                          .interleaved = variant & INTERLEAVED,
                          .inverse = variant & INVERSE };

    for (size_t i = 0; i < rows; i++)
        positions[i] = (int32_t)(i * 7 % POSITIONS);
    memcpy(wanted, x.real, x.numbers * sizeof(double));
    reference_rope(&(struct reference_rope) { .rows = rows,
                                              .heads = heads,
                                              .head_size = head,
                                              .rotary = rotary,
                                              .base = 10000,
                                              .positions = positions,
                                              .interleaved = op.interleaved,
                                              .inverse = op.inverse,
                                              .x = wanted });
    machines_try(machines, run_rope, &op, (struct outcome[]) { { &x, wanted, 4, 0 } }, 1);
    operand_clear(&table);
    operand_clear(&x);
    free(wanted);
    machines_memory_free(positions);
}

static void test_rope_follows_the_formula(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            for (int variant = 0; variant < VARIANTS; variant++)
                try_rope(*state, formats[f], i, variant);
}

/* The gradient of a rotation is the inverse rotation: <rope(x), y> = <x, rope'(y)>. */
static void try_inverse(bool interleaved)
{
    enum { ROWS = 5, HEADS = 2, SIZE = 6, ROTARY = 4, NUMBERS = ROWS * HEADS * SIZE };
    struct operand x = operand_random(FORMAT_FP32, ROWS, HEADS * SIZE, 1, 1);
    struct operand y = operand_random(FORMAT_FP32, ROWS, HEADS * SIZE, 1, 2);
    int32_t positions[ROWS] = { 0, 3, 1, 20, 7 };
    double *turned = calloc(NUMBERS, sizeof(double)),
           *back = calloc(NUMBERS, sizeof(double));
    struct reference_rope rope = { .rows = ROWS,
                                   .heads = HEADS,
                                   .head_size = SIZE,
                                   .rotary = ROTARY,
                                   .base = 10000,
                                   .positions = positions,
                                   .interleaved = interleaved,
                                   .x = turned };
    double left = 0, right = 0;

    memcpy(turned, x.real, NUMBERS * sizeof(double));
    memcpy(back, y.real, NUMBERS * sizeof(double));
    reference_rope(&rope);
    rope.inverse = true;
    rope.x = back;
    reference_rope(&rope);
    for (size_t i = 0; i < NUMBERS; i++) {
        left += turned[i] * y.real[i];
        right += x.real[i] * back[i];
    }
    assert_true(fabs(left - right) < 1e-12);
    free(turned);
    free(back);
    operand_clear(&x);
    operand_clear(&y);
}

static void test_reference_inverse_is_the_gradient(void **state)
{
    (void)state;
    try_inverse(false);
    try_inverse(true);
}

/* Pairs of adjacent elements by 1 and 2 radians: in the order of the columns. */
static void test_reference_turns_adjacent_elements(void **state)
{
    double x[4] = { 1, 0, 0, 1 };
    int32_t position = 1;

    (void)state;
    reference_rope(&(struct reference_rope) { .rows = 1,
                                              .heads = 1,
                                              .head_size = 4,
                                              .rotary = 4,
                                              .base = 0.25,
                                              .positions = &position,
                                              .interleaved = true,
                                              .x = x });
    assert_true(fabs(x[0] - cos(1)) < 1e-12 && fabs(x[1] - sin(1)) < 1e-12);
    assert_true(fabs(x[2] + sin(2)) < 1e-12 && fabs(x[3] - cos(2)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_turns_adjacent_elements),
        cmocka_unit_test(test_reference_inverse_is_the_gradient),
        cmocka_unit_test(test_rope_follows_the_formula),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
