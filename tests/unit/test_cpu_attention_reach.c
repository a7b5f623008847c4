/* tests/unit/test_cpu_attention_reach.c - attention and its gradients follow the formula if
 * rows see rows after them: all of their sequence, or those of their block. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_attention_trial.h"

/* The head sizes of encoders: 64, 72, 80; sequences that begin and end inside a tile; one
 * of many short ones, as windows of an image are. */
static const struct shape shapes[] = {
    { FORMAT_FP32, 1, 1, 8, 0, { 0, 1 } },
    { FORMAT_FP32, 2, 1, 16, 0, { 0, 3, 67 } },
    { FORMAT_FP32, 2, 2, 64, 0, { 0, 64, 192 } },
    { FORMAT_FP32, 1, 1, 72, 0, { 0, 40, 257 } },
    { FORMAT_FP32, 2, 1, 80, 0, { 0, 16, 80, 144, 208, 224, 260 } },
    { FORMAT_FP32, 2, 1, 8, 50, { 0, 10, 257 } },
    { FORMAT_FP32, 1, 1, 6, 3, { 0, 200 } },
    { FORMAT_FP32, 1, 1, 256, 40, { 0, 70 } },
    { FORMAT_BF16, 2, 2, 64, 0, { 0, 50, 199 } },
    { FORMAT_BF16, 3, 1, 80, 0, { 0, 1, 2, 5, 70, 71, 257 } },
    { FORMAT_BF16, 1, 1, 5, 30, { 0, 67 } },
    { FORMAT_BF16, 2, 1, 256, 33, { 0, 131 } },
    { FORMAT_FP16, 4, 2, 20, 33, { 0, 40, 150 } },
    /* An odd number of rows: operands that tensor cores can use. */
    { FORMAT_FP16, 2, 2, 72, 0, { 0, 129, 201 } },
    { FORMAT_FP16, 2, 1, 32, 0, { 0, 1, 3, 66, 130, 195, 395 } },
    { FORMAT_BF16, 2, 1, 64, 100, { 0, 20, 321 } },
    { FORMAT_BF16, 1, 1, 72, 0, { 0, 257 } },
    { FORMAT_FP16, 2, 2, 80, 0, { 0, 64, 128, 192, 192, 256, 267 } },
    { FORMAT_FP16, 4, 1, 128, 64, { 0, 65, 199 } },
    { FORMAT_BF16, 1, 1, 192, 0, { 0, 133 } },
    { FORMAT_FP16, 2, 1, 256, 0, { 0, 67, 199 } },
};

static const enum sight sights[] = { SIGHT_ALL, SIGHT_BLOCKS };

/* On slow machines, one sight for each shape, `first` for the first. */
static void each_sight(struct machines *machines, trial *run, size_t first)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        for (size_t k = 0; k < TS_COUNT(sights); k++)
            if (!machines->slow || (i + k + first) % 2 == 0)
                run(machines, &shapes[i], (struct extra) { .sight = sights[k] });
}

static void test_attention_reaches_later_rows(void **state)
{
    each_sight(*state, try_forward, 0);
}

static void test_attention_backward_reaches_later_rows(void **state)
{
    each_sight(*state, try_backward, 1);
}

/* With dropout, a cap, and biases, which are positive for later keys; head sizes for tensor
 * cores and others. */
static void with_others(struct machines *machines, trial *run)
{
    static const struct extra extras[] = {
        { .p = 0.3f },
        { .softcap = 3 },
        { .slopes = { 8, 1 } },
    };
    static const struct shape some[] = {
        { FORMAT_FP32, 2, 1, 16, 40, { 0, 17, 150 } },
        { FORMAT_FP16, 2, 1, 64, 0, { 0, 70, 203 } },
        { FORMAT_BF16, 2, 2, 128, 70, { 0, 199 } },
    };

    for (size_t i = 0; i < TS_COUNT(some); i++)
        for (size_t k = 0; k < TS_COUNT(extras); k++) {
            struct extra extra = extras[k];

            extra.sight = sights[(i + k) % TS_COUNT(sights)];
            run(machines, &some[i], extra);
        }
}

static void test_attention_reaches_with_other_options(void **state)
{
    with_others(*state, try_forward);
    with_others(*state, try_backward);
}

/* Distances that are all different, and those past the ends, of which the last value is used;
 * in shapes that tensor cores would compute without a bias, too. */
static void test_attention_adds_learned_biases(void **state)
{
    static const struct shape some[] = {
        { FORMAT_FP32, 2, 1, 16, 0, { 0, 17, 150 } },
        { FORMAT_FP32, 3, 3, 80, 0, { 0, 70 } },
        { FORMAT_FP16, 2, 2, 64, 0, { 0, 70, 203 } },
        { FORMAT_BF16, 2, 2, 128, 70, { 0, 199 } },
    };
    static const size_t most[] = { 1, 20, 500 };

    for (size_t i = 0; i < TS_COUNT(some); i++)
        for (size_t k = 0; k < TS_COUNT(most); k++)
            try_forward(*state, &some[i],
                        (struct extra) { .distances = most[k],
                                         .sight = k == 2 ? SIGHT_BEFORE : SIGHT_ALL });
}

/* Causal attention has the same bits whether reach is given or not.  A GPU has more kernels
 * for 16 bits without it. */
static void try_given(struct machines *machines, const struct shape *shape)
{
    for (size_t m = 0; m < machines->count; m++) {
        struct attention_case c[2];

        for (size_t i = 0; i < 2; i++) {
            struct op_attention_backward op;

            case_open_with(
                &c[i], shape,
                (struct extra) { .sight = i ? SIGHT_BEFORE_GIVEN : SIGHT_BEFORE });
            machine_run(machines->backends[m], run_attention, &c[i].op);
            op = case_backward(&c[i]);
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

static void test_attention_is_causal_if_rows_reach_themselves(void **state)
{
    struct machines *machines = *state;
    bool cpu = machines->backends[0]->ops->kind == DEVICE_CPU;

    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        if (cpu || shapes[i].format == FORMAT_FP32)
            try_given(machines, &shapes[i]);
        else if (!machines->slow || i % 2 == 0)
            try_backward(machines, &shapes[i],
                         (struct extra) { .sight = SIGHT_BEFORE_GIVEN });
}

/* A NaN in v reaches the rows of its sequence, which all see it, and no other. */
static void test_attention_keeps_to_its_sequence(void **state)
{
    static const struct shape shape = { FORMAT_FP16, 1, 1, 64, 0, { 0, 130, 205 } };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct attention_case c;

        case_open_with(&c, &shape, (struct extra) { .sight = SIGHT_ALL });
        for (size_t i = 0; i < c.v.tensor.cols; i++)
            c.v.real[129 * c.v.tensor.cols + i] = NAN;
        operand_write(&c.v);
        machine_run(machines->backends[m], run_attention, &c.op);
        operand_read(&c.out);
        for (size_t row = 0; row < 205; row++)
            assert_int_equal(isfinite(c.out.real[row * c.out.tensor.cols]) != 0,
                             row >= 130);
        case_close(&c);
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
    static const struct shape small[] = {
        { FORMAT_FP32, 4, 2, 6, 0, { 0, 1, 9, 12 } },
        { FORMAT_FP32, 2, 2, 4, 3, { 0, 40 } },
    };

    (void)state;
    for (size_t i = 0; i < 2 * TS_COUNT(small); i++) {
        struct attention_case c;

        case_open_with(&c, &small[i / 2], (struct extra) { .sight = sights[i % 2] });
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
        cmocka_unit_test(test_attention_reaches_later_rows),
        cmocka_unit_test(test_attention_backward_reaches_later_rows),
        cmocka_unit_test(test_attention_reaches_with_other_options),
        cmocka_unit_test(test_attention_adds_learned_biases),
        cmocka_unit_test(test_attention_is_causal_if_rows_reach_themselves),
        cmocka_unit_test(test_attention_keeps_to_its_sequence),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
