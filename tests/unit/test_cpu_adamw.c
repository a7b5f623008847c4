/* tests/unit/test_cpu_adamw.c - AdamW and SGD updates match torch's. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/random.h"
#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(adamw)
OPERATION(sgd)

static const size_t sizes[] = { 1, 3, 17, 257, 4097, 40003 };

/* Weights, gradient, moments, copy, and the first, third and fourth of these in
 * double. */
struct adamw_case {
    struct operand w, grad, m, v, copy;
    double *real[3];
    struct op_adamw op;
    struct reference_adamw reference;
};

static void case_open(struct adamw_case *c, enum format format, size_t numbers)
{
    c->w = operand_random(format, 1, numbers, 1, 1);
    c->grad = operand_random(format, 1, numbers, 3, 2);
    c->m = operand_filled(format, 1, numbers, 0);
    c->v = operand_filled(format, 1, numbers, 0);
    c->copy = operand_filled(FORMAT_BF16, 1, numbers, 7);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(numbers, sizeof(double));
    memcpy(c->real[0], c->w.real, numbers * sizeof(double));
    c->op = (struct op_adamw) { .w = c->w.tensor,
                                .grad = c->grad.tensor,
                                .m = c->m.tensor,
                                .v = c->v.tensor,
                                .copy = c->copy.tensor,
                                .lr = 0.01,
                                .beta1 = 0.9,
                                .beta2 = 0.999,
                                .eps = 1e-8,
                                .decay = 0.1,
                                .grad_scale = 0.25 };
    c->reference = (struct reference_adamw) {
        .numbers = numbers,
        .grad = c->grad.real,
        .w = c->real[0],
        .m = c->real[1],
        .v = c->real[2],
        .lr = c->op.lr,
        .beta1 = c->op.beta1,
        .beta2 = c->op.beta2,
        .eps = c->op.eps,
        .decay = c->op.decay,
        .grad_scale = c->op.grad_scale,
    };
}

static void case_close(struct adamw_case *c)
{
    struct operand *operands[] = { &c->w, &c->grad, &c->m, &c->v, &c->copy };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
}

/* A new gradient; the results of this step become the start of the next. */
static void case_next(struct adamw_case *c, int64_t step)
{
    c->op.step = c->reference.step = step;
    for (size_t i = 0; i < c->grad.numbers; i++)
        c->grad.real[i] = c->grad.real[i] * -0.75 + sin((double)(i + (size_t)step));
    operand_write(&c->grad);
    reference_adamw(&c->reference);
    memcpy(c->w.initial, c->w.block, c->w.bytes);
    memcpy(c->m.initial, c->m.block, c->m.bytes);
    memcpy(c->v.initial, c->v.block, c->v.bytes);
}

static void test_adamw_steps_follow_the_formula(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct adamw_case c;

        case_open(&c, FORMAT_FP32, sizes[i]);
        for (int64_t step = 1; step <= 5; step++) {
            case_next(&c, step);
            machines_try(*state, run_adamw, &c.op,
                         (struct outcome[]) { { &c.w, c.real[0], 8, 0 },
                                              { &c.m, c.real[1], 8, 0 },
                                              { &c.v, c.real[2], 8, 0 },
                                              { &c.copy, c.real[0], 8, 0 } },
                         4);
        }
        case_close(&c);
    }
}

/* The moments follow from the rounded ones, so each step is checked separately. */
static void test_adamw_of_16_bits_rounds_once(void **state)
{
    static const enum format formats[] = { FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct adamw_case c;

        case_open(&c, formats[f], 257);
        c.op.eps = c.reference.eps = 1e-3;
        for (int64_t step = 1; step <= 3; step++) {
            memcpy(c.real[0], c.w.real, c.w.numbers * sizeof(double));
            memcpy(c.real[1], c.m.real, c.w.numbers * sizeof(double));
            memcpy(c.real[2], c.v.real, c.w.numbers * sizeof(double));
            case_next(&c, step);
            machines_try(*state, run_adamw, &c.op,
                         (struct outcome[]) { { &c.w, c.real[0], 8, 0 },
                                              { &c.m, c.real[1], 8, 0 },
                                              { &c.v, c.real[2], 8, 0 } },
                         3);
        }
        case_close(&c);
    }
}

static void test_adamw_propagates_nan_and_inf(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];
        struct adamw_case c;

        case_open(&c, FORMAT_FP32, 17);
        ((float *)c.grad.tensor.data)[3] = NAN;
        ((float *)c.grad.tensor.data)[16] = INFINITY;
        c.op.step = 1;
        machine_run(be, run_adamw, &c.op);
        operand_read(&c.w);
        assert_true(isnan(c.w.real[3]) && isnan(c.w.real[16]) && isfinite(c.w.real[4]));
        case_close(&c);
    }
}

static void test_sgd_follows_the_formula(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            struct operand w = operand_random(formats[f], 1, sizes[i], 1, 1);
            struct operand grad = operand_random(formats[f], 1, sizes[i], 1, 2);
            struct operand copy = operand_filled(FORMAT_FP16, 1, sizes[i], 7);
            double *wanted = calloc(w.numbers, sizeof(double));
            struct op_sgd op = { .w = w.tensor,
                                 .grad = grad.tensor,
                                 .copy = copy.tensor,
                                 .lr = 0.1,
                                 .decay = 0.2,
                                 .grad_scale = 0.5 };

            for (size_t k = 0; k < w.numbers; k++)
                wanted[k] = w.real[k] - 0.1 * (0.5 * grad.real[k] + 0.2 * w.real[k]);
            machines_try(
                *state, run_sgd, &op,
                (struct outcome[]) { { &w, wanted, 4, 0 }, { &copy, wanted, 4, 0 } }, 2);
            operand_clear(&w);
            operand_clear(&grad);
            operand_clear(&copy);
            free(wanted);
        }
}

/* With the step's values in backend memory: the same bits as with values passed directly;
 * and nothing changes if they say that the step is skipped. */
static void test_adamw_reads_the_values_of_its_step(void **state)
{
    struct adamw_case c, told;
    struct step_scalars *numbers = machines_memory(sizeof(*numbers));

    *numbers = (struct step_scalars) {
        .learning_rate = 0.25, .factor = 0.125, .step = 3, .finite = 1
    };
    case_open(&c, FORMAT_FP32, 40003);
    case_open(&told, FORMAT_FP32, 40003);
    c.op.step = 3;
    told.op.numbers = numbers;
    told.op.step = 77;
    told.op.lr /= numbers->learning_rate;
    told.op.grad_scale /= numbers->factor;
    for (int i = 0; i < 2; i++) {
        struct adamw_case *this = i ? &told : &c;

        machines_try(*state, run_adamw, &this->op,
                     (struct outcome[]) { { .operand = &this->w },
                                          { .operand = &this->m },
                                          { .operand = &this->v },
                                          { .operand = &this->copy } },
                     4);
    }
    assert_memory_equal(c.w.block, told.w.block, c.w.bytes);
    assert_memory_equal(c.m.block, told.m.block, c.m.bytes);
    assert_memory_equal(c.v.block, told.v.block, c.v.bytes);
    assert_memory_equal(c.copy.block, told.copy.block, c.copy.bytes);
    numbers->finite = 0;
    numbers->factor = NAN;
    machines_try(*state, run_adamw, &told.op,
                 (struct outcome[]) { { .operand = &told.w },
                                      { .operand = &told.m },
                                      { .operand = &told.v },
                                      { .operand = &told.copy } },
                 4);
    assert_memory_equal(told.w.initial, told.w.block, c.w.bytes);
    assert_memory_equal(told.m.initial, told.m.block, c.m.bytes);
    assert_memory_equal(told.v.initial, told.v.block, c.v.bytes);
    assert_memory_equal(told.copy.initial, told.copy.block, c.copy.bytes);
    case_close(&c);
    case_close(&told);
    machines_memory_free(numbers);
}

/* An SGD step from 0 to any value: only the rounding matters for the stored result. */
struct rounding_case {
    struct operand w, grad;
    struct op_sgd op;
    struct step_scalars *numbers;
};

static void rounding_open(struct rounding_case *c, enum format format, size_t numbers)
{
    c->w = operand_filled(format, 1, numbers, 0);
    c->grad = operand_filled(FORMAT_FP32, 1, numbers, 0);
    c->numbers = machines_memory(sizeof(*c->numbers));
    c->op = (struct op_sgd) { .w = c->w.tensor,
                              .grad = c->grad.tensor,
                              .lr = 1,
                              .grad_scale = -1,
                              .stochastic = true,
                              .seed = 5 + ((uint64_t)7 << 40),
                              .first = ((uint64_t)1 << 34) - 3 };
}

static void rounding_close(struct rounding_case *c)
{
    operand_clear(&c->w);
    operand_clear(&c->grad);
    machines_memory_free(c->numbers);
}

/* As defined in kernels/ops.h, in double. */
static double rounded(enum format format, double x, uint32_t draw)
{
    const struct format_info *info = format_info(format);
    double size = fabs(x), gap, below;

    if (!isfinite(x))
        return x;
    gap = info->min_subnormal;
    if (size >= info->min_normal)
        gap = ldexp(info->epsilon, ilogb(size));
    below = floor(size / gap) * gap;
    if (floor((size - below) / gap * 0x1p16) + (draw >> 16) >= 0x1p16)
        below += gap;
    return copysign(below > info->max ? INFINITY : below, x);
}

/* Values of every magnitude, and the boundaries where formats change. */
static void rounding_fill(struct operand *grad)
{
    static const float places[] = {
        0,          -0.0f,     INFINITY,        -INFINITY,
        NAN,        0x1p-14f,  0x1.fffffep-15f, 0x1p-24f,
        0x1.8p-25f, 0x1p-30f,  0x1p-126f,       0x1.fffffcp-127f,
        0x1p-133f,  0x1p-149f, 65504,           65519.996f,
        65535.996f, 65536,     3e38f,           0x1.fffffep127f
    };

    for (size_t i = 0; i < grad->numbers; i++)
        if (i < TS_COUNT(places))
            grad->real[i] = (double)places[i];
        else
            grad->real[i] = ldexp(sin((double)i), (int)(i % 60) - 40);
    operand_write(grad);
}

static void test_stochastic_rounding_follows_its_definition(void **state)
{
    static const enum format formats[] = { FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++)
            for (int told = 0; told < 2; told++) {
                struct rounding_case c;
                int64_t step = ((int64_t)1 << 33) + 3;

                rounding_open(&c, formats[f], sizes[i]);
                rounding_fill(&c.grad);
                c.op.step = told ? 1 : step;
                *c.numbers = (struct step_scalars) {
                    .learning_rate = 1, .factor = 1, .finite = 1, .step = step
                };
                c.op.numbers = told ? c.numbers : NULL;
                machines_try(*state, run_sgd, &c.op,
                             &(struct outcome) { .operand = &c.w }, 1);
                for (size_t k = 0; k < c.w.numbers; k++) {
                    double wanted = rounded(formats[f], c.grad.real[k],
                                            random_bits(c.op.seed, RANDOM_ROUNDING,
                                                        (uint32_t)step, c.op.first + k));

                    if (isnan(wanted) ? !isnan(c.w.real[k]) : c.w.real[k] != wanted)
                        fail_msg("element %zu: %a became %a, not %a", k, c.grad.real[k],
                                 c.w.real[k], wanted);
                }
                rounding_close(&c);
            }
}

/* The draws of a weight do not depend on the operation that contains it. */
static void test_stochastic_rounding_is_independent_of_splitting(void **state)
{
    struct machines *machines = *state;
    struct backend *be = machines->backends[1];
    struct rounding_case whole, split;
    size_t cut = 40003 / 3;

    rounding_open(&whole, FORMAT_BF16, 40003);
    rounding_open(&split, FORMAT_BF16, 40003);
    rounding_fill(&whole.grad);
    rounding_fill(&split.grad);
    machine_run(be, run_sgd, &whole.op);
    split.op.w = tensor_columns(split.w.tensor, 0, cut);
    split.op.grad = tensor_columns(split.grad.tensor, 0, cut);
    split.op.w.stride = split.op.grad.stride = cut;
    machine_run(be, run_sgd, &split.op);
    split.op.w = tensor_columns(split.w.tensor, cut, 40003 - cut);
    split.op.grad = tensor_columns(split.grad.tensor, cut, 40003 - cut);
    split.op.w.stride = split.op.grad.stride = 40003 - cut;
    split.op.first += cut;
    machine_run(be, run_sgd, &split.op);
    assert_memory_equal(whole.w.block, split.w.block, whole.w.bytes);
    rounding_close(&whole);
    rounding_close(&split);
}

/* The mean of many draws is the exact value: 5 standard deviations of a draw between two
 * neighbors. */
static void test_stochastic_rounding_is_unbiased(void **state)
{
    enum { NUMBERS = 1000, STEPS = 400 };
    static const enum format formats[] = { FORMAT_BF16, FORMAT_FP16 };
    static const double values[] = { 1.001, -3.3, 0x1.000004p-20, 1e-7, 1e-3 };
    struct machines *machines = *state;

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t v = 0; v < TS_COUNT(values); v++) {
            struct backend *be = machines->backends[v % machines->count];
            struct rounding_case c;
            double sum = 0, gap, size = fabs((double)(float)values[v]);
            const struct format_info *info = format_info(formats[f]);

            rounding_open(&c, formats[f], NUMBERS);
            for (size_t i = 0; i < NUMBERS; i++)
                c.grad.real[i] = values[v];
            operand_write(&c.grad);
            for (c.op.step = 1; c.op.step <= STEPS; c.op.step++) {
                memcpy(c.w.block, c.w.initial, c.w.bytes);
                machine_run(be, run_sgd, &c.op);
                operand_read(&c.w);
                for (size_t i = 0; i < NUMBERS; i++)
                    sum += fabs(c.w.real[i]) - size;
            }
            gap = fmax(ldexp(info->epsilon, ilogb(size)), info->min_subnormal);
            /* 16 bits of a draw resolve 2^-16 of the gap */
            assert_true(fabs(sum) <=
                        gap * (2.5 * sqrt(NUMBERS * STEPS) + 0x1p-16 * NUMBERS * STEPS));
            rounding_close(&c);
        }
}

/* Rounding to nearest loses updates of a thousandth of bf16's gap at 1; stochastic
 * rounding does not. */
static void test_stochastic_steps_are_not_lost(void **state)
{
    enum { NUMBERS = 4096, STEPS = 200 };
    struct machines *machines = *state;
    struct backend *be = machines->backends[0];
    double mean[2] = { 0 };

    for (int stochastic = 0; stochastic < 2; stochastic++) {
        struct adamw_case c;

        case_open(&c, FORMAT_BF16, NUMBERS);
        for (size_t i = 0; i < NUMBERS; i++)
            c.w.real[i] = c.grad.real[i] = 1;
        operand_write(&c.w);
        operand_write(&c.grad);
        c.op.lr = 0x1p-17;
        c.op.decay = 0;
        c.op.stochastic = stochastic;
        for (c.op.step = 1; c.op.step <= STEPS; c.op.step++)
            machine_run(be, run_adamw, &c.op);
        operand_read(&c.w);
        for (size_t i = 0; i < NUMBERS; i++)
            mean[stochastic] += c.w.real[i] / NUMBERS;
        case_close(&c);
    }
    assert_true(mean[0] == 1);
    /* a weight wanders by sqrt(200 / 512) gaps of 2^-8: 5 deviations of the mean of 4096;
     * and the moments, rounded to bf16, give a step within 2^-7 of its size */
    assert_true(fabs(mean[1] - (1 - STEPS * 0x1p-17)) <
                5 * 0x1p-8 * sqrt(STEPS / 512.0 / NUMBERS) + STEPS * 0x1p-17 * 0x1p-7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_steps_follow_the_formula),
        cmocka_unit_test(test_adamw_of_16_bits_rounds_once),
        cmocka_unit_test(test_adamw_propagates_nan_and_inf),
        cmocka_unit_test(test_sgd_follows_the_formula),
        cmocka_unit_test(test_adamw_reads_the_values_of_its_step),
        cmocka_unit_test(test_stochastic_rounding_follows_its_definition),
        cmocka_unit_test(test_stochastic_rounding_is_independent_of_splitting),
        cmocka_unit_test(test_stochastic_rounding_is_unbiased),
        cmocka_unit_test(test_stochastic_steps_are_not_lost),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
