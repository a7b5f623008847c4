/* tests/unit/test_cpu_topk.c - the largest logits of rows with a target are found, in the
 * order of their tokens. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(topk)

struct shape {
    enum format format;
    size_t rows, cols, words, kept, chunk, every;
};

static const struct shape shapes[] = {
    { FORMAT_FP32, 3, 8, 5, 2, 2, 0 },      { FORMAT_FP32, 17, 16, 50, 50, 5, 3 },
    { FORMAT_FP32, 40, 16, 700, 1, 64, 2 }, { FORMAT_FP32, 9, 8, 5000, 64, 4, 4 },
    { FORMAT_BF16, 33, 24, 300, 7, 8, 0 },  { FORMAT_FP16, 5, 24, 300, 128, 8, 1 },
};

struct topk_case {
    struct operand x, w, bias, logits, gathered, values;
    int32_t *targets, *places, *ids;
    struct op_topk op;
};

static void case_open(struct topk_case *c, const struct shape *s)
{
    c->x = operand_random(s->format, s->rows, s->cols, 1, 1);
    c->w = operand_random(s->format, s->words, s->cols, 1, 2);
    c->bias = operand_random(FORMAT_FP32, 1, s->words, 1, 3);
    c->logits = operand_filled(FORMAT_FP32, s->chunk, s->words, 7);
    c->gathered = operand_filled(s->format, s->chunk, s->cols, 7);
    c->values = operand_filled(FORMAT_FP32, s->rows, s->kept, 7);
    c->targets = machines_memory(s->rows * sizeof(*c->targets));
    c->places = machines_memory(s->rows * sizeof(*c->places));
    c->ids = machines_memory(s->rows * s->kept * sizeof(*c->ids));
    for (size_t i = 0; i < s->rows * s->kept; i++)
        c->ids[i] = -7;
    for (size_t i = 0; i < s->rows; i++)
        c->targets[i] = s->every && i % s->every == 0 ? -100 : (int32_t)(i % s->words);
    c->op = (struct op_topk) {
        .values = c->values.tensor,
        .x = c->x.tensor,
        .w = c->w.tensor,
        .logits = c->logits.tensor,
        .gathered = c->gathered.tensor,
        .ids = c->ids,
        .targets = c->targets,
        .rows = c->places,
    };
}

static void case_close(struct topk_case *c)
{
    struct operand *operands[] = { &c->x,      &c->w,        &c->bias,
                                   &c->logits, &c->gathered, &c->values };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    machines_memory_free(c->targets);
    machines_memory_free(c->places);
    machines_memory_free(c->ids);
}

static double logit(const struct topk_case *c, size_t row, size_t word)
{
    size_t cols = c->x.tensor.cols;
    double sum = c->op.bias.data ? c->bias.real[word] : 0;

    for (size_t i = 0; i < cols; i++)
        sum += c->x.real[row * cols + i] * c->w.real[word * cols + i];
    return sum;
}

/* Tokens ascend; values are their logits; no other token has a logit above the smallest
 * by more than matmul rounding may cause. */
static void check_row(const struct topk_case *c, const struct shape *s, size_t row)
{
    const int32_t *ids = c->ids + row * s->kept;
    const double *values = c->values.real + row * s->kept;
    double least = INFINITY, close = 1e-5;

    for (size_t k = 0; k < s->kept; k++) {
        assert_true(ids[k] >= 0 && (size_t)ids[k] < s->words);
        assert_true(k == 0 || ids[k] > ids[k - 1]);
        assert_true(fabs(values[k] - logit(c, row, (size_t)ids[k])) < close);
        least = fmin(least, values[k]);
    }
    for (size_t v = 0, k = 0; v < s->words; v++)
        if (k < s->kept && (size_t)ids[k] == v)
            k++;
        else
            assert_true(logit(c, row, v) <= least + close);
}

/* With rows of logits at any alignment, and on multiples of 64 elements; with and without
 * a bias. */
static void test_topk_finds_the_largest(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++)
        for (size_t i = 0; i < 4 * TS_COUNT(shapes); i++) {
            const struct shape *s = &shapes[i / 4];
            struct topk_case c;

            case_open(&c, s);
            if (i / 2 % 2) {
                operand_clear(&c.logits);
                c.logits = operand_padded(FORMAT_FP32, s->chunk, s->words, 7);
                c.op.logits = c.logits.tensor;
            }
            if (i % 2)
                c.op.bias = c.bias.tensor;
            for (size_t n = 0; i % 2 && n < s->rows; n++)
                c.op.labeled += c.targets[n] >= 0;
            machine_run(machines->backends[m], run_topk, &c.op);
            operand_read(&c.values);
            for (size_t n = 0; n < s->rows; n++) {
                if (c.targets[n] >= 0) {
                    check_row(&c, s, n);
                    continue;
                }
                assert_int_equal(c.ids[n * s->kept], -7); /* unchanged */
                assert_true(c.values.real[n * s->kept] == 7);
            }
            case_close(&c);
        }
}

/* Given logits: x is a single value, 1, and w holds them. */
static void try_logits(struct machines *machines, const float *logits, size_t words,
                       const int32_t *wanted, size_t kept)
{
    struct shape s = { FORMAT_FP32, 1, 1, words, kept, 1, 0 };

    for (size_t m = 0; m < machines->count; m++) {
        struct topk_case c;

        case_open(&c, &s);
        c.x.real[0] = 1;
        for (size_t v = 0; v < words; v++)
            c.w.real[v] = (double)logits[v];
        operand_write(&c.x);
        operand_write(&c.w);
        machine_run(machines->backends[m], run_topk, &c.op);
        for (size_t k = 0; k < kept; k++)
            assert_int_equal(c.ids[k], wanted[k]);
        case_close(&c);
    }
}

static void test_topk_orders_ties_and_nan(void **state)
{
    static const float equal[] = { 1, 2, 2, -3, 2, 2, 0, -INFINITY };
    static const float late[] = { 2, 2, 3 }, nans[] = { NAN, 1, NAN };
    static const float broken[] = { 1, INFINITY, -2, NAN, 5, 4, NAN, 3 };

    try_logits(*state, equal, 8, (const int32_t[]) { 1 }, 1);
    try_logits(*state, equal, 8, (const int32_t[]) { 1, 2, 4 }, 3);
    try_logits(*state, equal, 8, (const int32_t[]) { 0, 1, 2, 4, 5 }, 5);
    try_logits(*state, equal, 8, (const int32_t[]) { 0, 1, 2, 3, 4, 5, 6, 7 }, 8);
    try_logits(*state, late, 3, (const int32_t[]) { 0, 2 }, 2);
    try_logits(*state, nans, 3, (const int32_t[]) { 0 }, 1);
    try_logits(*state, broken, 8, (const int32_t[]) { 3, 6 }, 2);
    try_logits(*state, broken, 8, (const int32_t[]) { 1, 3, 4, 6 }, 4);
}

/* Kept values of capped logits are capped, and belong to the same tokens. */
static void test_topk_caps_kept_values(void **state)
{
    static const struct shape shape = { FORMAT_FP32, 9, 8, 300, 7, 4, 4 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct topk_case plain, capped;

        case_open(&plain, &shape);
        case_open(&capped, &shape);
        capped.op.softcap = 1.5f;
        machine_run(machines->backends[m], run_topk, &plain.op);
        machine_run(machines->backends[m], run_topk, &capped.op);
        operand_read(&plain.values);
        operand_read(&capped.values);
        for (size_t i = 0; i < plain.values.numbers; i++) {
            assert_int_equal(plain.ids[i], capped.ids[i]);
            if (plain.targets[i / shape.kept] >= 0)
                assert_true(fabs(capped.values.real[i] -
                                 1.5 * tanh(plain.values.real[i] / 1.5)) < 1e-6);
        }
        case_close(&plain);
        case_close(&capped);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topk_finds_the_largest),
        cmocka_unit_test(test_topk_orders_ties_and_nan),
        cmocka_unit_test(test_topk_caps_kept_values),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
