/* tests/unit/test_cpu_distill.c - a student's losses and gradients relative to its
 * teacher follow the formula and match PyTorch's, for every distance and every division
 * into chunks. */
#include "config.h"

#include "kernels/backend.h"

#include <stdlib.h>

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(distill)

struct shape {
    enum format format, taught;  /* of the student and of the teacher */
    size_t rows, cols, words;    /* N, C, V */
    size_t teacher, shared;      /* C', V' */
    size_t chunk, chunk2, every; /* rows of a chunk; each every-th row has no target */
    size_t kept;                 /* of the teacher; 0: all */
    float ratio, temperature, beta, smoothing;
    float cap, cap2; /* of the student's logits, and of the teacher's */
};

#define FP32 FORMAT_FP32
#define FP16 FORMAT_FP16
#define BF16 FORMAT_BF16

static const struct shape shapes[] = {
    { FP32, FP32, 3, 8, 5, 8, 5, 2, 3, 0, 0, 0.5f, 1, 0, 0, 0, 0 },
    { FP32, FP32, 17, 24, 50, 40, 50, 5, 5, 3, 0, 0.5f, 2, 0, 0.1f, 0, 0 },
    { FP32, FP32, 17, 24, 50, 40, 47, 5, 7, 3, 0, 0.75f, 2, 1, 0, 0, 0 },
    { FP32, FP32, 17, 24, 50, 40, 50, 17, 4, 2, 0, 0.25f, 0.5f, 0.5f, 0, 0, 0 },
    { FP32, FP32, 33, 16, 300, 24, 300, 16, 16, 0, 0, 1, 3, 0.1f, 0, 0, 0 },
    { FP32, FP32, 9, 16, 5000, 8, 4999, 4, 4, 4, 0, 0.9f, 1, 0.9f, 0.2f, 0, 0 },
    { FP32, FP32, 5, 16, 33, 16, 33, 4, 4, 1, 0, 0.5f, 1, 0, 0, 0, 0 },
    { FP32, BF16, 17, 24, 50, 40, 50, 5, 5, 3, 0, 0.5f, 2, 0.4f, 0, 0, 0 },
    { BF16, FP32, 40, 32, 200, 24, 200, 32, 32, 5, 0, 0.5f, 2, 0, 0.1f, 0, 0 },
    { BF16, FP16, 40, 32, 200, 24, 200, 32, 9, 5, 0, 0.5f, 1, 1, 0, 0, 0 },
    { FP16, FP16, 40, 32, 200, 24, 200, 32, 32, 5, 0, 0.5f, 1, 0.5f, 0, 0, 0 },
    { FP32, FP32, 17, 24, 50, 40, 47, 5, 7, 3, 0, 0.5f, 2, 0, 0.1f, 2, 0 },
    { FP32, BF16, 17, 24, 50, 40, 50, 5, 7, 3, 0, 0.5f, 1, 0.4f, 0, 3, 1.5f },
    { FP32, FP32, 17, 24, 50, 40, 50, 5, 7, 3, 0, 0.5f, 2, 1, 0, 0, 2 },
    { BF16, FP32, 40, 32, 200, 0, 190, 32, 0, 5, 9, 0.5f, 2, 0.3f, 0, 2, 0 },
    { FP32, FP32, 17, 24, 50, 0, 50, 5, 0, 3, 6, 0.5f, 2, 0, 0.1f, 0, 0 },
    { FP32, FP32, 17, 24, 50, 0, 47, 5, 0, 3, 1, 1, 1, 0.3f, 0, 0, 0 },
    { BF16, FP32, 40, 32, 200, 0, 200, 32, 0, 5, 200, 0.5f, 2, 0.8f, 0, 0, 0 },
    { FP16, FP32, 40, 32, 200, 0, 190, 32, 0, 5, 31, 0.5f, 2, 0, 0, 0, 0 },
};

enum { OPERANDS = 14 };

struct distill_case {
    union {
        struct operand all[OPERANDS];
        struct {
            struct operand x, w, losses, dx, dw, logits, dlogits, gathered, dgathered;
            struct operand kd_losses, tx, tw, tlogits, tgathered;
        };
    };
    struct operand values;
    int32_t *targets, *places, *ids;
    double *real[4]; /* losses, kd_losses, dx, dw */
    struct op_distill op;
    struct reference_distill reference;
};

static const struct operand none = { .numbers = 0 };

/* Tokens that are kept: some, ascending, with separate logits. */
static void keep_words(struct distill_case *c, const struct shape *s)
{
    c->values = operand_random(FORMAT_FP32, s->rows, s->kept, 2, 6);
    c->ids = machines_memory(s->rows * s->kept * sizeof(*c->ids));
    for (size_t n = 0; n < s->rows; n++)
        for (size_t k = 0; k < s->kept; k++)
            c->ids[n * s->kept + k] =
                (int32_t)((k * s->shared + n % (s->shared - s->kept + 1)) / s->kept);
}

static void take_operands(struct distill_case *c, const struct shape *s)
{
    bool live = s->kept == 0;

    c->x = operand_random(s->format, s->rows, s->cols, 1, 1);
    c->w = operand_random(s->format, s->words, s->cols, 0.5, 2);
    c->losses = operand_filled(FORMAT_FP32, 1, s->rows, 7);
    c->kd_losses = operand_filled(FORMAT_FP32, 1, s->rows, 7);
    c->dx = operand_filled(s->format, s->rows, s->cols, 7);
    c->dw = operand_random(FORMAT_FP32, s->words, s->cols, 1, 3);
    c->logits = operand_filled(FORMAT_FP32, s->chunk, s->words, 7);
    c->dlogits = operand_filled(s->format, s->chunk, s->words, 7);
    c->gathered = operand_filled(s->format, s->chunk, s->cols, 7);
    c->dgathered = operand_filled(s->format, s->chunk, s->cols, 7);
    c->tx = live ? operand_random(s->taught, s->rows, s->teacher, 1, 4) : none;
    c->tw = live ? operand_random(s->taught, s->shared, s->teacher, 0.5, 5) : none;
    c->tlogits = live ? operand_filled(FORMAT_FP32, s->chunk2, s->shared, 7) : none;
    c->tgathered = live ? operand_filled(s->taught, s->chunk2, s->teacher, 7) : none;
    c->values = none;
    c->ids = NULL;
    if (!live)
        keep_words(c, s);
    c->targets = machines_memory(s->rows * sizeof(*c->targets));
    c->places = machines_memory(s->rows * sizeof(*c->places));
    for (size_t i = 0; i < s->rows; i++)
        c->targets[i] = s->every && i % s->every == 0
                            ? -100
                            : (int32_t)((i * i + s->words - 1) % s->words);
}

static void case_refer(struct distill_case *c, const struct shape *s)
{
    memcpy(c->real[3], c->dw.real, c->dw.numbers * sizeof(double));
    c->reference = (struct reference_distill) {
        .student = { .rows = s->rows,
                     .cols = s->cols,
                     .words = s->words,
                     .x = c->x.real,
                     .w = c->w.real,
                     .targets = c->targets,
                     .grad_scale = 0.25,
                     .smoothing = (double)s->smoothing,
                     .softcap = (double)s->cap,
                     .losses = c->real[0],
                     .dx = c->real[2],
                     .dw = c->real[3] },
        .shared = s->shared,
        .cols = s->teacher,
        .kept = s->kept,
        .x = c->tx.real,
        .w = c->tw.real,
        .values = c->values.real,
        .ids = c->ids,
        .ratio = (double)s->ratio,
        .temperature = (double)s->temperature,
        .beta = (double)s->beta,
        .softcap = (double)s->cap2,
        .kd_losses = c->real[1],
    };
    reference_distill(&c->reference);
}

static void case_open(struct distill_case *c, const struct shape *s)
{
    take_operands(c, s);
    c->real[0] = calloc(s->rows, sizeof(double));
    c->real[1] = calloc(s->rows, sizeof(double));
    c->real[2] = calloc(s->rows * s->cols, sizeof(double));
    c->real[3] = calloc(s->words * s->cols, sizeof(double));
    case_refer(c, s);
    c->op = (struct op_distill) {
        .student = { .losses = c->losses.tensor,
                     .dx = c->dx.tensor,
                     .dw = c->dw.tensor,
                     .x = c->x.tensor,
                     .w = c->w.tensor,
                     .logits = c->logits.tensor,
                     .dlogits = c->dlogits.tensor,
                     .gathered = c->gathered.tensor,
                     .dgathered = c->dgathered.tensor,
                     .targets = c->targets,
                     .rows = c->places,
                     .grad_scale = 0.25f,
                     .smoothing = s->smoothing,
                     .softcap = s->cap },
        .kd_losses = c->kd_losses.tensor,
        .x = c->tx.tensor,
        .w = c->tw.tensor,
        .values = c->values.tensor,
        .logits = c->tlogits.tensor,
        .gathered = c->tgathered.tensor,
        .ids = c->ids,
        .words = s->kept ? s->shared : 0,
        .ratio = s->ratio,
        .temperature = s->temperature,
        .beta = s->beta,
        .softcap = s->cap2,
    };
}

static void case_close(struct distill_case *c)
{
    for (size_t i = 0; i < OPERANDS; i++)
        if (c->all[i].block)
            operand_clear(&c->all[i]);
    if (c->values.block)
        operand_clear(&c->values);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
    machines_memory_free(c->targets);
    machines_memory_free(c->places);
    machines_memory_free(c->ids);
}

/* A gradient is a matmul of dlogits, which are rounded to their format. */
static double gradient_units(enum format format)
{
    return 64 + (format == FORMAT_FP32 ? 0 : format_info(format)->epsilon * 0x1p23);
}

static void try_case(struct machines *machines, struct distill_case *c,
                     enum format format, size_t outcomes)
{
    double units = gradient_units(format);

    machines_try(machines, run_distill, &c->op,
                 (struct outcome[]) { { &c->losses, c->real[0], 8, 1 },
                                      { &c->kd_losses, c->real[1], 32, 1 },
                                      { &c->dx, c->real[2], units, 0.25 },
                                      { &c->dw, c->real[3], units, 0.25 } },
                 outcomes);
}

static void test_distill_follows_the_formula(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct distill_case c;

        case_open(&c, &shapes[i]);
        try_case(machines, &c, shapes[i].format, 4);
        c.op.student.dw = (struct tensor) { 0 }; /* a frozen head */
        if (!machines->slow || i < 3)
            try_case(machines, &c, shapes[i].format, 3);
        c.op.student.dx = (struct tensor) { 0 }; /* evaluation */
        try_case(machines, &c, shapes[i].format, 2);
        case_close(&c);
    }
}

/* The factor in backend memory, and the number of rows with a target if it is given. */
static void test_distill_reads_factor_and_count_from_memory(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 4 : 1) {
        struct distill_case c;
        float *scale = machines_memory(sizeof(*scale));

        case_open(&c, &shapes[i]);
        c.op.student.grad_scale = 0.5f;
        *scale = 0.5f;
        c.op.student.scale = scale;
        for (size_t k = 0; k < shapes[i].rows; k++)
            c.op.student.labeled += c.targets[k] >= 0;
        try_case(machines, &c, shapes[i].format, 4);
        machines_memory_free(scale);
        case_close(&c);
    }
}

/* CE has the probability of the target as a factor; the distance does not. */
static void test_distill_takes_dft(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 4 : 1) {
        struct distill_case c;

        case_open(&c, &shapes[i]);
        c.op.student.kind = c.reference.student.kind = TOKEN_LOSS_DFT;
        memcpy(c.real[3], c.dw.real, c.dw.numbers * sizeof(double));
        reference_distill(&c.reference);
        try_case(machines, &c, shapes[i].format, 4);
        case_close(&c);
    }
}

/* The weight of a row applies to both losses. */
static void test_distill_weighs_rows(void **state)
{
    for (size_t i = 3; i < TS_COUNT(shapes); i += 8) {
        struct distill_case c;
        float *weights = machines_memory(shapes[i].rows * sizeof(*weights));
        double *real = calloc(shapes[i].rows, sizeof(*real));

        case_open(&c, &shapes[i]);
        for (size_t k = 0; k < shapes[i].rows; k++)
            real[k] = (double)(weights[k] = (float)(k % 3) * 0.75f);
        memcpy(c.real[3], c.dw.real, c.dw.numbers * sizeof(double));
        c.reference.student.weights = real;
        reference_distill(&c.reference);
        c.op.student.weights = weights;
        try_case(*state, &c, shapes[i].format, 4);
        machines_memory_free(weights);
        free(real);
        case_close(&c);
    }
}

/* Of both heads. */
static void test_distill_adds_biases(void **state)
{
    for (size_t i = 1; i < TS_COUNT(shapes); i += 4) {
        const struct shape *s = &shapes[i];
        struct operand bias = operand_random(FORMAT_FP32, 1, s->words, 1, 8);
        struct operand dbias = operand_random(FORMAT_FP32, 1, s->words, 1, 9);
        struct operand taught = operand_random(FORMAT_FP32, 1, s->shared, 1, 10);
        double units = gradient_units(s->format);
        struct distill_case c;

        case_open(&c, s);
        memcpy(c.real[3], c.dw.real, c.dw.numbers * sizeof(double));
        c.op.student.bias = bias.tensor;
        c.op.student.dbias = dbias.tensor;
        c.reference.student.bias = bias.real;
        c.reference.student.dbias = calloc(s->words, sizeof(double));
        memcpy(c.reference.student.dbias, dbias.real, s->words * sizeof(double));
        if (!s->kept) {
            c.op.bias = taught.tensor;
            c.reference.bias = taught.real;
        }
        reference_distill(&c.reference);
        machines_try(
            *state, run_distill, &c.op,
            (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                 { &c.kd_losses, c.real[1], 32, 1 },
                                 { &c.dx, c.real[2], units, 0.25 },
                                 { &c.dw, c.real[3], units, 0.25 },
                                 { &dbias, c.reference.student.dbias, units, 0.25 } },
            5);
        free(c.reference.student.dbias);
        case_close(&c);
        operand_clear(&bias);
        operand_clear(&dbias);
        operand_clear(&taught);
    }
}

/* Logits of both models and their gradients with the model's layout on a GPU: rows on
 * multiples of 64 elements, with padding columns. */
static void test_distill_accepts_rows_with_gaps(void **state)
{
    static const struct shape padded[] = {
        { FP32, FP32, 9, 16, 501, 8, 499, 4, 4, 4, 0, 0.9f, 1, 0.9f, 0.2f, 0, 0 },
        { BF16, BF16, 40, 32, 203, 24, 201, 32, 32, 5, 0, 0.5f, 2, 0, 0, 0, 2 },
        { FP16, FP32, 17, 32, 67, 0, 66, 5, 0, 3, 9, 0.5f, 2, 0.3f, 0, 2, 0 },
    };

    for (size_t i = 0; i < TS_COUNT(padded); i++) {
        const struct shape *s = &padded[i];
        double units = gradient_units(s->format);
        struct distill_case c;

        case_open(&c, s);
        operand_clear(&c.logits);
        operand_clear(&c.dlogits);
        c.logits = operand_padded(FP32, s->chunk, s->words, 7);
        c.dlogits = operand_padded(s->format, s->chunk, s->words, 7);
        c.op.student.logits = c.logits.tensor;
        c.op.student.dlogits = c.dlogits.tensor;
        if (!s->kept) {
            operand_clear(&c.tlogits);
            c.tlogits = operand_padded(FP32, s->chunk2, s->shared, 7);
            c.op.logits = c.tlogits.tensor;
        }
        machines_try(*state, run_distill, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.kd_losses, c.real[1], 32, 1 },
                                          { &c.dx, c.real[2], units, 0.25 },
                                          { &c.dw, c.real[3], units, 0.25 },
                                          { &c.logits, NULL, 0, 0 },
                                          { &c.dlogits, NULL, 0, 0 },
                                          { &c.tlogits, NULL, 0, 0 } },
                     s->kept ? 6 : 7);
        case_close(&c);
    }
}

/* A teacher whose logits are all kept equals the full teacher. */
static void test_distill_with_all_logits_kept_equals_full_teacher(void **state)
{
    struct machines *machines = *state;
    struct shape shape = { FP32, FP32, 7,    12, 40,   12, 40, 7, 7,
                           3,    0,    0.5f, 2,  0.3f, 0,  0,  0 };

    for (size_t m = 0; m < machines->count; m++) {
        struct distill_case live, kept;

        shape.kept = 0;
        case_open(&live, &shape);
        machine_run(machines->backends[m], run_distill, &live.op);
        shape.kept = 40;
        case_open(&kept, &shape);
        for (size_t n = 0; n < shape.rows; n++)
            for (size_t v = 0; v < shape.words; v++) {
                double t = 0;

                for (size_t k = 0; k < shape.teacher; k++)
                    t += live.tx.real[n * shape.teacher + k] *
                         live.tw.real[v * shape.teacher + k];
                kept.values.real[n * shape.words + v] = t;
            }
        operand_write(&kept.values);
        machine_run(machines->backends[m], run_distill, &kept.op);
        operand_read(&kept.dx);
        operand_read(&live.dx);
        for (size_t i = 0; i < live.dx.numbers; i++)
            assert_float_equal((float)kept.dx.real[i], (float)live.dx.real[i], 2e-6f);
        case_close(&live);
        case_close(&kept);
    }
}

static double loss(void *context)
{
    struct reference_distill r = *(struct reference_distill *)context;
    double sum = 0;

    r.student.dx = r.student.dw = NULL;
    reference_distill(&r);
    for (size_t i = 0; i < r.student.rows; i++)
        sum += r.student.grad_scale *
               ((1 - r.ratio) * r.student.losses[i] + r.ratio * r.kd_losses[i]);
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    static const float betas[] = { 0, 0.3f, 1 };
    struct shape small = {
        FP32, FP32, 5, 6, 9, 4, 8, 2, 2, 3, 0, 0.6f, 2, 0, 0.2f, 0, 0
    };

    (void)state;
    for (size_t i = 0; i < 2 * TS_COUNT(betas) - 1; i++) {
        struct distill_case c;

        small.beta = betas[i / 2];
        small.kept = i % 2 ? 3 : 0;
        small.cap = i % 3 ? 2 : 0;
        case_open(&c, &small);
        for (size_t k = 0; k < c.dw.numbers; k++)
            c.real[3][k] -= c.dw.real[k]; /* it was accumulated */
        assert_true(reference_slope_error(loss, &c.reference, c.x.real, c.x.numbers,
                                          c.real[2]) < 1e-6);
        assert_true(reference_slope_error(loss, &c.reference, c.w.real, c.w.numbers,
                                          c.real[3]) < 1e-6);
        case_close(&c);
    }
}

/* Compare the bits of losses and dx for each chunk size; on a GPU as in
 * test_cpu_loss.c. */
static void try_chunk(struct machines *machines, struct distill_case *c,
                      const struct distill_case *first, enum format format)
{
    struct backend *be = machines->backends[1];
    bool gpu = be->ops->kind == DEVICE_CUDA;

    if (gpu)
        try_case(machines, c, format, 4);
    else
        machine_run(be, run_distill, &c->op);
    if (!gpu || machines->slow) {
        assert_memory_equal(c->losses.block, first->losses.block, c->losses.bytes);
        assert_memory_equal(c->kd_losses.block, first->kd_losses.block,
                            c->kd_losses.bytes);
        assert_memory_equal(c->dx.block, first->dx.block, c->dx.bytes);
    }
}

static void test_distill_is_independent_of_chunk_size(void **state)
{
    static const size_t chunks[] = { 1, 7, 64 };
    struct machines *machines = *state;

    for (size_t every = 0; every <= 5; every += 5) {
        struct shape shape = { FP32,  BF16, 65,   24, 120,  16, 120, 1, 1,
                               every, 0,    0.5f, 2,  0.5f, 0,  0,   0 };
        struct distill_case first, c;

        case_open(&first, &shape);
        machine_run(machines->backends[1], run_distill, &first.op);
        for (size_t i = 1; i < TS_COUNT(chunks); i++) {
            shape.chunk = chunks[i];
            shape.chunk2 = chunks[TS_COUNT(chunks) - i];
            case_open(&c, &shape);
            try_chunk(machines, &c, &first, shape.format);
            case_close(&c);
        }
        case_close(&first);
    }
}

/* fp16 gradients beyond 65504 must be visible: the scaler depends on it. */
static void test_distill_propagates_overflow(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct distill_case c;

        case_open(&c, &shapes[10]);
        c.op.student.grad_scale = 1e7f;
        machine_run(machines->backends[m], run_distill, &c.op);
        operand_read(&c.kd_losses);
        operand_read(&c.dx);
        assert_true(isfinite(c.kd_losses.real[1]));
        assert_false(isfinite(c.dx.real[shapes[10].cols]));
        case_close(&c);
    }
}

/* A NaN in the teacher is as bad as in the student: it affects only its rows, but these
 * for certain. */
static void test_distill_propagates_nan(void **state)
{
    static const size_t tried[] = { 0, 2, 3, 13, 15, 16 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++)
        for (size_t i = 0; i < 2 * TS_COUNT(tried); i++) {
            struct shape shape = shapes[tried[i / 2]];
            struct distill_case c;
            struct tensor broken;

            shape.every = 0;
            case_open(&c, &shape);
            broken = i % 2 ? c.x.tensor : shape.kept ? c.values.tensor : c.tx.tensor;
            ((float *)broken.data)[broken.stride] = NAN;
            machine_run(machines->backends[m], run_distill, &c.op);
            operand_read(&c.kd_losses);
            operand_read(&c.dx);
            assert_true(isfinite(c.kd_losses.real[0]) && isfinite(c.kd_losses.real[2]));
            assert_true(isnan(c.kd_losses.real[1]) && isnan(c.dx.real[shape.cols]));
            case_close(&c);
        }
}

/* PyTorch's logits: x holds them, and w is the identity. */
static void put_identity(struct operand *w)
{
    for (size_t i = 0; i < w->numbers; i++)
        w->real[i] = i / w->tensor.cols == i % w->tensor.cols;
    operand_write(w);
}

static void wanted_numbers(double *out, const json_t *numbers)
{
    for (size_t i = 0; i < json_array_size(numbers); i++)
        out[i] = json_number_value(json_array_get(numbers, i));
}

static void put_numbers(struct operand *x, const json_t *numbers)
{
    assert_int_equal(json_array_size(numbers), x->numbers);
    wanted_numbers(x->real, numbers);
    operand_write(x);
}

static double member(const json_t *object, const char *name)
{
    return json_number_value(json_object_get(object, name));
}

/* The teacher's k largest logits of each row, with token ids. */
static void keep_largest(struct distill_case *c, const struct shape *s,
                         const json_t *teacher)
{
    for (size_t n = 0; n < s->rows; n++)
        for (size_t v = 0, at = 0; v < s->shared; v++) {
            double t = json_number_value(json_array_get(teacher, n * s->shared + v));
            size_t larger = 0;

            for (size_t u = 0; u < s->shared; u++)
                larger +=
                    json_number_value(json_array_get(teacher, n * s->shared + u)) > t;
            if (larger >= s->kept)
                continue;
            c->ids[n * s->kept + at] = (int32_t)v;
            c->values.real[n * s->kept + at++] = t;
        }
    operand_write(&c->values);
}

static void try_golden(struct machines *machines, const json_t *row)
{
    size_t words = (size_t)member(row, "words"), shared = (size_t)member(row, "shared");
    const json_t *targets = json_object_get(row, "targets");
    struct shape s = { .format = FP32,
                       .taught = FP32,
                       .rows = json_array_size(targets),
                       .cols = words,
                       .words = words,
                       .teacher = shared,
                       .shared = shared,
                       .chunk = 2,
                       .chunk2 = 2,
                       .kept = (size_t)member(row, "top_k"),
                       .ratio = (float)member(row, "ratio"),
                       .temperature = (float)member(row, "temperature"),
                       .beta = (float)member(row, "beta"),
                       .smoothing = (float)member(row, "smoothing") };
    struct distill_case c;

    case_open(&c, &s);
    c.op.student.grad_scale = 1;
    put_identity(&c.w);
    put_numbers(&c.x, json_object_get(row, "student"));
    if (s.kept) {
        keep_largest(&c, &s, json_object_get(row, "teacher"));
    } else {
        put_identity(&c.tw);
        put_numbers(&c.tx, json_object_get(row, "teacher"));
    }
    for (size_t i = 0; i < s.rows; i++)
        c.targets[i] = (int32_t)json_integer_value(json_array_get(targets, i));
    wanted_numbers(c.real[0], json_object_get(row, "ce"));
    wanted_numbers(c.real[1], json_object_get(row, "kd"));
    wanted_numbers(c.real[2], json_object_get(row, "gradient"));
    machines_try(machines, run_distill, &c.op,
                 (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                      { &c.kd_losses, c.real[1], 32, 1 },
                                      { &c.dx, c.real[2], 32, 1 },
                                      { &c.dw, NULL, 0, 0 } },
                 3);
    case_close(&c);
}

static void test_distill_matches_pytorch(void **state)
{
    char *name = unit_source("tests/golden/distill.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, 1 << 20, &err), *row;
    size_t i;

    if (!golden)
        fail_msg("%s", err.text);
    assert_true(json_array_size(json_object_get(golden, "cases")) > 10);
    json_array_foreach(json_object_get(golden, "cases"), i, row) try_golden(*state, row);
    json_decref(golden);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_distill_follows_the_formula),
        cmocka_unit_test(test_distill_reads_factor_and_count_from_memory),
        cmocka_unit_test(test_distill_takes_dft),
        cmocka_unit_test(test_distill_weighs_rows),
        cmocka_unit_test(test_distill_adds_biases),
        cmocka_unit_test(test_distill_accepts_rows_with_gaps),
        cmocka_unit_test(test_distill_with_all_logits_kept_equals_full_teacher),
        cmocka_unit_test(test_distill_is_independent_of_chunk_size),
        cmocka_unit_test(test_distill_propagates_overflow),
        cmocka_unit_test(test_distill_propagates_nan),
        cmocka_unit_test(test_distill_matches_pytorch),
    };

    /* the bits of oneDNN's matmuls depend on the number of rows */
    setenv("TRAINSPOOL_NO_ONEDNN", "1", 1);
    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
