/*
 * tests/unit/test_cpu_matmul.c - matmuls of all shapes and formats, with oneDNN if
 * available and with our own kernels.
 */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(matmul)

/* The machines with their default kernels, and the same without oneDNN. */
struct both {
    struct machines *machines[2];
};

struct shape {
    size_t rows, cols, depth;
};

/* Properties of a matmul besides its shape. */
struct kind {
    enum format in, out;
    bool trans_a, trans_b, bias;
    float alpha, beta;
};

static const struct {
    enum format in, out;
} formats[] = {
    { FORMAT_FP32, FORMAT_FP32 }, { FORMAT_BF16, FORMAT_FP32 },
    { FORMAT_BF16, FORMAT_BF16 }, { FORMAT_FP16, FORMAT_FP32 },
    { FORMAT_FP16, FORMAT_FP16 },
};

static int both_open(void **state)
{
    struct both *both = calloc(1, sizeof(*both));
    void *machines;

    for (size_t i = 0; i < TS_COUNT(both->machines); i++) {
        setenv("TRAINSPOOL_NO_ONEDNN", i ? "1" : "0", 1);
        machines_open(&machines);
        both->machines[i] = machines;
    }
    *state = both;
    return 0;
}

static int both_close(void **state)
{
    struct both *both = *state;

    for (size_t i = 0; i < TS_COUNT(both->machines); i++) {
        void *machines = both->machines[i];

        machines_close(&machines);
    }
    free(both);
    return 0;
}

struct product {
    struct operand a, b, bias, out;
    double *wanted;
    struct op_matmul op;
};

/* A GPU may round a bias to the format of the result, so it has such values. */
static struct operand bias_random(enum format format, size_t cols)
{
    struct operand bias = operand_random(FORMAT_FP32, 1, cols, 1, 3);
    struct operand narrow = operand_random(format, 1, cols, 1, 3);

    memcpy(bias.real, narrow.real, cols * sizeof(bias.real[0]));
    operand_write(&bias);
    operand_clear(&narrow);
    return bias;
}

static void product_open(struct product *p, const struct kind *kind,
                         const struct shape *shape)
{
    size_t numbers = shape->rows * shape->cols;

    p->a = kind->trans_a ? operand_random(kind->in, shape->depth, shape->rows, 1, 1)
                         : operand_random(kind->in, shape->rows, shape->depth, 1, 1);
    p->b = kind->trans_b ? operand_random(kind->in, shape->cols, shape->depth, 1, 2)
                         : operand_random(kind->in, shape->depth, shape->cols, 1, 2);
    p->bias = bias_random(kind->out, shape->cols);
    p->out = operand_random(kind->out, shape->rows, shape->cols, 1, 4);
    p->wanted = malloc(numbers * sizeof(double));
    memcpy(p->wanted, p->out.real, numbers * sizeof(double));
    p->op = (struct op_matmul) {
        .out = p->out.tensor,
        .a = p->a.tensor,
        .b = p->b.tensor,
        .trans_a = kind->trans_a,
        .trans_b = kind->trans_b,
        .alpha = kind->alpha,
        .beta = kind->beta,
    };
    if (kind->bias)
        p->op.bias = p->bias.tensor;
    reference_matmul(&(struct reference_matmul) {
        shape->rows, shape->cols, shape->depth, p->a.real, p->b.real,
        kind->bias ? p->bias.real : NULL, kind->trans_a, kind->trans_b, kind->alpha,
        kind->beta, p->wanted });
}

static void product_close(struct product *p)
{
    operand_clear(&p->a);
    operand_clear(&p->b);
    operand_clear(&p->bias);
    operand_clear(&p->out);
    free(p->wanted);
}

/*
 * The error of a sum of `depth` products of normal values, as a random walk, is about a
 * tenth of sqrt(depth) epsilons of the largest sum; ten times that never happens by
 * chance.
 * Tensor cores add a block of products to the running sum and truncate what fp32 does not
 * hold instead of rounding (Fasi, Higham, Mikaitis and Pranesh, "Numerical behavior of
 * NVIDIA tensor cores", 2021): every block of 16 loses half an epsilon on average, always
 * toward zero.  On an H100, of 5000 products in one sum, 161.4334 became 161.4314.
 */
static double units_of(const struct machines *machines, const struct kind *kind,
                       size_t depth)
{
    bool truncates = machines->backends[0]->ops->kind == DEVICE_CUDA && !machines->slow &&
                     kind->in != FORMAT_FP32;

    return 1 + sqrt((double)depth) + (truncates ? (double)depth / 32 : 0);
}

static void try_product(struct both *both, const struct kind *kind,
                        const struct shape *shape)
{
    struct product p;

    product_open(&p, kind, shape);
    /* fp16 always uses our own kernels */
    for (size_t i = kind->in == FORMAT_FP16; i < TS_COUNT(both->machines); i++)
        machines_try(
            both->machines[i], run_matmul, &p.op,
            &(struct outcome) { .operand = &p.out,
                                .wanted = p.wanted,
                                .units = units_of(both->machines[i], kind, shape->depth),
                                .least = 1 },
            1);
    product_close(&p);
}

static void try_transposes(struct both *both, struct kind kind, const struct shape *shape)
{
    for (int i = 0; i < 4; i++) {
        kind.trans_a = i & 1;
        kind.trans_b = i & 2;
        try_product(both, &kind, shape);
    }
}

static void test_matmul_matches_the_reference(void **state)
{
    static const size_t sizes[] = { 1, 3, 17, 257 };
    struct kind kind = { .alpha = 1 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < 64; i++) {
            kind.in = formats[f].in;
            kind.out = formats[f].out;
            try_transposes(
                *state, kind,
                &(struct shape) { sizes[i % 4], sizes[i / 4 % 4], sizes[i / 16] });
        }
}

/* Several blocks of k, k split in parts, tiles of the full width, even and odd. */
static void test_matmul_handles_large_depths(void **state)
{
    static const struct shape shapes[] = {
        { 5, 7, 5000 },     { 16, 16, 2048 },  { 48, 200, 4001 },
        { 33, 1000, 1300 }, { 300, 96, 1088 }, { 264, 48, 1311 },
    };
    struct kind kind = { .alpha = 1 };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++) {
            kind.in = formats[f].in;
            kind.out = formats[f].out;
            try_transposes(*state, kind, &shapes[i]);
        }
}

/* The last one has several panels per tile, and several blocks of k. */
static void test_matmul_applies_alpha_beta_and_bias(void **state)
{
    static const struct shape shapes[] = {
        { 17, 100, 40 },
        { 9, 50, 3001 },
        { 280, 33, 64 },
        { 9, 1600, 520 },
    };

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++)
            for (int j = 0; j < 8; j++) {
                struct kind kind = { formats[f].in, formats[f].out, j & 1,
                                     !(j & 1),      j & 2,          0.37f,
                                     j & 4 ? 1 : 0 };

                try_product(*state, &kind, &shapes[i]);
            }
}

/* Rows that start where a GPU's library adds a bias to 16 bits, too. */
static struct operand aligned_random(enum format format, size_t rows, size_t cols,
                                     uint64_t seed)
{
    struct operand x = operand_padded(format, rows, cols, 0);
    struct operand values = operand_random(format, rows, cols, 1, seed);

    memcpy(x.real, values.real, x.numbers * sizeof(x.real[0]));
    operand_write(&x);
    operand_clear(&values);
    return x;
}

static void test_matmul_adds_a_bias_to_aligned_rows(void **state)
{
    enum { ROWS = 40, COLS = 72, DEPTH = 3000 };
    struct both *both = *state;
    static double wanted[ROWS * COLS];

    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct operand a = aligned_random(formats[f].in, ROWS, DEPTH, 1);
        struct operand b = aligned_random(formats[f].in, COLS, DEPTH, 2);
        struct operand bias = bias_random(formats[f].out, COLS);
        struct operand out = operand_padded(formats[f].out, ROWS, COLS, 0);
        const struct kind kind = { .in = formats[f].in };
        const struct op_matmul op = { .out = out.tensor,
                                      .a = a.tensor,
                                      .b = b.tensor,
                                      .bias = bias.tensor,
                                      .trans_b = true,
                                      .alpha = 1 };

        reference_matmul(&(struct reference_matmul) {
            ROWS, COLS, DEPTH, a.real, b.real, bias.real, false, true, 1, 0, wanted });
        machines_try(
            both->machines[1], run_matmul, &op,
            &(struct outcome) { .operand = &out,
                                .wanted = wanted,
                                .units = units_of(both->machines[1], &kind, DEPTH),
                                .least = 1 },
            1);
        operand_clear(&a);
        operand_clear(&b);
        operand_clear(&bias);
        operand_clear(&out);
    }
}

/* With beta 0 the previous contents of out must not matter, not even a NaN. */
static void test_matmul_does_not_read_what_it_overwrites(void **state)
{
    struct both *both = *state;

    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        struct kind kind = { .in = formats[f].in, .out = formats[f].out, .alpha = 1 };
        struct shape shape = { 20, 60, 2500 };
        struct product p;

        product_open(&p, &kind, &shape);
        for (size_t i = 0; i < p.out.numbers; i++)
            p.out.real[i] = NAN;
        operand_write(&p.out);
        for (size_t i = 0; i < TS_COUNT(both->machines); i++)
            machines_try(
                both->machines[i], run_matmul, &p.op,
                &(struct outcome) {
                    .operand = &p.out, .wanted = p.wanted, .units = 50, .least = 1 },
                1);
        product_close(&p);
    }
}

/* One nonfinite value, at k, reaches its row or column, and no other. */
static void try_not_finite(struct machines *machines, const struct kind *kind, size_t k,
                           double value)
{
    struct shape shape = { 19, 70, 33 };
    struct product p;

    product_open(&p, kind, &shape);
    p.a.real[4 * shape.depth + k] = value;
    operand_write(&p.a);
    machines_try(machines, run_matmul, &p.op, &(struct outcome) { .operand = &p.out }, 1);
    for (size_t i = 0; i < p.out.numbers; i++) {
        if (i / shape.cols != 4)
            assert_true(isfinite(p.out.real[i]));
        else if (isnan(value))
            assert_true(isnan(p.out.real[i]));
        else
            assert_true(
                isinf(p.out.real[i]) ||
                (isnan(p.out.real[i]) && p.b.real[k * shape.cols + i % shape.cols] == 0));
    }
    product_close(&p);
}

/* Including the first of k: the element after the odd end of the previous row. */
static void test_matmul_propagates_inf_and_nan(void **state)
{
    static const size_t places[] = { 0, 7 };
    struct both *both = *state;

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(both->machines); i++) {
            struct kind kind = { .in = formats[f].in, .out = formats[f].out, .alpha = 1 };

            for (size_t k = 0; k < TS_COUNT(places); k++) {
                try_not_finite(both->machines[i], &kind, places[k], NAN);
                try_not_finite(both->machines[i], &kind, places[k], INFINITY);
                try_not_finite(both->machines[i], &kind, places[k], -INFINITY);
            }
        }
}

/* A NaN with all bits set: adding one while rounding would turn it into a zero. */
static void test_matmul_keeps_a_nan_with_all_bits_set(void **state)
{
    static const uint32_t bits = 0x7fffffff;
    static const struct shape shape = { 9, 37, 33 };
    enum { COL = 5 };
    struct both *both = *state;

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t m = 0; m < TS_COUNT(both->machines); m++) {
            struct kind kind = {
                .in = formats[f].in, .out = formats[f].out, .bias = true, .alpha = 1
            };
            struct product p;

            product_open(&p, &kind, &shape);
            memcpy((float *)p.bias.tensor.data + COL, &bits, sizeof(bits));
            machines_try(both->machines[m], run_matmul, &p.op,
                         &(struct outcome) { .operand = &p.out }, 1);
            for (size_t i = 0; i < p.out.numbers; i++)
                assert_true(isnan(p.out.real[i]) == (i % shape.cols == COL));
            product_close(&p);
        }
}

static void test_matmul_overflows_to_inf_in_fp16(void **state)
{
    struct both *both = *state;
    struct operand a = operand_filled(FORMAT_FP16, 3, 10, 300);
    struct operand out = operand_filled(FORMAT_FP16, 3, 3, 0);
    struct operand wide = operand_filled(FORMAT_FP32, 3, 3, 0);
    struct op_matmul op = {
        .out = out.tensor, .a = a.tensor, .b = a.tensor, .trans_b = true, .alpha = 1
    };
    struct outcome outcomes[] = { { .operand = &out }, { .operand = &wide } };

    for (size_t i = 0; i < TS_COUNT(both->machines); i++) {
        op.out = out.tensor;
        machines_try(both->machines[i], run_matmul, &op, &outcomes[0], 1);
        op.out = wide.tensor;
        machines_try(both->machines[i], run_matmul, &op, &outcomes[1], 1);
        for (size_t j = 0; j < 9; j++) {
            assert_true(out.real[j] == INFINITY);
            assert_true(wide.real[j] == 900000);
        }
    }
    operand_clear(&a);
    operand_clear(&out);
    operand_clear(&wide);
}

/* b in fp32, with values from subnormal in either format to large. */
static struct operand wide_of(const struct operand *b)
{
    struct operand wide =
        operand_random(FORMAT_FP32, b->tensor.rows, b->tensor.cols, 1, 5);

    for (size_t i = 0; i < wide.numbers; i += 7)
        wide.real[i] *= ldexp(1, -(int)(i % 150));
    operand_write(&wide);
    return wide;
}

static void try_wide(struct machines *machines, const struct kind *kind,
                     const struct shape *shape)
{
    struct operand wide;
    struct product p;

    product_open(&p, kind, shape);
    wide = wide_of(&p.b);
    memcpy(p.b.real, wide.real, wide.numbers * sizeof(double));
    operand_write(&p.b);
    for (size_t i = 0; i < machines->count; i++) {
        struct machines one = { .backends = { machines->backends[i] }, .count = 1 };
        struct outcome outcome = { .operand = &p.out };

        p.op.b = p.b.tensor;
        machines_try(&one, run_matmul, &p.op, &outcome, 1);
        memcpy(p.wanted, p.out.real, p.out.numbers * sizeof(double));
        p.op.b = wide.tensor;
        machines_try(&one, run_matmul, &p.op, &outcome, 1);
        assert_memory_equal(p.out.real, p.wanted, p.out.numbers * sizeof(double));
    }
    operand_clear(&wide);
    product_close(&p);
}

/* An fp32 b with a 16-bit a gives the same bits as if it had been rounded before: whole
 * panels and pairs, and their remainders. */
static void test_matmul_rounds_b(void **state)
{
    static const struct shape shapes[] = {
        { 5, 7, 3 }, { 17, 96, 64 }, { 40, 131, 77 }, { 9, 48, 4001 }, { 70, 1500, 96 },
    };
    struct both *both = *state;

    if (!both->machines[0]->backends[0]->ops->rounds_b)
        skip();
    for (size_t f = 1; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++)
            for (int j = 0; j < 8; j++) {
                struct kind kind = { formats[f].in, formats[f].out, j & 1,
                                     j & 2,         false,          1,
                                     j & 4 ? 1 : 0 };

                for (size_t m = 0; m < TS_COUNT(both->machines); m++)
                    try_wide(both->machines[m], &kind, &shapes[i]);
            }
}

/* The operand after rounding to 8 bits with a single scale. */
static void round_to_8_bits(struct operand *operand, enum format format)
{
    float largest = 0, factor;

    for (size_t i = 0; i < operand->numbers; i++)
        largest = fmaxf(largest, fabsf((float)operand->real[i]));
    factor = (float)format_info(format)->max / largest;
    for (size_t i = 0; i < operand->numbers; i++) {
        float number = (float)operand->real[i] * factor;

        number = format == FORMAT_FP8_E4M3 ? format_from_e4m3(format_to_e4m3(number))
                                           : format_from_e5m2(format_to_e5m2(number));
        operand->real[i] = (double)number / (double)factor;
    }
}

static struct machines with_fp8(const struct machines *all)
{
    struct machines some = { 0 };

    for (size_t i = 0; i < all->count; i++)
        if (machine_has_fp8(all->backends[i])) {
            some.alike += i < all->alike;
            some.backends[some.count++] = all->backends[i];
        }
    return some;
}

static void try_rounded(struct both *both, const struct kind *kind, enum format round_b)
{
    static const struct shape shape = { 19, 70, 330 };
    struct product p;

    product_open(&p, kind, &shape);
    p.op.round_a = FORMAT_FP8_E4M3;
    p.op.round_b = round_b;
    round_to_8_bits(&p.a, FORMAT_FP8_E4M3);
    round_to_8_bits(&p.b, round_b);
    memcpy(p.wanted, p.out.real, p.out.numbers * sizeof(double));
    reference_matmul(&(struct reference_matmul) {
        shape.rows, shape.cols, shape.depth, p.a.real, p.b.real,
        kind->bias ? p.bias.real : NULL, kind->trans_a, kind->trans_b,
        (double)kind->alpha, (double)kind->beta, p.wanted });
    for (size_t i = 0; i < TS_COUNT(both->machines); i++) {
        struct machines some = with_fp8(both->machines[i]);

        if (some.count > 0)
            machines_try(&some, run_matmul, &p.op,
                         &(struct outcome) {
                             .operand = &p.out,
                             .wanted = p.wanted,
                             .units = units_of(both->machines[i], kind, shape.depth),
                             .least = 1 },
                         1);
    }
    product_close(&p);
}

/* A GPU supports only some shapes; test_cuda_matmul covers them. */
static bool rounds_any_shape(const struct both *both)
{
    return both->machines[0]->backends[0]->ops->kind == DEVICE_CPU;
}

static void test_matmul_rounds_operands_to_8_bits(void **state)
{
    if (!rounds_any_shape(*state))
        skip();
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (int j = 0; j < 8; j++) {
            struct kind kind = { formats[f].in, formats[f].out, j & 1, j & 2,
                                 j & 4,         0.37f,          j & 1 };

            try_rounded(*state, &kind, j & 2 ? FORMAT_FP8_E5M2 : FORMAT_FP8_E4M3);
        }
}

/* A nonfinite value is propagated; a matrix of zeros, or of values near zero, causes no
 * division by 0. */
static void test_matmul_of_8_bits_propagates_nan_and_accepts_zeros(void **state)
{
    static const double values[] = { NAN, INFINITY, 0, 1e-40 };
    static const struct shape shape = { 5, 7, 40 };
    struct both *both = *state;
    struct machines some = with_fp8(both->machines[1]);

    if (!rounds_any_shape(both))
        skip();
    for (size_t v = 0; v < TS_COUNT(values); v++) {
        struct kind kind = { .in = FORMAT_FP32, .out = FORMAT_FP32, .alpha = 1 };
        struct product p;

        product_open(&p, &kind, &shape);
        p.op.round_a = p.op.round_b = FORMAT_FP8_E4M3;
        for (size_t i = 0; i < p.a.numbers; i++)
            if (i % shape.depth == 3 || v > 1)
                p.a.real[i] = values[v];
        operand_write(&p.a);
        if (some.count > 0)
            machines_try(&some, run_matmul, &p.op,
                         &(struct outcome) { .operand = &p.out }, 1);
        for (size_t i = 0; i < p.out.numbers && some.count > 0; i++)
            assert_true(v > 1 ? p.out.real[i] == 0 : isnan(p.out.real[i]));
        product_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul_matches_the_reference),
        cmocka_unit_test(test_matmul_handles_large_depths),
        cmocka_unit_test(test_matmul_applies_alpha_beta_and_bias),
        cmocka_unit_test(test_matmul_adds_a_bias_to_aligned_rows),
        cmocka_unit_test(test_matmul_does_not_read_what_it_overwrites),
        cmocka_unit_test(test_matmul_propagates_inf_and_nan),
        cmocka_unit_test(test_matmul_keeps_a_nan_with_all_bits_set),
        cmocka_unit_test(test_matmul_overflows_to_inf_in_fp16),
        cmocka_unit_test(test_matmul_rounds_b),
        cmocka_unit_test(test_matmul_rounds_operands_to_8_bits),
        cmocka_unit_test(test_matmul_of_8_bits_propagates_nan_and_accepts_zeros),
    };

    return cmocka_run_group_tests(tests, both_open, both_close);
}
