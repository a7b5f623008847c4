/* tests/unit/test_cpu_attention_limits.c - attention at its limits: NaN and infinity,
 * memory after the last row, large scores, small weights, long sequences. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit_attention.h"

/* A NaN reaches every row that sees it, and none before it. */
static void test_attention_propagates_nan_and_inf(void **state)
{
    static const struct shape shape = { FORMAT_FP32, 1, 1, 8, 0, { 0, 40, 100 } };
    static const float broken[] = { NAN, INFINITY };
    struct machines *machines = *state;
    struct attention_case c;

    case_open(&c, &shape);
    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            struct backend *be = machines->backends[m];
            float *v = c.v.tensor.data, *out = c.out.tensor.data;

            v[20 * c.v.tensor.stride] = broken[i];
            machine_run(be, run_attention, &c.op);
            assert_true(isfinite(out[3 * c.out.tensor.stride]));
            assert_true(isfinite(out[45 * c.out.tensor.stride]));
            for (size_t row = 20; row < 40; row++)
                assert_false(isfinite(out[row * c.out.tensor.stride]));
        }
    case_close(&c);
}

static void break_number(struct operand *operand, size_t row)
{
    operand->real[row * operand->tensor.cols] = NAN;
    operand_write(operand);
}

/* Check that the first element of each row from `first` to `last` is finite, or that none
 * is. */
static void check_finite(const struct operand *operand, size_t first, size_t last,
                         bool finite)
{
    for (size_t row = first; row <= last; row++)
        assert_int_equal(isfinite(operand->real[row * operand->tensor.cols]) != 0,
                         finite);
}

/* In 16 bits it may reach rows that share a tile, but no other sequence. */
static void test_attention_of_16_bits_propagates_nan(void **state)
{
    static const struct shape shape = { FORMAT_FP16, 1, 1, 64, 0, { 0, 300, 401 } };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];
        struct attention_case c;
        struct op_attention_backward op;

        case_open(&c, &shape);
        op = case_backward(&c);
        break_number(&c.dout, 200);
        machine_run(be, run_attention, &c.op);
        machine_run(be, run_attention_backward, &op);
        operand_read(&c.dq);
        operand_read(&c.dk);
        operand_read(&c.dv);
        check_finite(&c.dq, 0, 199, true);
        check_finite(&c.dq, 200, 200, false);
        check_finite(&c.dq, 201, 400, true);
        check_finite(&c.dk, 0, 200, false);
        check_finite(&c.dv, 0, 200, false);
        check_finite(&c.dk, 300, 400, true);
        check_finite(&c.dv, 300, 400, true);
        break_number(&c.v, 200);
        machine_run(be, run_attention, &c.op);
        operand_read(&c.out);
        check_finite(&c.out, 0, 200 - 128, true);
        check_finite(&c.out, 200, 299, false);
        check_finite(&c.out, 300, 400, true);
        case_close(&c);
    }
}

/* Set the rows of all its matrices from `first` on to NaN. */
static void break_rows(struct attention_case *c, size_t first)
{
    struct operand *operands[] = { &c->q, &c->k, &c->v };

    for (size_t i = 0; i < TS_COUNT(operands); i++) {
        size_t cols = operands[i]->tensor.cols;

        for (size_t n = first * cols; n < operands[i]->numbers; n++)
            operands[i]->real[n] = NAN;
        operand_write(operands[i]);
    }
}

/* Memory after the last row is neither read nor written, and empty sequences at the end
 * change nothing. */
static void test_attention_stays_within_its_rows(void **state)
{
    enum { ROWS = 151, ALL = 215 };
    static const struct shape shape = { FORMAT_BF16, 2, 1,
                                        64,          0, { 0, 100, ROWS, 152, ALL } };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        size_t row, bytes, kept;
        struct attention_case c;
        struct op_attention op;
        char *first, *out;

        case_open(&c, &shape);
        row = c.out.tensor.stride * format_info(shape.format)->bytes;
        kept = ROWS * row;
        bytes = (ALL - 1) * row;
        first = malloc(bytes);
        for (size_t i = 3; i <= runs_of(&shape); i++)
            c.offsets[i] = ROWS;
        op = c.op;
        op.longest = 0;
        op.q = tensor_rows(op.q, 0, ROWS);
        op.k = tensor_rows(op.k, 0, ROWS);
        op.v = tensor_rows(op.v, 0, ROWS);
        op.out = tensor_rows(op.out, 0, ROWS);
        op.lse = tensor_columns(op.lse, 0, ROWS);
        out = op.out.data;
        memcpy(first, out, bytes); /* the memory after the rows */
        machine_run(machines->backends[m], run_attention, &op);
        assert_memory_equal(out + kept, first + kept, bytes - kept);
        memcpy(first, out, kept);
        break_rows(&c, ROWS);
        machine_run(machines->backends[m], run_attention, &op);
        assert_memory_equal(out, first, bytes);
        for (size_t h = 0; h < 2; h++)
            assert_true(isfinite(((float *)op.lse.data)[h * op.lse.stride + ROWS - 1]));
        case_close(&c);
        free(first);
    }
}

/* Return whether row `row` of a result and those before it are finite. */
static bool is_finite_to(struct operand *operand, size_t row)
{
    operand_read(operand);
    for (size_t n = 0; n < (row + 1) * operand->tensor.cols; n++)
        if (!isfinite(operand->real[n]))
            return false;
    return true;
}

/* Nor are they by the gradients, which may have other bits each time. */
static void test_attention_backward_stays_within_its_rows(void **state)
{
    enum { ROWS = 151, ALL = 215 };
    static const struct shape shape = { FORMAT_BF16, 2, 1,
                                        64,          0, { 0, 100, ROWS, 152, ALL } };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct attention_case c;
        struct op_attention_backward op;

        case_open(&c, &shape);
        for (size_t i = 3; i <= runs_of(&shape); i++)
            c.offsets[i] = ROWS;
        op = case_backward(&c);
        op.forward.longest = 0;
        op.forward.q = tensor_rows(op.forward.q, 0, ROWS);
        op.forward.k = tensor_rows(op.forward.k, 0, ROWS);
        op.forward.v = tensor_rows(op.forward.v, 0, ROWS);
        op.forward.out = tensor_rows(op.forward.out, 0, ROWS);
        op.forward.lse = tensor_columns(op.forward.lse, 0, ROWS);
        op.dout = tensor_rows(op.dout, 0, ROWS);
        op.dq = tensor_rows(op.dq, 0, ROWS);
        op.dk = tensor_rows(op.dk, 0, ROWS);
        op.dv = tensor_rows(op.dv, 0, ROWS);
        op.delta = tensor_columns(op.delta, 0, ROWS);
        machine_run(machines->backends[m], run_attention, &op.forward);
        break_rows(&c, ROWS);
        for (size_t n = ROWS * c.dout.tensor.cols; n < c.dout.numbers; n++)
            c.dout.real[n] = NAN;
        operand_write(&c.dout);
        machine_run(machines->backends[m], run_attention_backward, &op);
        assert_true(is_finite_to(&c.dq, ROWS - 1) && is_finite_to(&c.dk, ROWS - 1) &&
                    is_finite_to(&c.dv, ROWS - 1));
        for (size_t i = 0; i < 3; i++) {
            const struct operand *result = i == 0 ? &c.dq : i == 1 ? &c.dk : &c.dv;

            for (size_t n = ROWS * result->tensor.cols; n < result->numbers; n++)
                assert_true(result->real[n] == 7);
        }
        case_close(&c);
    }
}

/* Return results in memory order, one after the other; *bytes of them. */
static unsigned char *results_of(const struct attention_case *c, size_t *bytes)
{
    const struct operand *results[] = { &c->out, &c->lse, &c->dq, &c->dk, &c->dv };
    unsigned char *all;

    *bytes = 0;
    for (size_t i = 0; i < TS_COUNT(results); i++)
        *bytes += results[i]->bytes;
    all = malloc(*bytes);
    for (size_t i = 0, at = 0; i < TS_COUNT(results); at += results[i++]->bytes)
        memcpy(all + at, results[i]->block, results[i]->bytes);
    return all;
}

/* Whether the length of sequences is given exactly, as an upper bound, or not at all: the
 * same bits.  (A GPU takes their tiles in another order; cuDNN is used if they are
 * given.) */
static void test_attention_is_independent_of_length_hints(void **state)
{
    static const struct shape packed[] = {
        /* odd rows: for tensor cores */
        { FORMAT_BF16, 2, 1, 64, 0, { 0, 130, 260, 391 } },
        { FORMAT_FP16, 2, 2, 64, 70, { 0, 20, 276, 276, 300, 301 } },
        { FORMAT_FP16, 1, 1, 256, 0, { 0, 67, 133 } },
    };
    struct machines *machines = *state;
    const char *cudnn = getenv("TRAINSPOOL_CUDNN");

    if (cudnn && strcmp(cudnn, "1") == 0)
        skip();
    for (size_t i = 0; i < TS_COUNT(packed); i++) {
        size_t rows = (size_t)packed[i].offsets[runs_of(&packed[i])], bytes;
        const size_t told[] = { 0, longest_of(&packed[i]), 256, rows, 2 * rows };
        unsigned char *first = NULL;

        for (size_t k = 0; k < TS_COUNT(told); k++) {
            struct attention_case c;
            struct op_attention_backward op;
            unsigned char *now;

            if (told[k] > 0 && told[k] < longest_of(&packed[i]))
                continue;
            case_open(&c, &packed[i]);
            c.op.longest = told[k];
            machine_run(machines->backends[0], run_attention, &c.op);
            op = case_backward(&c);
            machine_run(machines->backends[0], run_attention_backward, &op);
            now = results_of(&c, &bytes);
            if (first)
                assert_memory_equal(now, first, bytes);
            free(first);
            first = now;
            case_close(&c);
        }
        free(first);
    }
}

/* Scores far beyond the range of e^x. */
static void test_attention_of_large_scores_is_finite(void **state)
{
    static const struct shape large[] = { { FORMAT_FP32, 1, 1, 8, 0, { 0, 100 } },
                                          { FORMAT_FP16, 1, 1, 64, 0, { 0, 101 } } };
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(large); i++) {
        struct attention_case c;

        case_open(&c, &large[i]);
        c.op.scale = 1000;
        for (size_t m = 0; m < machines->count; m++) {
            machine_run(machines->backends[m], run_attention, &c.op);
            operand_read(&c.out);
            for (size_t n = 0; n < c.out.numbers; n++)
                assert_true(isfinite(c.out.real[n]));
        }
        case_close(&c);
    }
}

/* Under a cap of 60, weights range from 1 to 2^-173, including values without a normal
 * fp32 number. */
static void test_attention_backward_of_small_weights_is_finite(void **state)
{
    static const struct shape small[] = { { FORMAT_FP32, 1, 1, 8, 0, { 0, 100 } },
                                          { FORMAT_FP16, 1, 1, 64, 0, { 0, 101 } },
                                          { FORMAT_BF16, 1, 1, 128, 0, { 0, 101 } } };
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(small); i++) {
        struct attention_case c;

        case_open_with(&c, &small[i], (struct extra) { .softcap = 60 });
        c.op.scale = 4;
        for (size_t m = 0; m < machines->count; m++) {
            struct operand *results[] = { &c.out, &c.dq, &c.dk, &c.dv };
            struct op_attention_backward op;

            machine_run(machines->backends[m], run_attention, &c.op);
            op = case_backward(&c);
            machine_run(machines->backends[m], run_attention_backward, &op);
            for (size_t k = 0; k < TS_COUNT(results); k++) {
                operand_read(results[k]);
                for (size_t n = 0; n < results[k]->numbers; n++)
                    assert_true(isfinite(results[k]->real[n]));
            }
        }
        case_close(&c);
    }
}

/* Two distant keys have equal scores, far larger than all between: the last query takes
 * half of each.  The part accumulated first must not fade. */
static void try_equal_keys(struct machines *machines, const struct shape *shape,
                           double value)
{
    struct attention_case c;

    case_open(&c, shape);
    for (size_t i = 0; i < c.q.numbers; i++) {
        size_t row = i / c.q.tensor.cols;
        bool is_end = row == 0 || row + 1 == c.q.tensor.rows;

        c.q.real[i] = value;
        c.k.real[i] = is_end ? value : 0;
        c.v.real[i] = row == 0 ? 1 : is_end ? -1 : 0;
    }
    operand_write(&c.q);
    operand_write(&c.k);
    operand_write(&c.v);
    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_attention, &c.op);
        operand_read(&c.out);
        for (size_t i = c.out.numbers - c.out.tensor.cols; i < c.out.numbers; i++)
            assert_true(fabs(c.out.real[i]) < 5e-4);
    }
    case_close(&c);
}

/* Races do not depend on the values that are summed. */
#ifdef UNIT_RACES
enum { EQUAL_KEYS = 1 };
#else
enum { EQUAL_KEYS = 6 };
#endif

static void test_attention_of_long_sequences_keeps_early_terms(void **state)
{
    static const struct shape shapes_long[] = {
        { FORMAT_FP32, 1, 1, 64, 0, { 0, 1025 } },
        { FORMAT_FP16, 1, 1, 64, 0, { 0, 1025 } },
        { FORMAT_BF16, 1, 1, 128, 0, { 0, 1025 } }
    };

    for (size_t i = 0; i < TS_COUNT(shapes_long); i++)
        for (int k = 0; k < EQUAL_KEYS; k++)
            try_equal_keys(*state, &shapes_long[i], 41 + k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention_propagates_nan_and_inf),
        cmocka_unit_test(test_attention_of_16_bits_propagates_nan),
        cmocka_unit_test(test_attention_stays_within_its_rows),
        cmocka_unit_test(test_attention_backward_stays_within_its_rows),
        cmocka_unit_test(test_attention_is_independent_of_length_hints),
        cmocka_unit_test(test_attention_of_large_scores_is_finite),
        cmocka_unit_test(test_attention_backward_of_small_weights_is_finite),
        cmocka_unit_test(test_attention_of_long_sequences_keeps_early_terms),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
