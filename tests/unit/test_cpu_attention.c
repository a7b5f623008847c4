/* tests/unit/test_cpu_attention.c - attention and its gradients follow the formula, for
 * packed sequences, shared heads and windows, with any number of threads. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "kernels/dropout.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(attention)
OPERATION(attention_backward)

struct shape {
    enum format format;
    size_t heads, kv_heads, head_size, window;
    int32_t offsets[8]; /* up to the last nonzero one */
};

static const struct shape shapes[] = {
    { FORMAT_FP32, 1, 1, 8, 0, { 0, 1 } },
    { FORMAT_FP32, 2, 1, 16, 0, { 0, 3 } },
    { FORMAT_FP32, 2, 2, 64, 0, { 0, 17 } },
    { FORMAT_FP32, 3, 1, 16, 0, { 0, 257 } },
    { FORMAT_FP32, 2, 1, 80, 0, { 0, 64, 128 } },
    { FORMAT_FP32, 4, 2, 4, 0, { 0, 1, 2, 66, 130, 131, 257 } },
    { FORMAT_FP32, 1, 1, 6, 0, { 0, 63, 65, 66, 129 } },
    { FORMAT_FP32, 1, 1, 256, 0, { 0, 70 } },
    { FORMAT_FP32, 2, 1, 8, 1, { 0, 130 } },
    { FORMAT_FP32, 2, 1, 8, 40, { 0, 10, 257 } },
    { FORMAT_FP32, 2, 1, 8, 100, { 0, 257 } },
    { FORMAT_BF16, 4, 2, 64, 0, { 0, 50, 133 } },
    { FORMAT_BF16, 3, 1, 80, 0, { 0, 1, 2, 5, 70, 71, 257 } },
    { FORMAT_BF16, 2, 1, 6, 20, { 0, 17, 130 } },
    { FORMAT_BF16, 1, 1, 5, 0, { 0, 67 } },
    { FORMAT_FP16, 2, 1, 20, 33, { 0, 40, 150 } },
    /* An odd number of rows: operands that tensor cores can use. */
    { FORMAT_FP16, 2, 1, 32, 0, { 0, 1, 3, 66, 130, 195, 395 } },
    { FORMAT_FP16, 8, 1, 40, 70, { 0, 129, 199 } },
    { FORMAT_FP16, 4, 1, 64, 0, { 0, 130, 201 } },
    { FORMAT_FP16, 1, 1, 96, 100, { 0, 40, 199 } },
    { FORMAT_FP16, 2, 1, 128, 0, { 0, 65, 199 } },
    { FORMAT_FP16, 1, 1, 192, 0, { 0, 67, 133 } },
    { FORMAT_FP16, 1, 1, 256, 0, { 0, 67, 133 } },
    { FORMAT_BF16, 2, 2, 64, 64, { 0, 257 } },
    { FORMAT_BF16, 1, 1, 128, 1, { 0, 99 } },
    { FORMAT_BF16, 1, 1, 128, 33, { 0, 10, 151 } },
    { FORMAT_BF16, 1, 1, 184, 0, { 0, 131 } },
    { FORMAT_BF16, 1, 1, 256, 33, { 0, 131 } },
    /* Empty sequences. */
    { FORMAT_FP32, 2, 1, 16, 0, { 0, 0, 0, 64, 64, 65, 70, 70 } },
    { FORMAT_BF16, 2, 1, 64, 0, { 0, 129, 129, 130, 195, 195, 195, 195 } },
    { FORMAT_FP16, 1, 1, 128, 20, { 0, 0, 64, 64, 128, 128, 128, 128 } },
};

/* Everything one case needs, for the operation and for the reference. */
struct attention_case {
    struct operand q, k, v, out, lse, dout, dq, dk, dv, delta;
    int32_t *offsets;
    uint64_t *draw;
    double *real[7]; /* out, lse, dq, dk, dv, sizes of dq and dk */
    struct op_attention op;
    struct reference_attention reference;
};

static size_t runs_of(const struct shape *shape)
{
    size_t runs = TS_COUNT(shape->offsets) - 1;

    while (shape->offsets[runs] == 0)
        runs--;
    return runs;
}

static size_t longest_of(const struct shape *shape)
{
    int32_t longest = 0;

    for (size_t i = 0; i < runs_of(shape); i++)
        if (shape->offsets[i + 1] - shape->offsets[i] > longest)
            longest = shape->offsets[i + 1] - shape->offsets[i];
    return (size_t)longest;
}

/* Options of attention besides its shape. */
struct extra {
    double softcap;
    float p; /* dropout probability */
};

static const struct attention_dropout dropped = { .stream = 7,
                                                  .seed = 0x123456789abcdefu };
enum { DRAW = 41 };

static void make_reference(struct attention_case *c, const struct shape *shape,
                           struct extra extra)
{
    size_t runs = runs_of(shape), rows = (size_t)shape->offsets[runs];
    size_t queries = rows * shape->heads * shape->head_size;

    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        c->real[i] = calloc(queries + rows * shape->heads, sizeof(double));
    c->reference = (struct reference_attention) {
        .rows = rows,
        .sequences = runs,
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .offsets = shape->offsets,
        .scale = 1 / sqrt((double)shape->head_size),
        .softcap = extra.softcap,
        .threshold = dropout_threshold(extra.p),
        .bits = { .seed = dropped.seed, .draw = DRAW, .stream = dropped.stream },
        .q = c->q.real,
        .k = c->k.real,
        .v = c->v.real,
        .dout = c->dout.real,
        .out = c->real[0],
        .lse = c->real[1],
        .dq = c->real[2],
        .dk = c->real[3],
        .dv = c->real[4],
        .size_dq = c->real[5],
        .size_dk = c->real[6],
    };
    reference_attention(&c->reference);
    reference_attention_backward(&c->reference);
}

static void case_open_with(struct attention_case *c, const struct shape *shape,
                           struct extra extra)
{
    size_t rows = (size_t)shape->offsets[runs_of(shape)];
    size_t wide = shape->heads * shape->head_size,
           narrow = shape->kv_heads * shape->head_size;
    enum format format = shape->format;

    c->q = operand_random(format, rows, wide, 2, 1);
    c->k = operand_random(format, rows, narrow, 2, 2);
    c->v = operand_random(format, rows, narrow, 1, 3);
    c->dout = operand_random(format, rows, wide, 1, 4);
    c->out = operand_filled(format, rows, wide, 7);
    c->lse = operand_filled(FORMAT_FP32, shape->heads, rows, 7);
    c->dq = operand_filled(format, rows, wide, 7);
    c->dk = operand_filled(format, rows, narrow, 7);
    c->dv = operand_filled(format, rows, narrow, 7);
    c->delta = operand_filled(FORMAT_FP32, shape->heads, rows, 7);
    c->offsets = machines_memory(sizeof(shape->offsets));
    memcpy(c->offsets, shape->offsets, sizeof(shape->offsets));
    c->draw = machines_memory(sizeof(*c->draw));
    *c->draw = DRAW;
    make_reference(c, shape, extra);
    c->op = (struct op_attention) {
        .out = c->out.tensor,
        .lse = c->lse.tensor,
        .q = c->q.tensor,
        .k = c->k.tensor,
        .v = c->v.tensor,
        .offsets = c->offsets,
        .sequences = c->reference.sequences,
        .longest = longest_of(shape),
        .heads = shape->heads,
        .kv_heads = shape->kv_heads,
        .head_size = shape->head_size,
        .window = shape->window,
        .scale = (float)c->reference.scale,
        .softcap = (float)extra.softcap,
        .dropout = dropped,
    };
    c->op.dropout.p = extra.p;
    c->op.dropout.draw = c->draw;
}

static void case_open(struct attention_case *c, const struct shape *shape)
{
    case_open_with(c, shape, (struct extra) { 0 });
}

static void case_close(struct attention_case *c)
{
    struct operand *operands[] = { &c->q,    &c->k,  &c->v,  &c->out, &c->lse,
                                   &c->dout, &c->dq, &c->dk, &c->dv,  &c->delta };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
    machines_memory_free(c->offsets);
    machines_memory_free(c->draw);
}

/* Return whether weights are rounded to the operands' format.  The CPU does so for
 * bf16. */
static bool rounds(const struct machines *machines, enum format format)
{
    return format == FORMAT_BF16 ||
           (format == FORMAT_FP16 && machines->backends[0]->ops->kind == DEVICE_CUDA);
}

/* Rounded weights: half an epsilon of each. */
static double forward_units(const struct machines *machines, enum format format)
{
    return rounds(machines, format) ? 16 + format_info(format)->epsilon / 2 * 0x1p23 : 16;
}

/* Dropout scales up the weights it keeps. */
static void try_forward(struct machines *machines, const struct shape *shape,
                        struct extra extra)
{
    struct attention_case c;

    case_open_with(&c, shape, extra);
    machines_try(
        machines, run_attention, &c.op,
        (struct outcome[]) { { &c.out, c.real[0], forward_units(machines, shape->format),
                               extra.p > 0 ? 1 / (1 - (double)extra.p) : 0 },
                             { &c.lse, c.real[1], 8, 1 } },
        2);
    case_close(&c);
}

static void test_attention_follows_the_formula(void **state)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        try_forward(*state, &shapes[i], (struct extra) { 0 });
}

typedef void trial(struct machines *machines, const struct shape *shape,
                   struct extra extra);

/* One cap that most scores are below, and one that most exceed; shapes for tensor cores
 * use one of them, each head size once. */
static void try_capped(struct machines *machines, trial *run)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        bool both = i % (machines->slow ? 9 : 3) == 0 && i < 16;
        bool one = (i >= 16 && i <= 22) || i + 1 == TS_COUNT(shapes);

        if (both || (one && i % 2 == 0))
            run(machines, &shapes[i], (struct extra) { .softcap = 10 });
        if (both || (one && i % 2 == 1))
            run(machines, &shapes[i], (struct extra) { .softcap = 1.5 });
    }
}

/* Every code path once: packed sequences, shared heads, windows that begin inside a word
 * of the draws, heads for tensor cores and others; once together with a cap. */
static void try_dropping(struct machines *machines, trial *run)
{
    static const size_t all[] = { 1,  5,  6,  7,  9,  10, 11, 12, 13,
                                  15, 16, 17, 18, 20, 23, 25, 29 };
    static const size_t few[] = { 5, 7, 9, 16, 17, 25, 29 };
    const size_t *some = machines->slow ? few : all;
    size_t count = machines->slow ? TS_COUNT(few) : TS_COUNT(all);

    for (size_t i = 0; i < count; i++)
        run(machines, &shapes[some[i]],
            (struct extra) { .softcap = i == 0 ? 10 : 0, .p = i % 2 ? 0.1f : 0.6f });
    run(machines, &shapes[18], (struct extra) { .p = 0.99999f });
}

static void test_attention_drops_weights(void **state)
{
    try_dropping(*state, try_forward);
}

static void test_attention_caps_scores(void **state)
{
    try_capped(*state, try_forward);
}

/* Relative to the terms summed: delta comes from `out` rounded to its format, half an
 * epsilon; where weights and their gradients are rounded, another half. */
static double backward_units(const struct machines *machines, enum format format)
{
    double half = format_info(format)->epsilon / 2 * 0x1p23;

    return format == FORMAT_FP32 ? 32 : rounds(machines, format) ? 2 * half : 32 + half;
}

static double largest(const double *x, size_t numbers)
{
    double most = 0;

    for (size_t i = 0; i < numbers; i++)
        most = fmax(most, x[i]);
    return most;
}

static void try_backward(struct machines *machines, const struct shape *shape,
                         struct extra extra)
{
    struct attention_case c;
    struct op_attention_backward op;
    double units = backward_units(machines, shape->format);

    case_open_with(&c, shape, extra);
    memcpy(c.out.real, c.real[0], c.out.numbers * sizeof(double));
    memcpy(c.lse.real, c.real[1], c.lse.numbers * sizeof(double));
    operand_write(&c.out);
    operand_write(&c.lse);
    op = (struct op_attention_backward) { .dq = c.dq.tensor,
                                          .dk = c.dk.tensor,
                                          .dv = c.dv.tensor,
                                          .delta = c.delta.tensor,
                                          .dout = c.dout.tensor,
                                          .forward = c.op };
    machines_try(machines, run_attention_backward, &op,
                 (struct outcome[]) {
                     { &c.dq, c.real[2], units, largest(c.real[5], c.dq.numbers) },
                     { &c.dk, c.real[3], units, largest(c.real[6], c.dk.numbers) },
                     { &c.dv, c.real[4], units, 1 },
                     { &c.delta, NULL, 0, 0 } },
                 4);
    case_close(&c);
}

static void test_attention_backward_is_the_gradient(void **state)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        try_backward(*state, &shapes[i], (struct extra) { 0 });
}

static void test_attention_backward_of_capped_scores(void **state)
{
    try_capped(*state, try_backward);
}

static void test_attention_backward_of_dropped_weights(void **state)
{
    try_dropping(*state, try_backward);
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
        { FORMAT_FP32, 2, 2, 4, 3, { 0, 11 } },
    };
    static const struct extra extras[] = { { 0, 0 }, { 0, 0.3f }, { 3, 0 }, { 3, 0.3f } };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(extras); i++) {
        struct attention_case c;

        case_open_with(&c, &small[i / 2], extras[i]);
        assert_true(reference_slope_error(loss, &c.reference, c.q.real, c.q.numbers,
                                          c.real[2]) < 1e-6);
        assert_true(reference_slope_error(loss, &c.reference, c.k.real, c.k.numbers,
                                          c.real[3]) < 1e-6);
        assert_true(reference_slope_error(loss, &c.reference, c.v.real, c.v.numbers,
                                          c.real[4]) < 1e-6);
        case_close(&c);
    }
}

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
        op = (struct op_attention_backward) { .dq = c.dq.tensor,
                                              .dk = c.dk.tensor,
                                              .dv = c.dv.tensor,
                                              .delta = c.delta.tensor,
                                              .dout = c.dout.tensor,
                                              .forward = c.op };
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
            unsigned char *now;

            if (told[k] > 0 && told[k] < longest_of(&packed[i]))
                continue;
            case_open(&c, &packed[i]);
            c.op.longest = told[k];
            machine_run(machines->backends[0], run_attention, &c.op);
            machine_run(machines->backends[0], run_attention_backward,
                        &(struct op_attention_backward) { .dq = c.dq.tensor,
                                                          .dk = c.dk.tensor,
                                                          .dv = c.dv.tensor,
                                                          .delta = c.delta.tensor,
                                                          .dout = c.dout.tensor,
                                                          .forward = c.op });
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

            machine_run(machines->backends[m], run_attention, &c.op);
            machine_run(machines->backends[m], run_attention_backward,
                        &(struct op_attention_backward) { .dq = c.dq.tensor,
                                                          .dk = c.dk.tensor,
                                                          .dv = c.dv.tensor,
                                                          .delta = c.delta.tensor,
                                                          .dout = c.dout.tensor,
                                                          .forward = c.op });
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

/* Last: the test with cuDNN checks that cuDNN ran all the time. */
static void test_attention_uses_cudnn_if_requested(void **state)
{
    struct machines *machines = *state;
    const char *asked = getenv("TRAINSPOOL_CUDNN");
    size_t plans = 0;

    if (!asked || strcmp(asked, "1") != 0)
        skip();
    for (size_t m = 0; m < machines->count; m++)
        plans += machine_cudnn_plans(machines->backends[m]);
    assert_true(plans >= 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_attention_follows_the_formula),
        cmocka_unit_test(test_attention_caps_scores),
        cmocka_unit_test(test_attention_drops_weights),
        cmocka_unit_test(test_attention_backward_is_the_gradient),
        cmocka_unit_test(test_attention_backward_of_capped_scores),
        cmocka_unit_test(test_attention_backward_of_dropped_weights),
        cmocka_unit_test(test_attention_propagates_nan_and_inf),
        cmocka_unit_test(test_attention_of_16_bits_propagates_nan),
        cmocka_unit_test(test_attention_stays_within_its_rows),
        cmocka_unit_test(test_attention_is_independent_of_length_hints),
        cmocka_unit_test(test_attention_of_large_scores_is_finite),
        cmocka_unit_test(test_attention_backward_of_small_weights_is_finite),
        cmocka_unit_test(test_attention_of_long_sequences_keeps_early_terms),
        cmocka_unit_test(test_attention_uses_cudnn_if_requested),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
