/* tests/unit/test_cpu_delta.c - the operations of linear attention and of short
 * convolutions, and their gradients, follow their formulas, row by row, in packed sequences,
 * and continue from a state. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(conv)
OPERATION(conv_backward)
OPERATION(decay)
OPERATION(decay_backward)
OPERATION(delta)
OPERATION(delta_backward)

enum { SEQUENCES_MOST = 5, OPERANDS_MOST = 16 };

static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16, FORMAT_FP16 };

/* Operands of one case, each with its values in double, which the reference changes. */
struct trial {
    struct operand at[OPERANDS_MOST];
    double *real[OPERANDS_MOST];
    size_t count;
    int32_t *offsets;
    size_t sequences;
};

static void trial_open(struct trial *t, const int32_t *offsets, size_t sequences)
{
    *t = (struct trial) { .sequences = sequences };
    t->offsets = machines_memory((SEQUENCES_MOST + 1) * sizeof(*offsets));
    memcpy(t->offsets, offsets, (sequences + 1) * sizeof(*offsets));
}

static struct operand *add(struct trial *t, struct operand operand)
{
    double *real = calloc(operand.numbers + 1, sizeof(*real));

    memcpy(real, operand.real, operand.numbers * sizeof(*real));
    assert_true(t->count < OPERANDS_MOST);
    t->at[t->count] = operand;
    t->real[t->count] = real;
    return &t->at[t->count++];
}

static double *real(struct trial *t, const struct operand *operand)
{
    return t->real[operand - t->at];
}

/* An operand of normal values, or of one. */
static struct operand *draw(struct trial *t, enum format format, size_t rows, size_t cols)
{
    return add(t, operand_random(format, rows, cols, 1, t->count + 1));
}

static struct operand *fill(struct trial *t, enum format format, size_t rows, size_t cols)
{
    return add(t, operand_filled(format, rows, cols, 7));
}

static void trial_close(struct trial *t)
{
    for (size_t i = 0; i < t->count; i++) {
        operand_clear(&t->at[i]);
        free(t->real[i]);
    }
    machines_memory_free(t->offsets);
}

static struct outcome outcome(struct trial *t, struct operand *operand, double units)
{
    return (struct outcome) { operand, real(t, operand), units, 1 };
}

/* The values before a machine changes them. */
static double *copy_of(const struct operand *operand)
{
    double *copy = calloc(operand->numbers + 1, sizeof(*copy));

    memcpy(copy, operand->real, operand->numbers * sizeof(*copy));
    return copy;
}

/* ---- The convolution ---- */

static const int32_t packed[] = { 0, 1, 1, 4, 70, 73 };

struct conv_case {
    struct trial t;
    struct operand *x, *weight, *out, *dout, *dx, *dweight, *state;
    struct operand *before, *after, *bias, *dbefore, *dafter, *dbias; /* with gates */
    struct reference_conv r;
    bool gated;
};

static void add_gates(struct conv_case *c, enum format format, size_t rows, size_t cols)
{
    c->before = draw(&c->t, format, rows, cols);
    c->after = draw(&c->t, format, rows, cols);
    c->bias = draw(&c->t, FORMAT_FP32, 1, cols);
    c->dbefore = fill(&c->t, format, rows, cols);
    c->dafter = fill(&c->t, format, rows, cols);
    c->dbias = draw(&c->t, FORMAT_FP32, 1, cols);
    c->r.before = c->before->real;
    c->r.after = c->after->real;
    c->r.bias = c->bias->real;
    c->r.dbefore = real(&c->t, c->dbefore);
    c->r.dafter = real(&c->t, c->dafter);
    c->r.dbias = real(&c->t, c->dbias);
}

static void conv_open(struct conv_case *c, enum format format, size_t cols, size_t taps,
                      bool gated)
{
    size_t rows = (size_t)packed[SEQUENCES_MOST];
    struct trial *t = &c->t;

    trial_open(t, packed, SEQUENCES_MOST);
    c->gated = gated;
    c->x = draw(t, format, rows, cols);
    c->weight = draw(t, FORMAT_FP32, cols, taps);
    c->dout = draw(t, format, rows, cols);
    c->out = fill(t, format, rows, cols);
    c->dx = fill(t, format, rows, cols);
    c->dweight = draw(t, FORMAT_FP32, cols, taps);
    c->state = draw(t, FORMAT_FP32, SEQUENCES_MOST * (taps - 1), cols);
    c->r = (struct reference_conv) { .rows = rows,
                                     .cols = cols,
                                     .taps = taps,
                                     .sequences = SEQUENCES_MOST,
                                     .offsets = packed,
                                     .x = c->x->real,
                                     .weight = c->weight->real,
                                     .dout = c->dout->real,
                                     .out = real(t, c->out),
                                     .dx = real(t, c->dx),
                                     .dweight = real(t, c->dweight) };
    if (gated)
        add_gates(c, format, rows, cols);
}

static struct op_conv conv_op(const struct conv_case *c)
{
    struct op_conv op = { .out = c->out->tensor,
                          .x = c->x->tensor,
                          .weight = c->weight->tensor,
                          .offsets = c->t.offsets,
                          .sequences = SEQUENCES_MOST };

    if (!c->gated)
        return op;
    op.before = c->before->tensor;
    op.after = c->after->tensor;
    op.bias = c->bias->tensor;
    return op;
}

static void try_conv_backward(struct machines *machines, struct conv_case *c)
{
    struct op_conv forward = conv_op(c);
    struct op_conv_backward op = { .dx = c->dx->tensor,
                                   .dweight = c->dweight->tensor,
                                   .dout = c->dout->tensor,
                                   .x = forward.x,
                                   .weight = forward.weight,
                                   .before = forward.before,
                                   .after = forward.after,
                                   .bias = forward.bias,
                                   .offsets = forward.offsets,
                                   .sequences = forward.sequences };
    struct outcome outcomes[5] = { outcome(&c->t, c->dx, 32),
                                   outcome(&c->t, c->dweight, 32) };
    size_t count = 2;

    if (c->gated) {
        op.dbefore = c->dbefore->tensor;
        op.dafter = c->dafter->tensor;
        op.dbias = c->dbias->tensor;
        outcomes[count++] = outcome(&c->t, c->dbefore, 32);
        outcomes[count++] = outcome(&c->t, c->dafter, 16);
        outcomes[count++] = outcome(&c->t, c->dbias, 32);
    }
    reference_conv_backward(&c->r);
    machines_try(machines, run_conv_backward, &op, outcomes, count);
}

static void try_conv(struct machines *machines, enum format format, size_t cols,
                     size_t taps, bool gated)
{
    struct conv_case c;
    struct op_conv op;
    double *before;

    conv_open(&c, format, cols, taps, gated);
    op = conv_op(&c);
    before = copy_of(c.state);
    reference_conv(&c.r);
    machines_try(machines, run_conv, &op, (struct outcome[]) { outcome(&c.t, c.out, 8) },
                 1);
    try_conv_backward(machines, &c);
    op.state = c.state->tensor;
    c.r.state = real(&c.t, c.state);
    for (int resumes = 0; resumes < 2; resumes++) {
        memcpy(c.r.state, before, c.state->numbers * sizeof(double));
        op.resumes = c.r.resumes = resumes;
        reference_conv(&c.r);
        machines_try(
            machines, run_conv, &op,
            (struct outcome[]) { outcome(&c.t, c.out, 8), outcome(&c.t, c.state, 1) }, 2);
    }
    free(before);
    trial_close(&c.t);
}

static void test_conv_follows_the_formula(void **state)
{
    for (int gated = 0; gated < 2; gated++) {
        for (size_t f = 0; f < TS_COUNT(formats); f++) {
            try_conv(*state, formats[f], 75, 4, gated);
            try_conv(*state, formats[f], 4, 2, gated);
        }
        try_conv(*state, FORMAT_FP32, 33, CONV_TAPS_MAX, gated);
        try_conv(*state, FORMAT_BF16, 130, 3, gated);
    }
}

static double conv_loss(void *context)
{
    struct conv_case *c = context;
    double sum = 0;

    reference_conv(&c->r);
    for (size_t i = 0; i < c->out->numbers; i++)
        sum += c->r.out[i] * c->dout->real[i];
    return sum;
}

static void test_reference_conv_gradients_match_differences(void **state)
{
    struct conv_case c;
    struct operand **inputs[] = { &c.x, &c.weight, &c.before, &c.after, &c.bias };
    struct operand **gradients[] = { &c.dx, &c.dweight, &c.dbefore, &c.dafter, &c.dbias };

    (void)state;
    for (int gated = 0; gated < 2; gated++) {
        conv_open(&c, FORMAT_FP32, 3, 3, gated);
        memset(c.r.dweight, 0, c.dweight->numbers * sizeof(double));
        if (gated)
            memset(c.r.dbias, 0, c.dbias->numbers * sizeof(double));
        reference_conv_backward(&c.r);
        for (size_t i = 0; i < (gated ? TS_COUNT(inputs) : 2); i++) {
            struct operand *x = *inputs[i];

            assert_true(reference_slope_error(conv_loss, &c, x->real, x->numbers,
                                              real(&c.t, *gradients[i])) < 1e-6);
        }
        trial_close(&c.t);
    }
}

/* ---- The gates ---- */

static void try_gates(struct machines *machines, enum format format, size_t rows,
                      size_t heads)
{
    struct trial t;
    struct operand *a, *b, *a_log, *bias, *ddecay, *dbeta, *out[6];
    struct reference_decay r;

    trial_open(&t, packed, 1);
    a = add(&t, operand_random(format, rows, heads, 12, 11)); /* some above 20 */
    b = add(&t, operand_random(format, rows, heads, 4, 12));
    a_log = draw(&t, format, 1, heads);
    bias = draw(&t, FORMAT_FP32, 1, heads);
    ddecay = draw(&t, FORMAT_FP32, rows, heads);
    dbeta = draw(&t, FORMAT_FP32, rows, heads);
    out[0] = fill(&t, FORMAT_FP32, rows, heads);
    out[1] = fill(&t, FORMAT_FP32, rows, heads);
    out[2] = fill(&t, format, rows, heads);
    out[3] = fill(&t, format, rows, heads);
    out[4] = draw(&t, FORMAT_FP32, 1, heads);
    out[5] = draw(&t, FORMAT_FP32, 1, heads);
    r = (struct reference_decay) { .rows = rows,
                                   .heads = heads,
                                   .a = a->real,
                                   .b = b->real,
                                   .a_log = a_log->real,
                                   .bias = bias->real,
                                   .ddecay = ddecay->real,
                                   .dbeta = dbeta->real,
                                   .decay = real(&t, out[0]),
                                   .beta = real(&t, out[1]),
                                   .da = real(&t, out[2]),
                                   .db = real(&t, out[3]),
                                   .da_log = real(&t, out[4]),
                                   .dbias = real(&t, out[5]) };
    reference_decay(&r);
    reference_decay_backward(&r);
    machines_try(machines, run_decay,
                 &(struct op_decay) { out[0]->tensor, out[1]->tensor, a->tensor,
                                      b->tensor, a_log->tensor, bias->tensor },
                 (struct outcome[]) { outcome(&t, out[0], 8), outcome(&t, out[1], 8) },
                 2);
    machines_try(machines, run_decay_backward,
                 &(struct op_decay_backward) { out[2]->tensor, out[3]->tensor,
                                               out[4]->tensor, out[5]->tensor,
                                               ddecay->tensor, dbeta->tensor, a->tensor,
                                               b->tensor, a_log->tensor, bias->tensor },
                 (struct outcome[]) { outcome(&t, out[2], 16), outcome(&t, out[3], 16),
                                      outcome(&t, out[4], 32), outcome(&t, out[5], 32) },
                 4);
    trial_close(&t);
}

static void test_gates_follow_the_formula(void **state)
{
    for (size_t f = 0; f < TS_COUNT(formats); f++) {
        try_gates(*state, formats[f], 70, 3);
        try_gates(*state, formats[f], 300, 16);
    }
}

/* ---- The delta rule ---- */

struct shape {
    size_t heads, key_heads, key, value;
    size_t sequences;
    int32_t offsets[SEQUENCES_MOST + 1];
    double fade; /* the largest -decay */
};

/* Sequences of one row, of none, of parts of a chunk, of chunks; heads of the published
 * models, and of unusual sizes; decays after which nothing is left. */
static const struct shape shapes[] = {
    { 1, 1, 1, 1, 1, { 0, 3 }, 1 },
    { 4, 2, 16, 8, 5, { 0, 1, 1, 4, 70, 102 }, 0.5 },
    { 3, 1, 20, 33, 2, { 0, 32, 97 }, 0.1 },
    { 2, 2, 128, 128, 1, { 0, 37 }, 0.2 },
    { 2, 1, 9, 5, 2, { 0, 40, 75 }, 60 },
};

struct delta_case {
    struct trial t;
    struct operand *q, *k, *v, *decay, *beta, *dout, *out, *state;
    struct operand *dq, *dk, *dv, *ddecay, *dbeta, *states, *dstates;
    struct reference_delta r;
};

/* Values from 0 to `most`. */
static struct operand *between(struct trial *t, size_t rows, size_t cols, double most)
{
    struct operand operand = operand_random(FORMAT_FP32, rows, cols, 1, t->count + 1);

    for (size_t i = 0; i < operand.numbers; i++)
        operand.real[i] = (double)(float)(most / (1 + exp(-2 * operand.real[i])));
    operand_write(&operand);
    return add(t, operand);
}

static void delta_open(struct delta_case *c, const struct shape *s, enum format format)
{
    size_t rows = (size_t)s->offsets[s->sequences], size = s->key * s->value;
    size_t keys = s->key_heads * s->key, values = s->heads * s->value;
    struct trial *t = &c->t;

    trial_open(t, s->offsets, s->sequences);
    c->q = draw(t, format, rows, keys);
    c->k = draw(t, format, rows, keys);
    c->v = draw(t, format, rows, values);
    c->decay = between(t, rows, s->heads, -s->fade);
    c->beta = between(t, rows, s->heads, 1);
    c->dout = draw(t, format, rows, values);
    c->out = fill(t, format, rows, values);
    c->state = draw(t, FORMAT_FP32, s->sequences, s->heads * size);
    c->dq = fill(t, format, rows, keys);
    c->dk = fill(t, format, rows, keys);
    c->dv = fill(t, format, rows, values);
    c->ddecay = fill(t, FORMAT_FP32, rows, s->heads);
    c->dbeta = fill(t, FORMAT_FP32, rows, s->heads);
    c->states =
        fill(t, FORMAT_FP32, op_delta_chunks(rows, s->sequences), s->heads * size);
    c->dstates =
        fill(t, FORMAT_FP32, op_delta_chunks(rows, s->sequences), s->heads * size);
    c->r = (struct reference_delta) { .rows = rows,
                                      .sequences = s->sequences,
                                      .heads = s->heads,
                                      .key_heads = s->key_heads,
                                      .key = s->key,
                                      .value = s->value,
                                      .offsets = s->offsets,
                                      .q = c->q->real,
                                      .k = c->k->real,
                                      .v = c->v->real,
                                      .decay = c->decay->real,
                                      .beta = c->beta->real,
                                      .dout = c->dout->real,
                                      .out = real(t, c->out),
                                      .dq = real(t, c->dq),
                                      .dk = real(t, c->dk),
                                      .dv = real(t, c->dv),
                                      .ddecay = real(t, c->ddecay),
                                      .dbeta = real(t, c->dbeta) };
}

static struct op_delta delta_op(const struct delta_case *c)
{
    return (struct op_delta) { .out = c->out->tensor,
                               .q = c->q->tensor,
                               .k = c->k->tensor,
                               .v = c->v->tensor,
                               .decay = c->decay->tensor,
                               .beta = c->beta->tensor,
                               .offsets = c->t.offsets,
                               .sequences = c->t.sequences,
                               .heads = c->r.heads,
                               .key_heads = c->r.key_heads };
}

static void try_forward(struct machines *machines, struct delta_case *c)
{
    struct op_delta op = delta_op(c);
    double *before = copy_of(c->state);

    reference_delta(&c->r);
    machines_try(machines, run_delta, &op,
                 (struct outcome[]) { outcome(&c->t, c->out, 16) }, 1);
    c->r.state = real(&c->t, c->state);
    op.state = c->state->tensor;
    for (int resumes = 0; resumes < 2; resumes++) {
        memcpy(c->r.state, before, c->state->numbers * sizeof(double));
        op.resumes = c->r.resumes = resumes;
        reference_delta(&c->r);
        machines_try(machines, run_delta, &op,
                     (struct outcome[]) { outcome(&c->t, c->out, 32),
                                          outcome(&c->t, c->state, 32) },
                     2);
    }
    free(before);
}

static void try_backward(struct machines *machines, struct delta_case *c)
{
    struct op_delta_backward op = { .dq = c->dq->tensor,
                                    .dk = c->dk->tensor,
                                    .dv = c->dv->tensor,
                                    .ddecay = c->ddecay->tensor,
                                    .dbeta = c->dbeta->tensor,
                                    .dout = c->dout->tensor,
                                    .states = c->states->tensor,
                                    .dstates = c->dstates->tensor,
                                    .forward = delta_op(c) };

    reference_delta_backward(&c->r);
    machines_try(
        machines, run_delta_backward, &op,
        (struct outcome[]) { outcome(&c->t, c->dq, 64), outcome(&c->t, c->dk, 64),
                             outcome(&c->t, c->dv, 64), outcome(&c->t, c->ddecay, 64),
                             outcome(&c->t, c->dbeta, 64) },
        5);
}

static void try_all(void **state, void try(struct machines *, struct delta_case *))
{
    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t i = 0; i < TS_COUNT(shapes); i++) {
            struct delta_case c;

            if (f == 1 + i % 2) /* one of the 16-bit formats is enough */
                continue;
            delta_open(&c, &shapes[i], formats[f]);
            try(*state, &c);
            trial_close(&c.t);
        }
}

static void test_delta_follows_the_formula(void **state)
{
    try_all(state, try_forward);
}

static void test_delta_backward_matches_the_reference(void **state)
{
    try_all(state, try_backward);
}

/* A NaN or inf propagates, to no other sequence and no other head. */
static void test_delta_propagates_nan_and_inf(void **state)
{
    static const float broken[] = { NAN, INFINITY };
    struct machines *machines = *state;
    struct delta_case c;
    struct op_delta op;

    delta_open(&c, &shapes[1], FORMAT_FP32);
    op = delta_op(&c);
    for (size_t i = 0; i < TS_COUNT(broken); i++)
        for (size_t m = 0; m < machines->count; m++) {
            ((float *)c.v->tensor.data)[60 * c.v->tensor.stride] = broken[i];
            machine_run(machines->backends[m], run_delta, &op);
            operand_read(c.out);
            assert_false(isfinite(c.out->real[60 * 32]));
            assert_false(isfinite(c.out->real[69 * 32]));
            assert_true(isfinite(c.out->real[69 * 32 + 8]));
            assert_true(isfinite(c.out->real[70 * 32]));
        }
    trial_close(&c.t);
}

/* ---- The formulas themselves ---- */

static double delta_loss(void *context)
{
    struct delta_case *c = context;
    double sum = 0;

    reference_delta(&c->r);
    for (size_t i = 0; i < c->out->numbers; i++)
        sum += c->r.out[i] * c->dout->real[i];
    return sum;
}

static void test_reference_gradients_match_differences(void **state)
{
    static const struct shape shape = { 4, 2, 5, 3, 2, { 0, 4, 9 }, 0.7 };
    struct delta_case c;
    struct operand **inputs[] = { &c.q, &c.k, &c.v, &c.decay, &c.beta };
    struct operand **gradients[] = { &c.dq, &c.dk, &c.dv, &c.ddecay, &c.dbeta };

    (void)state;
    delta_open(&c, &shape, FORMAT_FP32);
    reference_delta_backward(&c.r);
    for (size_t i = 0; i < TS_COUNT(inputs); i++) {
        struct operand *x = *inputs[i];

        assert_true(reference_slope_error(delta_loss, &c, x->real, x->numbers,
                                          real(&c.t, *gradients[i])) < 1e-6);
    }
    trial_close(&c.t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradients_match_differences),
        cmocka_unit_test(test_reference_conv_gradients_match_differences),
        cmocka_unit_test(test_conv_follows_the_formula),
        cmocka_unit_test(test_gates_follow_the_formula),
        cmocka_unit_test(test_delta_follows_the_formula),
        cmocka_unit_test(test_delta_backward_matches_the_reference),
        cmocka_unit_test(test_delta_propagates_nan_and_inf),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
