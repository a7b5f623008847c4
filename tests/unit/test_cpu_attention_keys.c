/* tests/unit/test_cpu_attention_keys.c - attention to other rows than those of the queries
 * (cross-attention) and its gradients follow the formula. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_attention_trial.h"

struct crossing {
    struct shape shape;
    int32_t keys[8];
};

/* An odd number of rows: operands that tensor cores can use.  Fewer and more keys than
 * queries; sequences without keys, without queries, and without either; shared heads; head
 * sizes that are no multiple of a vector or above 256. */
static const struct crossing crossings[] = {
    { { FORMAT_FP32, 1, 1, 8, 0, { 0, 1 } }, { 0, 1 } },
    { { FORMAT_FP32, 2, 1, 16, 0, { 0, 67 } }, { 0, 3 } },
    { { FORMAT_FP32, 4, 2, 64, 0, { 0, 5, 12 } }, { 0, 200, 203 } },
    { { FORMAT_FP32, 2, 2, 80, 0, { 0, 20, 150, 151 } }, { 0, 0, 64, 193 } },
    { { FORMAT_FP32, 1, 1, 6, 0, { 0, 10, 10, 74, 80 } }, { 0, 30, 95, 95, 100 } },
    { { FORMAT_FP32, 2, 1, 320, 0, { 0, 70, 90 } }, { 0, 0, 133 } },
    { { FORMAT_FP32, 1, 1, 32, 0, { 0, 0, 9, 9 } }, { 0, 7, 140, 141 } },
    { { FORMAT_BF16, 4, 1, 128, 0, { 0, 65, 199 } }, { 0, 40, 301 } },
    { { FORMAT_BF16, 2, 2, 5, 0, { 0, 3, 67 } }, { 0, 0, 90 } },
    { { FORMAT_BF16, 1, 1, 64, 0, { 0, 7, 60, 131, 131 } }, { 0, 0, 65, 257, 300 } },
    { { FORMAT_BF16, 2, 1, 256, 0, { 0, 33, 35 } }, { 0, 129, 131 } },
    { { FORMAT_FP16, 3, 3, 20, 0, { 0, 40, 150 } }, { 0, 1, 2 } },
    { { FORMAT_FP16, 4, 2, 64, 0, { 0, 130, 205 } }, { 0, 77, 77 } },
    { { FORMAT_FP16, 8, 2, 128, 0, { 0, 3, 3, 40 } }, { 0, 64, 128, 400 } },
    { { FORMAT_FP16, 2, 1, 96, 0, { 0, 129, 201 } }, { 0, 200, 231 } },
    { { FORMAT_FP16, 1, 1, 192, 0, { 0, 100 } }, { 0, 67 } },
    { { FORMAT_BF16, 6, 2, 128, 0, { 0, 5, 70, 271 } }, { 0, 0, 71, 71 } },
    { { FORMAT_FP16, 2, 1, 128, 0, { 0, 150, 150, 261 } }, { 0, 150, 280, 421 } },
};

/* All keys of the sequence, and a growing part of them; on slow machines one of the two. */
static void each_crossing(struct machines *machines, trial *run, size_t first)
{
    static const enum sight sights[] = { SIGHT_BEFORE, SIGHT_BLOCKS };

    for (size_t i = 0; i < TS_COUNT(crossings); i++)
        for (size_t k = 0; k < TS_COUNT(sights); k++)
            if (!machines->slow || (i + k + first) % 2 == 0)
                run(machines, &crossings[i].shape,
                    (struct extra) { .sight = sights[k], .keys = crossings[i].keys });
}

static void test_attention_to_other_keys_follows_the_formula(void **state)
{
    each_crossing(*state, try_forward, 0);
}

static void test_attention_to_other_keys_has_the_gradient(void **state)
{
    each_crossing(*state, try_backward, 1);
}

static void with_others(struct machines *machines, trial *run)
{
    static const struct extra extras[] = { { .p = 0.3f }, { .softcap = 3 } };
    static const size_t some[] = { 2, 3, 9, 12 };

    for (size_t i = 0; i < TS_COUNT(some); i++)
        for (size_t k = 0; k < TS_COUNT(extras); k++) {
            struct extra extra = extras[k];

            extra.sight = (i + k) % 2 ? SIGHT_BLOCKS : SIGHT_BEFORE;
            extra.keys = crossings[some[i]].keys;
            run(machines, &crossings[some[i]].shape, extra);
        }
}

static void test_attention_to_other_keys_with_dropout_and_cap(void **state)
{
    with_others(*state, try_forward);
    with_others(*state, try_backward);
}

/* Rows that see no key: exactly 0, lse -inf, and nothing of them in any gradient, even if
 * dout is not finite there. */
static void try_blind(struct machines *machines, enum format format)
{
    const struct shape shape = { format, 2, 1, 128, 0, { 0, 20, 91 } };
    static const int32_t keys[] = { 0, 0, 101 };

    for (size_t m = 0; m < machines->count; m++) {
        struct attention_case c;
        struct op_attention_backward op;
        size_t cols;

        case_open_with(&c, &shape, (struct extra) { .keys = keys });
        cols = c.q.tensor.cols;
        for (size_t i = 0; i < 20 * cols; i++)
            c.dout.real[i] = i % 2 ? INFINITY : NAN;
        operand_write(&c.dout);
        machine_run(machines->backends[m], run_attention, &c.op);
        op = case_backward(&c);
        machine_run(machines->backends[m], run_attention_backward, &op);
        operand_read(&c.out);
        operand_read(&c.lse);
        operand_read(&c.dq);
        operand_read(&c.dk);
        operand_read(&c.dv);
        for (size_t i = 0; i < c.out.numbers; i++) {
            assert_int_equal(c.out.real[i] == 0, i < 20 * cols);
            assert_int_equal(c.dq.real[i] == 0, i < 20 * cols);
        }
        for (size_t i = 0; i < c.lse.numbers; i++)
            assert_int_equal(c.lse.real[i] == -INFINITY, i % c.lse.tensor.cols < 20);
        for (size_t i = 0; i < c.dk.numbers; i++)
            assert_true(isfinite(c.dk.real[i]) && isfinite(c.dv.real[i]));
        case_close(&c);
    }
}

static void test_attention_of_blind_rows_is_zero(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

    for (size_t i = 0; i < TS_COUNT(formats); i++)
        try_blind(*state, formats[i]);
}

/* A NaN in a query that sees all keys, or a key, stays in its sequence. */
static void test_attention_to_other_keys_keeps_to_its_sequence(void **state)
{
    static const struct shape shape = { FORMAT_FP32, 1, 1, 64, 0, { 0, 70, 140 } };
    static const int32_t keys[] = { 0, 65, 100 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct attention_case c;
        struct op_attention_backward op;

        case_open_with(&c, &shape, (struct extra) { .keys = keys });
        for (size_t i = 0; i < 64; i++)
            c.k.real[64 * 64 + i] = c.q.real[i] = NAN; /* of the first sequence */
        operand_write(&c.k);
        operand_write(&c.q);
        machine_run(machines->backends[m], run_attention, &c.op);
        op = case_backward(&c);
        machine_run(machines->backends[m], run_attention_backward, &op);
        operand_read(&c.out);
        operand_read(&c.dq);
        operand_read(&c.dk);
        for (size_t row = 0; row < 140; row++) {
            assert_int_equal(isfinite(c.out.real[row * 64]) != 0, row >= 70);
            assert_int_equal(isfinite(c.dq.real[row * 64]) != 0, row >= 70);
        }
        for (size_t row = 0; row < 100; row++)
            assert_int_equal(isfinite(c.dk.real[row * 64]) != 0, row >= 65);
        case_close(&c);
    }
}

/* Keys that are the rows of the queries themselves: the bits of attention with `reach`.  For
 * heads of other sizes, a GPU has other tiles. */
static void test_attention_to_own_keys_is_the_same(void **state)
{
    static const struct shape shapes[] = {
        { FORMAT_FP32, 2, 1, 64, 0, { 0, 64, 128 } },
        { FORMAT_BF16, 2, 2, 128, 0, { 0, 64, 193 } },
        { FORMAT_FP16, 2, 1, 128, 0, { 0, 129 } },
    };
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t m = 0; m < machines->count; m++) {
            struct attention_case c[2];

            for (size_t k = 0; k < 2; k++) {
                struct op_attention_backward op;

                case_open_with(&c[k], &shapes[i],
                               (struct extra) { .sight = k ? SIGHT_BEFORE : SIGHT_ALL,
                                                .keys = k ? shapes[i].offsets : NULL });
                machine_run(machines->backends[m], run_attention, &c[k].op);
                op = case_backward(&c[k]);
                machine_run(machines->backends[m], run_attention_backward, &op);
            }
            assert_memory_equal(c[0].out.block, c[1].out.block, c[0].out.bytes);
            assert_memory_equal(c[0].lse.block, c[1].lse.block, c[0].lse.bytes);
            assert_memory_equal(c[0].dq.block, c[1].dq.block, c[0].dq.bytes);
            assert_memory_equal(c[0].dk.block, c[1].dk.block, c[0].dk.bytes);
            assert_memory_equal(c[0].dv.block, c[1].dv.block, c[0].dv.bytes);
            case_close(&c[0]);
            case_close(&c[1]);
        }
}

static double loss(void *context)
{
    struct reference_attention *r = context;
    double sum = 0;

    reference_attention(r);
    for (size_t i = 0; i < r->rows * r->heads * r->head_size; i++)
        sum += r->out[i] * r->dout[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    static const struct shape small = { FORMAT_FP32, 4, 2, 6, 0, { 0, 2, 9, 12, 12 } };
    static const int32_t keys[] = { 0, 0, 11, 14, 15 };

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct attention_case c;

        case_open_with(
            &c, &small,
            (struct extra) { .sight = i ? SIGHT_BLOCKS : SIGHT_BEFORE, .keys = keys });
        assert_true(reference_slope_error(loss, &c.reference, c.q.real, c.q.numbers,
                                          c.real[2]) < 1e-6);
        assert_true(reference_slope_error(loss, &c.reference, c.k.real, c.k.numbers,
                                          c.real[3]) < 1e-6);
        assert_true(reference_slope_error(loss, &c.reference, c.v.real, c.v.numbers,
                                          c.real[4]) < 1e-6);
        case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_attention_to_other_keys_follows_the_formula),
        cmocka_unit_test(test_attention_to_other_keys_has_the_gradient),
        cmocka_unit_test(test_attention_to_other_keys_with_dropout_and_cap),
        cmocka_unit_test(test_attention_of_blind_rows_is_zero),
        cmocka_unit_test(test_attention_to_other_keys_keeps_to_its_sequence),
        cmocka_unit_test(test_attention_to_own_keys_is_the_same),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
