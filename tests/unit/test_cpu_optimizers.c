/* tests/unit/test_cpu_optimizers.c - updates of Lion and of optimizers with moments in 8
 * bits match their formulas. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "precision/dynamic_map.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit_optimizers.h"

OPERATION(adamw_8bit)
OPERATION(lion)
OPERATION(lion_8bit)

static const size_t sizes[] = { 1, 3, 255, 256, 257, 4097, 40003 };

enum { MOMENTS = 2 };

/* Memory of codes and of absmax that all machines can use. */
struct codes {
    uint8_t *codes;
    float *absmax;
    double *real; /* moments, exact after the last step */
};

struct case_8bit {
    size_t numbers;
    struct operand w, grad, copy;
    double *real; /* weights */
    struct codes moments[MOMENTS], initial[MOMENTS];
    struct op_adamw_8bit op;
    bool lion;
};

static struct codes codes_new(size_t numbers)
{
    return (struct codes) {
        machines_memory(numbers),
        machines_memory(dynamic_blocks(numbers) * sizeof(float)),
        calloc(numbers, sizeof(double)),
    };
}

static void codes_copy(struct codes *to, const struct codes *from, size_t numbers)
{
    memcpy(to->codes, from->codes, numbers);
    memcpy(to->absmax, from->absmax, dynamic_blocks(numbers) * sizeof(float));
}

static void codes_free(struct codes *codes)
{
    machines_memory_free(codes->codes);
    machines_memory_free(codes->absmax);
    free(codes->real);
}

static void case_open(struct case_8bit *c, enum format format, size_t numbers, bool lion)
{
    *c = (struct case_8bit) {
        .numbers = numbers,
        .w = operand_random(format, 1, numbers, 1, 1),
        .grad = operand_random(FORMAT_FP32, 1, numbers, 3, 2),
        .copy = operand_filled(FORMAT_BF16, 1, numbers, 7),
        .real = calloc(numbers, sizeof(double)),
        .lion = lion,
    };
    for (size_t k = 0; k < MOMENTS; k++) {
        c->moments[k] = codes_new(numbers);
        c->initial[k] = codes_new(numbers);
        memset(c->initial[k].codes, 0, numbers);
        memset(c->initial[k].absmax, 0, dynamic_blocks(numbers) * sizeof(float));
    }
    memcpy(c->real, c->w.real, numbers * sizeof(double));
    c->op = (struct op_adamw_8bit) {
        .w = c->w.tensor,
        .grad = c->grad.tensor,
        .m = tensor_of(c->moments[0].codes, FORMAT_CODES, 1, numbers),
        .v = tensor_of(c->moments[1].codes, FORMAT_CODES, 1, numbers),
        .m_absmax =
            tensor_of(c->moments[0].absmax, FORMAT_FP32, 1, dynamic_blocks(numbers)),
        .v_absmax =
            tensor_of(c->moments[1].absmax, FORMAT_FP32, 1, dynamic_blocks(numbers)),
        .copy = c->copy.tensor,
        .lr = 0.01,
        .beta1 = 0.9,
        .beta2 = lion ? 0.99 : 0.999,
        .eps = 1e-8,
        .decay = 0.1,
        .grad_scale = 0.25,
        .step = 1,
    };
}

static void case_close(struct case_8bit *c)
{
    operand_clear(&c->w);
    operand_clear(&c->grad);
    operand_clear(&c->copy);
    for (size_t k = 0; k < MOMENTS; k++) {
        codes_free(&c->moments[k]);
        codes_free(&c->initial[k]);
    }
    free(c->real);
}

static void run(struct backend *be, struct case_8bit *c)
{
    const struct op_adamw_8bit *op = &c->op;
    const struct op_lion_8bit lion = { op->w,          op->grad,  op->m,
                                       op->m_absmax,   op->copy,  op->lr,
                                       op->beta1,      op->beta2, op->decay,
                                       op->grad_scale, op->step,  op->numbers,
                                       op->stochastic, op->seed,  op->first };

    for (size_t k = 0; k < MOMENTS; k++)
        codes_copy(&c->moments[k], &c->initial[k], c->numbers);
    memcpy(c->w.block, c->w.initial, c->w.bytes);
    memcpy(c->copy.block, c->copy.initial, c->copy.bytes);
    if (c->lion)
        machine_run(be, run_lion_8bit, &lion);
    else
        machine_run(be, run_adamw_8bit, op);
    operand_read(&c->w);
    operand_read(&c->copy);
}

/* Compute the exact moments after the step, from the codes before it, and the weights. */
static void step_exactly(struct case_8bit *c)
{
    const struct op_adamw_8bit *op = &c->op;
    struct dynamic_map maps[MOMENTS];

    dynamic_map_fill(&maps[0], true);
    dynamic_map_fill(&maps[1], false);
    for (size_t i = 0; i < c->numbers; i++) {
        double g = op->grad_scale * c->grad.real[i], was[MOMENTS], w = c->real[i];

        for (size_t k = 0; k < MOMENTS; k++)
            was[k] = (double)maps[k].values[c->initial[k].codes[i]] *
                     (double)c->initial[k].absmax[i / DYNAMIC_BLOCK];
        w -= op->lr * op->decay * w;
        if (c->lion) {
            double mean = op->beta1 * was[0] + (1 - op->beta1) * g;

            w -= op->lr * ((mean > 0) - (mean < 0));
            c->moments[0].real[i] = op->beta2 * was[0] + (1 - op->beta2) * g;
        } else {
            c->moments[0].real[i] = op->beta1 * was[0] + (1 - op->beta1) * g;
            c->moments[1].real[i] = op->beta2 * was[1] + (1 - op->beta2) * g * g;
            w -= op->lr / (1 - pow(op->beta1, (double)op->step)) * c->moments[0].real[i] /
                 (sqrt(c->moments[1].real[i] / (1 - pow(op->beta2, (double)op->step))) +
                  op->eps);
        }
        c->real[i] = w;
    }
}

/* Every absmax is that of its block, every code is that of a nearest value. */
static void check_codes(const struct codes *codes, size_t numbers, bool has_sign)
{
    struct dynamic_map map;

    dynamic_map_fill(&map, has_sign);
    for (size_t first = 0; first < numbers; first += DYNAMIC_BLOCK) {
        size_t end = size_min(first + DYNAMIC_BLOCK, numbers);
        double most = 0, absmax = (double)codes->absmax[first / DYNAMIC_BLOCK];

        for (size_t i = first; i < end; i++)
            most = fmax(most, fabs(codes->real[i]));
        assert_true(fabs(absmax - most) <= most * 8 * 0x1p-23);
        for (size_t i = first; i < end; i++) {
            uint8_t best = dynamic_code(map.between, (float)(codes->real[i] / most));
            double off =
                fabs((double)map.values[codes->codes[i]] * most - codes->real[i]);
            double least = fabs((double)map.values[best] * most - codes->real[i]);

            if (!(off <= least + most * 8 * 0x1p-23))
                fail_msg("element %zu: %a has code %d of %a", i, codes->real[i],
                         codes->codes[i], most);
        }
    }
}

/* A moment may be many times the root of the other, whose code is that of 0: the error is
 * relative to the update, then. */
static void check_weights(const struct case_8bit *c)
{
    double epsilon = format_info(c->w.tensor.format)->epsilon;

    for (size_t i = 0; i < c->numbers; i++) {
        double size = fabs(c->real[i]), off = 8 * 0x1p-23 * fmax(size, 1);

        assert_true(fabs(c->w.real[i] - c->real[i]) <= size * epsilon / 2 + off);
        assert_true(fabs(c->copy.real[i] - c->real[i]) <= size * 0x1p-8 + off);
    }
}

static void try_steps(struct machines *machines, enum format format, bool lion)
{
    size_t count = machines->slow ? TS_COUNT(sizes) - 1 : TS_COUNT(sizes);

    for (size_t m = 0; m < machines->count; m++)
        for (size_t i = 0; i < count; i++) {
            struct case_8bit c;

            case_open(&c, format, sizes[i], lion);
            for (c.op.step = 1; c.op.step <= 3; c.op.step++) {
                run(machines->backends[m], &c);
                step_exactly(&c);
                check_weights(&c);
                check_codes(&c.moments[0], c.numbers, true);
                if (!lion)
                    check_codes(&c.moments[1], c.numbers, false);
                memcpy(c.w.initial, c.w.block, c.w.bytes);
                memcpy(c.real, c.w.real, c.numbers * sizeof(double));
                for (size_t k = 0; k < MOMENTS; k++)
                    codes_copy(&c.initial[k], &c.moments[k], c.numbers);
                for (size_t k = 0; k < c.numbers; k++)
                    c.grad.real[k] =
                        sin((double)(k + (size_t)c.op.step)) * pow(10, -(double)(k % 8));
                operand_write(&c.grad);
                operand_read(&c.grad);
            }
            case_close(&c);
        }
}

static void test_adamw_8bit_follows_the_formula(void **state)
{
    try_steps(*state, FORMAT_FP32, false);
    try_steps(*state, FORMAT_BF16, false);
}

static void test_lion_8bit_follows_the_formula(void **state)
{
    try_steps(*state, FORMAT_FP32, true);
    try_steps(*state, FORMAT_FP16, true);
}

/* The first machines differ in threads only. */
static void test_8bit_steps_are_the_same_with_any_threads(void **state)
{
    struct machines *machines = *state;

    for (int stochastic = 0; stochastic < 2; stochastic++)
        for (size_t m = 1; m < machines->alike; m++) {
            struct case_8bit a, b;

            case_open(&a, stochastic ? FORMAT_BF16 : FORMAT_FP32, 40003, false);
            case_open(&b, stochastic ? FORMAT_BF16 : FORMAT_FP32, 40003, false);
            a.op.stochastic = b.op.stochastic = stochastic;
            a.op.first = b.op.first = 512;
            run(machines->backends[0], &a);
            run(machines->backends[m], &b);
            assert_memory_equal(a.w.block, b.w.block, a.w.bytes);
            assert_memory_equal(a.moments[0].codes, b.moments[0].codes, a.numbers);
            assert_memory_equal(a.moments[1].codes, b.moments[1].codes, a.numbers);
            case_close(&a);
            case_close(&b);
        }
}

/* Ranks divide parameters between blocks. */
static void test_8bit_steps_do_not_depend_on_splitting(void **state)
{
    enum { NUMBERS = 4097, CUT = 1024 };
    struct machines *machines = *state;
    struct backend *be = machines->backends[machines->count - 1];
    struct case_8bit whole, split;

    case_open(&whole, FORMAT_BF16, NUMBERS, false);
    case_open(&split, FORMAT_BF16, NUMBERS, false);
    whole.op.stochastic = split.op.stochastic = true;
    run(be, &whole);
    for (int part = 0; part < 2; part++) {
        struct op_adamw_8bit op = split.op;
        size_t first = part ? CUT : 0, count = part ? NUMBERS - CUT : CUT;
        struct tensor *each[] = { &op.w, &op.grad, &op.m, &op.v, &op.copy };

        for (size_t i = 0; i < TS_COUNT(each); i++) {
            *each[i] = tensor_columns(*each[i], first, count);
            each[i]->stride = count;
        }
        op.m_absmax = tensor_columns(op.m_absmax, first / 256, dynamic_blocks(count));
        op.v_absmax = tensor_columns(op.v_absmax, first / 256, dynamic_blocks(count));
        op.first += first;
        if (part == 0)
            for (size_t k = 0; k < MOMENTS; k++)
                codes_copy(&split.moments[k], &split.initial[k], NUMBERS);
        machine_run(be, run_adamw_8bit, &op);
    }
    assert_memory_equal(whole.w.block, split.w.block, whole.w.bytes);
    assert_memory_equal(whole.moments[0].codes, split.moments[0].codes, NUMBERS);
    assert_memory_equal(whole.moments[1].codes, split.moments[1].codes, NUMBERS);
    case_close(&whole);
    case_close(&split);
}

/* Nothing changes if the step is skipped; its scalars replace the settings. */
static void test_8bit_steps_read_the_values_of_their_step(void **state)
{
    struct machines *machines = *state;
    struct step_scalars *numbers = machines_memory(sizeof(*numbers));

    for (size_t m = 0; m < machines->count; m++)
        for (int lion = 0; lion < 2; lion++) {
            struct case_8bit plain, given;

            case_open(&plain, FORMAT_FP32, 4097, lion);
            case_open(&given, FORMAT_FP32, 4097, lion);
            *numbers = (struct step_scalars) {
                .learning_rate = 0.25, .factor = 0.125, .step = 3, .finite = 1
            };
            plain.op.step = 3;
            given.op.numbers = numbers;
            given.op.step = 77;
            given.op.lr /= numbers->learning_rate;
            given.op.grad_scale /= numbers->factor;
            run(machines->backends[m], &plain);
            run(machines->backends[m], &given);
            assert_memory_equal(plain.w.block, given.w.block, plain.w.bytes);
            assert_memory_equal(plain.moments[0].codes, given.moments[0].codes, 4097);
            numbers->finite = 0;
            run(machines->backends[m], &given);
            assert_memory_equal(given.w.initial, given.w.block, given.w.bytes);
            assert_memory_equal(given.initial[0].codes, given.moments[0].codes, 4097);
            case_close(&plain);
            case_close(&given);
        }
    machines_memory_free(numbers);
}

static void test_lion_follows_the_formula(void **state)
{
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(sizes); i++) {
            size_t n = sizes[i];
            struct operand w = operand_random(formats[f], 1, n, 1, 1);
            struct operand grad = operand_random(FORMAT_FP32, 1, n, 1, 2);
            struct operand m =
                operand_random(f == 1 ? FORMAT_FP32 : formats[f], 1, n, 1, 3);
            struct operand copy = operand_filled(FORMAT_BF16, 1, n, 7);
            double *wanted = calloc(n, sizeof(double)), *mean = calloc(n, sizeof(double));
            struct op_lion op = { .w = w.tensor,
                                  .grad = grad.tensor,
                                  .m = m.tensor,
                                  .copy = copy.tensor,
                                  .lr = 0.1,
                                  .beta1 = 0.9,
                                  .beta2 = 0.99,
                                  .decay = 0.2,
                                  .grad_scale = 0.5 };

            for (size_t k = 0; k < n; k++) {
                double g = 0.5 * grad.real[k], sum = 0.9 * m.real[k] + 0.1 * g;

                wanted[k] = w.real[k] * (1 - 0.1 * 0.2) - 0.1 * ((sum > 0) - (sum < 0));
                mean[k] = 0.99 * m.real[k] + 0.01 * g;
            }
            machines_try(*state, run_lion, &op,
                         (struct outcome[]) { { &w, wanted, 4, 0 },
                                              { &m, mean, 4, 0 },
                                              { &copy, wanted, 4, 0 } },
                         3);
            operand_clear(&w);
            operand_clear(&grad);
            operand_clear(&m);
            operand_clear(&copy);
            free(wanted);
            free(mean);
        }
}

/* A rounding difference may move a moment across a midpoint: 1 in 500 codes, to a neighbor.
 * They then differ by a step, which later updates keep. */
static void golden_codes(const json_t *row, int moment, const struct codes *codes,
                         size_t numbers)
{
    char name[2][16];
    const char *text;
    double *absmax = calloc(dynamic_blocks(numbers), sizeof(double));
    size_t others = 0;

    snprintf(name[0], sizeof(name[0]), "state%d", moment);
    snprintf(name[1], sizeof(name[1]), "absmax%d", moment);
    text = json_string_value(json_object_get(row, name[0]));
    assert_int_equal(strlen(text), 2 * numbers);
    for (size_t i = 0; i < numbers; i++) {
        const char digits[] = { text[2 * i], text[2 * i + 1], '\0' };
        long wanted = strtol(digits, NULL, 16), off = labs(wanted - codes->codes[i]);

        assert_true(off <= 1);
        others += off != 0;
    }
    assert_true(others <= numbers / 500);
    for (size_t i = 0; i < dynamic_blocks(numbers); i++)
        absmax[i] = (double)codes->absmax[i];
    golden_near(json_object_get(row, name[1]), absmax, 1, 16);
    free(absmax);
}

static void check_golden_8bit(struct backend *be, bool lion)
{
    json_t *row = golden_case(lion ? "lion_8bit" : "adamw_8bit");
    struct case_8bit c;

    case_open(&c, FORMAT_FP32, 5000, lion);
    golden_fill(&c.w, 100);
    c.op.grad_scale = 1;
    for (int step = 0; step < GOLDEN_STEPS; step++) {
        golden_fill(&c.grad, (uint64_t)step + 1);
        c.op.lr = golden_rates[step];
        c.op.step = step + 1;
        run(be, &c);
        memcpy(c.w.initial, c.w.block, c.w.bytes);
        for (size_t k = 0; k < MOMENTS; k++)
            codes_copy(&c.initial[k], &c.moments[k], c.numbers);
    }
    golden_codes(row, 1, &c.moments[0], c.numbers);
    if (!lion)
        golden_codes(row, 2, &c.moments[1], c.numbers);
    golden_near(json_object_get(row, "w"), c.w.real, 7, 16);
    case_close(&c);
    json_decref(row);
}

static void test_8bit_steps_are_those_of_bitsandbytes(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++)
        for (int lion = 0; lion < 2; lion++)
            check_golden_8bit(machines->backends[m], lion);
}

static void test_maps_of_codes_are_those_of_bitsandbytes(void **state)
{
    json_t *row = golden_case("maps");

    (void)state;
    for (int has_sign = 0; has_sign < 2; has_sign++) {
        const json_t *wanted = json_object_get(row, has_sign ? "signed" : "unsigned");
        float map[DYNAMIC_CODES];

        dynamic_map(has_sign, map);
        assert_int_equal(json_array_size(wanted), DYNAMIC_CODES);
        for (size_t i = 0; i < DYNAMIC_CODES; i++)
            assert_true(map[i] ==
                        strtof(json_string_value(json_array_get(wanted, i)), NULL));
    }
    json_decref(row);
}

static void test_lion_steps_are_those_of_lion_pytorch(void **state)
{
    struct machines *machines = *state;
    json_t *row = golden_case("lion");

    for (size_t k = 0; k < machines->count; k++) {
        struct operand w = operand_filled(FORMAT_FP32, 1, 300, 0);
        struct operand grad = operand_filled(FORMAT_FP32, 1, 300, 0);
        struct operand m = operand_filled(FORMAT_FP32, 1, 300, 0);
        struct op_lion op = { .w = w.tensor,
                              .grad = grad.tensor,
                              .m = m.tensor,
                              .beta1 = 0.9,
                              .beta2 = 0.99,
                              .decay = 0.1,
                              .grad_scale = 1 };

        golden_fill(&w, 100);
        for (int step = 0; step < GOLDEN_STEPS; step++) {
            golden_fill(&grad, (uint64_t)step + 1);
            op.lr = golden_rates[step];
            op.step = step + 1;
            machine_run(machines->backends[k], run_lion, &op);
        }
        operand_read(&w);
        operand_read(&m);
        golden_near(json_object_get(row, "w"), w.real, 1, 16);
        golden_near(json_object_get(row, "exp_avg"), m.real, 1, 16);
        operand_clear(&w);
        operand_clear(&grad);
        operand_clear(&m);
    }
    json_decref(row);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_adamw_8bit_follows_the_formula),
        cmocka_unit_test(test_lion_8bit_follows_the_formula),
        cmocka_unit_test(test_8bit_steps_are_the_same_with_any_threads),
        cmocka_unit_test(test_8bit_steps_do_not_depend_on_splitting),
        cmocka_unit_test(test_8bit_steps_read_the_values_of_their_step),
        cmocka_unit_test(test_lion_follows_the_formula),
        cmocka_unit_test(test_8bit_steps_are_those_of_bitsandbytes),
        cmocka_unit_test(test_maps_of_codes_are_those_of_bitsandbytes),
        cmocka_unit_test(test_lion_steps_are_those_of_lion_pytorch),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
