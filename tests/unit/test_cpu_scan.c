/* tests/unit/test_cpu_scan.c - the selective scan and its gradients follow their formulas, row
 * by row, in packed sequences, and continue from a state. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(scan)
OPERATION(scan_backward)

enum { SEQUENCES_MOST = 5 };

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

struct shape {
    size_t heads, groups, size, depth, sequences;
    int32_t offsets[SEQUENCES_MOST + 1];
    double low, high; /* of the steps */
};

/* Sequences of one row, of none, of parts of a chunk, of chunks; heads of the published
 * models, and of unusual sizes; steps that are limited. */
static const struct shape shapes[] = {
    { 1, 1, 1, 1, 1, { 0, 3 }, 0, INFINITY },
    { 4, 2, 16, 8, 5, { 0, 1, 1, 4, 70, 102 }, 0, INFINITY },
    { 3, 1, 20, 33, 2, { 0, 32, 97 }, 0.3, 2 },
    { 2, 1, 64, 256, 1, { 0, 37 }, 0, INFINITY },
    { 4, 4, 9, 5, 2, { 0, 40, 75 }, 0.001, 0.9 },
    { 1, 1, 128, 16, 3, { 0, 0, 33, 33 }, 0, INFINITY },
};

enum which {
    X,
    B,
    C,
    DT,
    A_LOG,
    BIAS,
    SKIP,
    DOUT,
    OUT,
    STATE,
    DX,
    DB,
    DC,
    DDT,
    DA_LOG,
    DBIAS,
    DSKIP,
    STATES,
    DSTATES,
    SUMS,
    OPERANDS
};

struct scan_case {
    struct operand at[OPERANDS];
    double *real[OPERANDS]; /* which the reference changes */
    int32_t *offsets;
    struct reference_scan r;
};

static void add(struct scan_case *c, enum which i, struct operand operand)
{
    c->at[i] = operand;
    c->real[i] = calloc(operand.numbers + 1, sizeof(double));
    memcpy(c->real[i], operand.real, operand.numbers * sizeof(double));
}

static void scan_open(struct scan_case *c, const struct shape *s, enum format format)
{
    const size_t rows = (size_t)s->offsets[s->sequences], states = s->heads * s->size;
    const size_t chunks = op_scan_chunks(rows, s->sequences);
    const struct {
        enum format format;
        size_t rows, cols;
        double scale; /* 0: to be written */
    } of[OPERANDS] = {
        [X] = { format, rows, states, 1 },
        [B] = { format, rows, s->groups * s->depth, 0.5 },
        [C] = { format, rows, s->groups * s->depth, 0.5 },
        [DT] = { format, rows, s->heads, 3 },
        [A_LOG] = { format, 1, s->heads, 1 },
        [BIAS] = { FORMAT_FP32, 1, s->heads, 1 },
        [SKIP] = { FORMAT_FP32, 1, s->heads, 1 },
        [DOUT] = { format, rows, states, 1 },
        [OUT] = { format, rows, states, 0 },
        [STATE] = { FORMAT_FP32, s->sequences, states * s->depth, 1 },
        [DX] = { format, rows, states, 0 },
        [DB] = { format, rows, s->groups * s->depth, 0 },
        [DC] = { format, rows, s->groups * s->depth, 0 },
        [DDT] = { format, rows, s->heads, 0 },
        [DA_LOG] = { FORMAT_FP32, 1, s->heads, 1 },
        [DBIAS] = { FORMAT_FP32, 1, s->heads, 1 },
        [DSKIP] = { FORMAT_FP32, 1, s->heads, 1 },
        [STATES] = { FORMAT_FP32, chunks, states * s->depth, 0 },
        [DSTATES] = { FORMAT_FP32, chunks, states * s->depth, 0 },
        [SUMS] = { FORMAT_FP32, chunks, 3 * s->heads, 0 },
    };

    *c = (struct scan_case) { 0 };
    c->offsets = machines_memory((SEQUENCES_MOST + 1) * sizeof(*c->offsets));
    memcpy(c->offsets, s->offsets, (s->sequences + 1) * sizeof(*c->offsets));
    for (enum which i = 0; i < OPERANDS; i++)
        add(c, i,
            of[i].scale > 0
                ? operand_random(of[i].format, of[i].rows, of[i].cols, of[i].scale, i + 1)
                : operand_filled(of[i].format, of[i].rows, of[i].cols, 7));
    if (s->heads == 1) /* 20 and more: softplus x is x */
        c->at[BIAS].real[0] = 21;
    operand_write(&c->at[BIAS]);
    c->r = (struct reference_scan) { .rows = rows,
                                     .sequences = s->sequences,
                                     .heads = s->heads,
                                     .groups = s->groups,
                                     .size = s->size,
                                     .depth = s->depth,
                                     .offsets = s->offsets,
                                     .low = (double)(float)s->low,
                                     .high = (double)(float)s->high,
                                     .x = c->at[X].real,
                                     .b = c->at[B].real,
                                     .c = c->at[C].real,
                                     .dt = c->at[DT].real,
                                     .a_log = c->at[A_LOG].real,
                                     .bias = c->at[BIAS].real,
                                     .skip = c->at[SKIP].real,
                                     .dout = c->at[DOUT].real,
                                     .out = c->real[OUT],
                                     .dx = c->real[DX],
                                     .db = c->real[DB],
                                     .dc = c->real[DC],
                                     .ddt = c->real[DDT],
                                     .da_log = c->real[DA_LOG],
                                     .dbias = c->real[DBIAS],
                                     .dskip = c->real[DSKIP] };
}

static void scan_close(struct scan_case *c)
{
    for (enum which i = 0; i < OPERANDS; i++) {
        operand_clear(&c->at[i]);
        free(c->real[i]);
    }
    machines_memory_free(c->offsets);
}

static struct outcome outcome(struct scan_case *c, enum which i, double units)
{
    return (struct outcome) { &c->at[i], c->real[i], units, 1 };
}

static struct op_scan scan_op(const struct scan_case *c)
{
    return (struct op_scan) { .out = c->at[OUT].tensor,
                              .x = c->at[X].tensor,
                              .b = c->at[B].tensor,
                              .c = c->at[C].tensor,
                              .dt = c->at[DT].tensor,
                              .a_log = c->at[A_LOG].tensor,
                              .bias = c->at[BIAS].tensor,
                              .skip = c->at[SKIP].tensor,
                              .offsets = c->offsets,
                              .sequences = c->r.sequences,
                              .heads = c->r.heads,
                              .groups = c->r.groups,
                              .low = (float)c->r.low,
                              .high = (float)c->r.high };
}

static void try_forward(struct machines *machines, struct scan_case *c)
{
    struct op_scan op = scan_op(c);
    size_t bytes = c->at[STATE].numbers * sizeof(double);
    double *before = calloc(1, bytes + 1);

    memcpy(before, c->at[STATE].real, bytes);
    reference_scan(&c->r);
    machines_try(machines, run_scan, &op, (struct outcome[]) { outcome(c, OUT, 16) }, 1);
    c->r.state = c->real[STATE];
    op.state = c->at[STATE].tensor;
    for (int resumes = 0; resumes < 2; resumes++) {
        memcpy(c->r.state, before, bytes);
        op.resumes = c->r.resumes = resumes;
        reference_scan(&c->r);
        machines_try(machines, run_scan, &op,
                     (struct outcome[]) { outcome(c, OUT, 32), outcome(c, STATE, 32) },
                     2);
    }
    free(before);
}

static void try_backward(struct machines *machines, struct scan_case *c)
{
    struct op_scan_backward op = { .dx = c->at[DX].tensor,
                                   .db = c->at[DB].tensor,
                                   .dc = c->at[DC].tensor,
                                   .ddt = c->at[DDT].tensor,
                                   .da_log = c->at[DA_LOG].tensor,
                                   .dbias = c->at[DBIAS].tensor,
                                   .dskip = c->at[DSKIP].tensor,
                                   .dout = c->at[DOUT].tensor,
                                   .states = c->at[STATES].tensor,
                                   .dstates = c->at[DSTATES].tensor,
                                   .sums = c->at[SUMS].tensor,
                                   .forward = scan_op(c) };

    reference_scan_backward(&c->r);
    machines_try(machines, run_scan_backward, &op,
                 (struct outcome[]) { outcome(c, DX, 64), outcome(c, DB, 64),
                                      outcome(c, DC, 64), outcome(c, DDT, 64),
                                      outcome(c, DA_LOG, 64), outcome(c, DBIAS, 64),
                                      outcome(c, DSKIP, 64) },
                 7);
}

static void try_all(void **state, void try(struct machines *, struct scan_case *))
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++) {
            struct scan_case c;

            if (f == 1 + i % 2) /* one of the 16-bit formats is enough */
                continue;
            scan_open(&c, &shapes[i], formats[f]);
            try(*state, &c);
            scan_close(&c);
        }
}

static void test_scan_follows_the_formula(void **state)
{
    try_all(state, try_forward);
}

static void test_scan_backward_matches_the_reference(void **state)
{
    try_all(state, try_backward);
}

/* A NaN or inf propagates, to no earlier row, no other sequence and no other head. */
static void test_scan_propagates_nan_and_inf(void **state)
{
    static const float broken[] = { NAN, INFINITY };
    struct machines *machines = *state;
    struct scan_case c;
    struct op_scan op;

    scan_open(&c, &shapes[1], FORMAT_FP32);
    op = scan_op(&c);
    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            const double *out = c.at[OUT].real;

            ((float *)c.at[X].tensor.data)[60 * c.at[X].tensor.stride] = broken[i];
            machine_run(machines->backends[m], run_scan, &op);
            operand_read(&c.at[OUT]);
            assert_true(isfinite(out[59 * 64]));
            assert_false(isfinite(out[60 * 64]));
            assert_false(isfinite(out[69 * 64]));
            assert_true(isfinite(out[69 * 64 + 16]));
            assert_true(isfinite(out[70 * 64]));
        }
    scan_close(&c);
}

/* ---- The formulas themselves ---- */

static double scan_loss(void *context)
{
    struct scan_case *c = context;
    double sum = 0;

    reference_scan(&c->r);
    for (size_t i = 0; i < c->at[OUT].numbers; i++)
        sum += c->r.out[i] * c->at[DOUT].real[i];
    return sum;
}

static void test_reference_gradients_match_differences(void **state)
{
    static const struct shape shape = { 4, 2, 3, 5, 2, { 0, 4, 9 }, 0, 1.5 };
    static const enum which inputs[] = { X, B, C, DT, A_LOG, BIAS, SKIP };
    static const enum which gradients[] = { DX, DB, DC, DDT, DA_LOG, DBIAS, DSKIP };
    struct scan_case c;

    (void)state;
    scan_open(&c, &shape, FORMAT_FP32);
    for (size_t i = DA_LOG; i <= DSKIP; i++)
        memset(c.real[i], 0, c.at[i].numbers * sizeof(double));
    reference_scan_backward(&c.r);
    for (size_t i = 0; i < TS_COUNT(inputs); i++) {
        struct operand *x = &c.at[inputs[i]];

        assert_true(reference_slope_error(scan_loss, &c, x->real, x->numbers,
                                          c.real[gradients[i]]) < 1e-6);
    }
    scan_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradients_match_differences),
        cmocka_unit_test(test_scan_follows_the_formula),
        cmocka_unit_test(test_scan_backward_matches_the_reference),
        cmocka_unit_test(test_scan_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
