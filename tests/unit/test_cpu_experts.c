/* tests/unit/test_cpu_experts.c - matmuls of groups of rows, and the rows' way to their
 * experts and back, follow the formulas for groups of all sizes. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/random.h"
#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/reference/reference_experts.h"
#include "tests/unit/unit.h"

OPERATION(grouped_matmul)
OPERATION(gather_pairs)
OPERATION(sum_pairs)
OPERATION(combine)
OPERATION(combine_backward)

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

/* ---- Matmuls ---- */

enum { GROUPS_MAX = 40 };

struct grouped_shape {
    size_t groups, inner, cols;
    size_t sizes[6]; /* of the groups, again and again */
    double alpha, beta;
};

static const struct grouped_shape grouped_shapes[] = {
    { 1, 1, 1, { 1, 1, 1, 1, 1, 1 }, 1, 0 },
    { 3, 24, 17, { 5, 0, 9, 0, 0, 0 }, 1, 0 },
    { 6, 64, 96, { 0, 33, 1, 64, 2, 0 }, 1, 1 },
    { 6, 72, 40, { 130, 0, 7, 16, 17, 1 }, 0.5, 0 },
    { 40, 33, 8, { 0, 1, 3, 0, 2, 5 }, 2, 1 },
    { 2, 256, 136, { 0, 300, 0, 0, 0, 0 }, 1, 0 },
};

static size_t starts_of(const struct grouped_shape *s, int32_t *starts)
{
    starts[0] = 0;
    for (size_t g = 0; g < s->groups; g++)
        starts[g + 1] = starts[g] + (int32_t)s->sizes[g % 6];
    return (size_t)starts[s->groups];
}

/* Return epsilons of fp32 for a sum of `depth` terms. */
static double units_of(size_t depth)
{
    return 8 + 2 * sqrt((double)depth);
}

/* aligned: every row of a and b begins on a multiple of 16 bytes, for tensor cores */
struct layout {
    enum format in, out;
    bool trans_a, trans_b, aligned;
};

static struct operand side_of(const struct layout *l, size_t rows, size_t cols,
                              uint64_t seed)
{
    struct operand side = operand_random(l->in, rows, cols, 1, seed), padded;

    if (!l->aligned)
        return side;
    padded = operand_padded(l->in, rows, cols, 0);
    memcpy(padded.real, side.real, side.numbers * sizeof(*side.real));
    operand_write(&padded);
    operand_clear(&side);
    return padded;
}

static void try_grouped(struct machines *machines, const struct grouped_shape *s,
                        const struct layout *l)
{
    int32_t *starts = machines_memory((GROUPS_MAX + 1) * sizeof(*starts));
    size_t rows = starts_of(s, starts), stack = s->groups * s->inner;
    struct operand a = side_of(l, rows, s->inner, 1);
    struct operand b = l->trans_a   ? side_of(l, rows, s->cols, 2)
                       : l->trans_b ? side_of(l, s->groups * s->cols, s->inner, 2)
                                    : side_of(l, stack, s->cols, 2);
    struct operand out = operand_random(l->out, l->trans_a ? stack : rows, s->cols, 1, 3);
    double *wanted = malloc(out.numbers * sizeof(*wanted));
    size_t longest = 0;
    struct op_grouped_matmul op = { .out = out.tensor,
                                    .a = a.tensor,
                                    .b = b.tensor,
                                    .starts = starts,
                                    .groups = s->groups,
                                    .trans_a = l->trans_a,
                                    .trans_b = l->trans_b,
                                    .alpha = (float)s->alpha,
                                    .beta = (float)s->beta };
    struct reference_grouped_matmul r = { .groups = s->groups,
                                          .inner = s->inner,
                                          .cols = s->cols,
                                          .starts = starts,
                                          .a = a.real,
                                          .b = b.real,
                                          .trans_a = l->trans_a,
                                          .trans_b = l->trans_b,
                                          .alpha = s->alpha,
                                          .beta = s->beta,
                                          .out = wanted };

    for (size_t g = 0; g < 6; g++)
        longest = s->sizes[g] > longest ? s->sizes[g] : longest;
    memcpy(wanted, out.real, out.numbers * sizeof(*wanted));
    reference_grouped_matmul(&r);
    machines_try(
        machines, run_grouped_matmul, &op,
        &(struct outcome) { &out, wanted, units_of(l->trans_a ? longest : s->inner), 4 },
        1);
    operand_clear(&a);
    operand_clear(&b);
    operand_clear(&out);
    free(wanted);
    machines_memory_free(starts);
}

static void test_grouped_matmul_matches_the_reference(void **state)
{
    for (size_t i = 0; i < TS_COUNT(grouped_shapes); i++)
        for (size_t f = 0; f < TS_COUNT(formats); f++)
            for (int kind = 0; kind < 3; kind++) {
                struct layout l = { .in = formats[f],
                                    .out = FORMAT_FP32,
                                    .trans_a = kind == 2,
                                    .trans_b = kind == 1,
                                    .aligned = (i + f) % 2 };

                try_grouped(*state, &grouped_shapes[i], &l);
                if (formats[f] == FORMAT_FP32)
                    continue;
                l.out = formats[f];
                l.aligned = !l.aligned;
                try_grouped(*state, &grouped_shapes[i], &l);
            }
}

/* A group has the bits that it has alone: how the other rows are distributed does not
 * change them. */
static void test_grouped_matmul_keeps_groups_apart(void **state)
{
    static const int32_t alone[] = { 0, 0, 20, 20 }, among[] = { 0, 30, 50, 77 };
    struct machines *machines = *state;
    struct operand a = operand_random(FORMAT_BF16, 77, 40, 1, 1);
    struct operand b = operand_random(FORMAT_BF16, 3 * 24, 40, 1, 2);
    struct operand out = operand_filled(FORMAT_FP32, 77, 24, 0);
    struct operand one = operand_filled(FORMAT_FP32, 20, 24, 0);
    int32_t *starts = machines_memory(sizeof(among) + sizeof(alone));
    struct op_grouped_matmul op = { .out = out.tensor,
                                    .a = a.tensor,
                                    .b = b.tensor,
                                    .starts = starts,
                                    .groups = 3,
                                    .trans_b = true,
                                    .alpha = 1 };
    struct op_grouped_matmul lone = op;

    memcpy(starts, among, sizeof(among));
    memcpy(starts + 4, alone, sizeof(alone));
    lone.starts = starts + 4;
    lone.a = tensor_rows(a.tensor, 30, 20);
    lone.out = one.tensor;
    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_grouped_matmul, &op);
        machine_run(machines->backends[m], run_grouped_matmul, &lone);
        operand_read(&out);
        operand_read(&one);
        assert_memory_equal(&out.real[30 * 24], one.real,
                            one.numbers * sizeof(one.real[0]));
    }
    operand_clear(&a);
    operand_clear(&b);
    operand_clear(&out);
    operand_clear(&one);
    machines_memory_free(starts);
}

/* ---- Rows ---- */

struct rows_case {
    size_t rows, chosen, cols;
    int32_t *order, *slots;
    struct operand x, y, base, weights, dout;
    struct operand gathered, out, dy, dweights;
    struct reference_combine reference;
};

static const size_t row_shapes[][3] = {
    { 1, 1, 1 },   { 3, 2, 17 },  { 41, 4, 64 },
    { 7, 8, 300 }, { 130, 2, 8 }, { 2, 6, 2050 },
};

static void rows_open(struct rows_case *c, const size_t shape[3], enum format format)
{
    size_t rows = shape[0], chosen = shape[1], cols = shape[2], pairs = rows * chosen;
    uint32_t *mixed = malloc(pairs * sizeof(*mixed));

    *c = (struct rows_case) { .rows = rows, .chosen = chosen, .cols = cols };
    c->order = machines_memory(2 * pairs * sizeof(*c->order));
    c->slots = c->order + pairs;
    random_permutation(1, RANDOM_ORDER, 0, mixed, pairs);
    for (size_t i = 0; i < pairs; i++) {
        c->order[i] = (int32_t)mixed[i];
        c->slots[mixed[i]] = (int32_t)i;
    }
    free(mixed);
    c->x = operand_random(format, rows, cols, 1, 2);
    c->y = operand_random(format, pairs, cols, 1, 3);
    c->base = operand_random(FORMAT_FP32, rows, cols, 1, 4);
    c->weights = operand_random(FORMAT_FP32, rows, chosen, 1, 5);
    c->dout = operand_random(format, rows, cols, 1, 6);
    c->gathered = operand_filled(format, pairs, cols, 7);
    c->out = operand_random(format, rows, cols, 1, 7);
    c->dy = operand_filled(format, pairs, cols, 7);
    c->dweights = operand_filled(FORMAT_FP32, rows, chosen, 7);
    c->reference = (struct reference_combine) {
        .rows = rows,
        .chosen = chosen,
        .cols = cols,
        .slots = c->slots,
        .y = c->y.real,
        .weights = c->weights.real,
        .dout = c->dout.real,
        .out = calloc(rows * cols, sizeof(double)),
        .dy = calloc(pairs * cols, sizeof(double)),
        .dweights = calloc(pairs, sizeof(double)),
    };
}

static void rows_close(struct rows_case *c)
{
    struct operand *operands[] = { &c->x,        &c->y,   &c->base, &c->weights, &c->dout,
                                   &c->gathered, &c->out, &c->dy,   &c->dweights };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    free(c->reference.out);
    free(c->reference.dy);
    free(c->reference.dweights);
    machines_memory_free(c->order);
}

static void try_gather(struct machines *machines, struct rows_case *c)
{
    double *wanted = malloc(c->gathered.numbers * sizeof(*wanted));
    struct op_gather_pairs op = { c->gathered.tensor, c->x.tensor, c->order };

    for (size_t i = 0; i < c->gathered.numbers; i++)
        wanted[i] =
            c->x.real[(size_t)c->order[i / c->cols] / c->chosen * c->cols + i % c->cols];
    machines_try(machines, run_gather_pairs, &op,
                 &(struct outcome) { &c->gathered, wanted, 0, 0 }, 1);
    op.out = c->y.tensor;
    op.x = c->base.tensor; /* another format */
    for (size_t i = 0; i < c->y.numbers; i++)
        wanted[i] =
            c->base
                .real[(size_t)c->order[i / c->cols] / c->chosen * c->cols + i % c->cols];
    machines_try(machines, run_gather_pairs, &op,
                 &(struct outcome) { &c->y, wanted, 0, 0 }, 1);
    free(wanted);
}

static void try_sum(struct machines *machines, struct rows_case *c)
{
    struct op_sum_pairs op = { c->out.tensor, c->y.tensor, c->slots, false };
    struct outcome outcome = { &c->out, c->reference.out, 4, 0 };
    double *was = malloc(c->out.numbers * sizeof(*was));

    memcpy(was, c->out.real, c->out.numbers * sizeof(*was));
    c->reference.weights = NULL;
    reference_combine(&c->reference);
    machines_try(machines, run_sum_pairs, &op, &outcome, 1);
    op.add = true;
    c->reference.base = was;
    reference_combine(&c->reference);
    machines_try(machines, run_sum_pairs, &op, &outcome, 1);
    free(was);
}

static void try_combine(struct machines *machines, struct rows_case *c)
{
    struct op_combine op = { .out = c->out.tensor,
                             .y = c->y.tensor,
                             .weights = c->weights.tensor,
                             .slots = c->slots };

    reference_combine(&c->reference);
    machines_try(machines, run_combine, &op,
                 &(struct outcome) { &c->out, c->reference.out, 4, 0 }, 1);
    c->reference.base = c->base.real;
    reference_combine(&c->reference);
    op.base = c->base.tensor;
    machines_try(machines, run_combine, &op,
                 &(struct outcome) { &c->out, c->reference.out, 4, 0 }, 1);
    op.out = c->base.tensor; /* in place */
    machines_try(machines, run_combine, &op,
                 &(struct outcome) { &c->base, c->reference.out, 4, 0 }, 1);
}

static void try_combine_backward(struct machines *machines, struct rows_case *c)
{
    struct op_combine_backward op = { .dy = c->dy.tensor,
                                      .dweights = c->dweights.tensor,
                                      .dout = c->dout.tensor,
                                      .y = c->y.tensor,
                                      .weights = c->weights.tensor,
                                      .slots = c->slots };
    double units = units_of(c->cols);

    reference_combine_backward(&c->reference);
    machines_try(machines, run_combine_backward, &op,
                 (struct outcome[]) { { &c->dy, c->reference.dy, 2, 0 },
                                      { &c->dweights, c->reference.dweights, units, 1 } },
                 2);
    op.dweights = op.y = (struct tensor) { 0 };
    machines_try(machines, run_combine_backward, &op,
                 &(struct outcome) { &c->dy, c->reference.dy, 2, 0 }, 1);
    op.dweights = c->dweights.tensor;
    op.dy = op.y = c->y.tensor; /* in place */
    machines_try(machines, run_combine_backward, &op,
                 (struct outcome[]) { { &c->y, c->reference.dy, 2, 0 },
                                      { &c->dweights, c->reference.dweights, units, 1 } },
                 2);
}

static void try_rows(void **state,
                     void try(struct machines *machines, struct rows_case *c))
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(row_shapes); i++) {
            struct rows_case c;

            rows_open(&c, row_shapes[i], formats[f]);
            try(*state, &c);
            rows_close(&c);
        }
}

static void test_gather_pairs_copies_rows(void **state)
{
    try_rows(state, try_gather);
}

static void test_sum_pairs_matches_the_reference(void **state)
{
    try_rows(state, try_sum);
}

static void test_combine_matches_the_reference(void **state)
{
    try_rows(state, try_combine);
}

static void test_combine_backward_matches_the_reference(void **state)
{
    try_rows(state, try_combine_backward);
}

static double combined(void *context)
{
    struct rows_case *c = context;
    double sum = 0;

    reference_combine(&c->reference);
    for (size_t i = 0; i < c->rows * c->cols; i++)
        sum += c->reference.out[i] * c->dout.real[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    struct rows_case c;

    (void)state;
    rows_open(&c, row_shapes[1], FORMAT_FP32);
    reference_combine_backward(&c.reference);
    assert_true(reference_slope_error(combined, &c, c.y.real, c.y.numbers,
                                      c.reference.dy) < 1e-6);
    assert_true(reference_slope_error(combined, &c, c.weights.real, c.weights.numbers,
                                      c.reference.dweights) < 1e-6);
    rows_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_grouped_matmul_matches_the_reference),
        cmocka_unit_test(test_grouped_matmul_keeps_groups_apart),
        cmocka_unit_test(test_gather_pairs_copies_rows),
        cmocka_unit_test(test_sum_pairs_matches_the_reference),
        cmocka_unit_test(test_combine_matches_the_reference),
        cmocka_unit_test(test_combine_backward_matches_the_reference),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
