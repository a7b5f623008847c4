/* tests/unit/test_cpu_loss.c - losses and gradients of the last matmul follow the
 * formula, however its rows are divided into chunks. */
#include "config.h"

#include "kernels/backend.h"

#include <stdlib.h>

#include <math.h>

#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(classifier)

struct shape {
    enum format format;
    size_t rows, cols, words, chunk;
    size_t every; /* each every-th row has no target; 0: all have one, 1: none does */
    float smoothing;
};

static const struct shape shapes[] = {
    { FORMAT_FP32, 1, 8, 5, 1, 0, 0 },         { FORMAT_FP32, 3, 17, 50, 2, 0, 0.1f },
    { FORMAT_FP32, 17, 64, 1000, 5, 3, 0 },    { FORMAT_FP32, 257, 24, 300, 64, 2, 0 },
    { FORMAT_FP32, 257, 24, 300, 300, 0, 0 },  { FORMAT_FP32, 9, 16, 5000, 4, 4, 0.2f },
    { FORMAT_FP32, 5, 16, 33, 4, 1, 0 },       { FORMAT_BF16, 70, 64, 200, 32, 5, 0 },
    { FORMAT_FP16, 70, 64, 200, 32, 5, 0.1f }, { FORMAT_BF16, 70, 64, 200, 70, 0, 0 },
    { FORMAT_BF16, 5, 16, 9001, 3, 2, 0.1f },  { FORMAT_FP32, 3, 8, 16384, 3, 0, 0 },
};

struct loss_case {
    struct operand x, w, losses, dx, dw, logits, dlogits, gathered, dgathered;
    struct operand bias, dbias; /* of case_bias */
    int32_t *targets, *places;
    float *weights; /* NULL until case_weigh */
    double *real_weights;
    double *real[4]; /* losses, dx, dw, dbias */
    struct op_classifier op;
    struct reference_classifier reference;
};

static void case_refer(struct loss_case *c, const struct shape *s)
{
    memset(c->real[0], 0, s->rows * sizeof(double));
    memset(c->real[1], 0, s->rows * s->cols * sizeof(double));
    memcpy(c->real[2], c->dw.real, c->dw.numbers * sizeof(double));
    memcpy(c->real[3], c->dbias.real, c->dbias.numbers * sizeof(double));
    c->reference = (struct reference_classifier) {
        .rows = s->rows,
        .cols = s->cols,
        .words = s->words,
        .x = c->x.real,
        .w = c->w.real,
        .bias = c->op.bias.data ? c->bias.real : NULL,
        .targets = c->targets,
        .weights = c->real_weights,
        .grad_scale = 0.25,
        .smoothing = (double)s->smoothing,
        .softcap = (double)c->op.softcap,
        .kind = c->op.kind,
        .alpha = (double)c->op.alpha,
        .losses = c->real[0],
        .dx = c->real[1],
        .dw = c->real[2],
        .dbias = c->op.bias.data ? c->real[3] : NULL,
    };
    reference_classifier(&c->reference);
}

static void case_open(struct loss_case *c, const struct shape *s)
{
    enum format format = s->format;

    c->weights = NULL;
    c->real_weights = NULL;
    c->op.softcap = 0;
    c->op.kind = TOKEN_LOSS_PLAIN;
    c->op.bias = (struct tensor) { 0 };
    c->bias = operand_random(FORMAT_FP32, 1, s->words, 1, 4);
    c->dbias = operand_random(FORMAT_FP32, 1, s->words, 1, 5);
    c->x = operand_random(format, s->rows, s->cols, 1, 1);
    c->w = operand_random(format, s->words, s->cols, 1, 2);
    c->losses = operand_filled(FORMAT_FP32, 1, s->rows, 7);
    c->dx = operand_filled(format, s->rows, s->cols, 7);
    c->dw = operand_random(FORMAT_FP32, s->words, s->cols, 1, 3);
    c->logits = operand_filled(FORMAT_FP32, s->chunk, s->words, 7);
    c->dlogits = operand_filled(format, s->chunk, s->words, 7);
    c->gathered = operand_filled(format, s->chunk, s->cols, 7);
    c->dgathered = operand_filled(format, s->chunk, s->cols, 7);
    c->targets = machines_memory(s->rows * sizeof(*c->targets));
    c->places = machines_memory(s->rows * sizeof(*c->places));
    for (size_t i = 0; i < s->rows; i++)
        c->targets[i] = s->every && i % s->every == 0
                            ? -100
                            : (int32_t)((i * i + s->words - 1) % s->words);
    c->real[0] = calloc(s->rows, sizeof(double));
    c->real[1] = calloc(s->rows * s->cols, sizeof(double));
    c->real[2] = calloc(s->words * s->cols, sizeof(double));
    c->real[3] = calloc(s->words, sizeof(double));
    case_refer(c, s);
    c->op = (struct op_classifier) {
        .losses = c->losses.tensor,
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
    };
}

/* Weight of each row: 0, 0.5, 1, 1.5, 2, 0, ... */
static void case_weigh(struct loss_case *c, const struct shape *s)
{
    c->weights = machines_memory(s->rows * sizeof(*c->weights));
    c->real_weights = calloc(s->rows, sizeof(*c->real_weights));
    for (size_t i = 0; i < s->rows; i++)
        c->real_weights[i] = (double)(c->weights[i] = 0.5f * (float)(i % 5));
    c->op.weights = c->weights;
    case_refer(c, s);
}

static void case_cap(struct loss_case *c, const struct shape *s, float softcap)
{
    c->op.softcap = softcap;
    case_refer(c, s);
}

static void case_kind(struct loss_case *c, const struct shape *s, enum token_loss kind,
                      float alpha)
{
    c->op.kind = kind;
    c->op.alpha = alpha;
    case_refer(c, s);
}

static void case_bias(struct loss_case *c, const struct shape *s)
{
    c->op.bias = c->bias.tensor;
    c->op.dbias = c->dbias.tensor;
    case_refer(c, s);
}

static void case_close(struct loss_case *c)
{
    struct operand *operands[] = { &c->x,        &c->w,         &c->losses, &c->dx,
                                   &c->dw,       &c->logits,    &c->bias,   &c->dlogits,
                                   &c->gathered, &c->dgathered, &c->dbias };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    for (size_t i = 0; i < TS_COUNT(c->real); i++)
        free(c->real[i]);
    free(c->real_weights);
    if (c->weights)
        machines_memory_free(c->weights);
    machines_memory_free(c->targets);
    machines_memory_free(c->places);
}

/* A gradient is a matmul of dlogits, which are rounded to their format. */
static double gradient_units(enum format format)
{
    return 32 + (format == FORMAT_FP32 ? 0 : format_info(format)->epsilon * 0x1p23);
}

static void test_classifier_follows_the_formula(void **state)
{
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct loss_case c;
        double units = gradient_units(shapes[i].format);

        case_open(&c, &shapes[i]);
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.dx, c.real[1], units, 0.25 },
                                          { &c.dw, c.real[2], units, 0.25 } },
                     3);
        c.op.dw = (struct tensor) { 0 }; /* a frozen head */
        if (!machines->slow || i < 3)
            machines_try(*state, run_classifier, &c.op,
                         (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                              { &c.dx, c.real[1], units, 0.25 } },
                         2);
        c.op.dx = (struct tensor) { 0 }; /* evaluation */
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 } }, 1);
        case_close(&c);
    }
}

static int32_t likeliest(const struct loss_case *c, const struct shape *s, size_t row)
{
    double most = -INFINITY;
    int32_t best = 0;

    for (size_t v = 0; v < s->words; v++) {
        double logit = 0;

        for (size_t i = 0; i < s->cols; i++)
            logit += c->x.real[row * s->cols + i] * c->w.real[v * s->cols + i];
        best = logit > most ? (int32_t)v : best;
        most = fmax(most, logit);
    }
    return best;
}

/* Of the rows with a target, every third has the most likely token as its target. */
static void test_classifier_counts_hits(void **state)
{
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 3 : 1) {
        struct loss_case c;
        struct operand hits;
        size_t count = 0;

        case_open(&c, &shapes[i]);
        hits = operand_filled(FORMAT_FP32, 1, shapes[i].rows, 7);
        for (size_t row = 1; row < shapes[i].rows; row += 3)
            if (c.targets[row] >= 0)
                c.targets[row] = likeliest(&c, &shapes[i], row);
        c.reference.hits = calloc(shapes[i].rows, sizeof(double));
        c.reference.dx = c.reference.dw = NULL;
        reference_classifier(&c.reference);
        c.op.hits = hits.tensor.data;
        c.op.dx = c.op.dw = (struct tensor) { 0 };
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &hits, c.reference.hits, 0, 0 } },
                     2);
        for (size_t row = 1; row < shapes[i].rows; row += 3) {
            assert_true(c.reference.hits[row] == (c.targets[row] >= 0));
            count += c.targets[row] >= 0;
        }
        assert_true(count > 0 || shapes[i].every == 1 || shapes[i].rows == 1);
        free(c.reference.hits);
        operand_clear(&hits);
        case_close(&c);
    }
}

/* The factor in backend memory, and the number of rows with a target if it is given. */
static void test_classifier_reads_factor_and_count_from_memory(void **state)
{
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 3 : 1) {
        struct loss_case c;
        double units = gradient_units(shapes[i].format);
        float *scale = machines_memory(sizeof(*scale));

        case_open(&c, &shapes[i]);
        c.op.grad_scale = 0.5f;
        *scale = 0.5f;
        c.op.scale = scale;
        for (size_t k = 0; k < shapes[i].rows; k++)
            c.op.labeled += c.targets[k] >= 0;
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.dx, c.real[1], units, 0.25 },
                                          { &c.dw, c.real[2], units, 0.25 } },
                     3);
        machines_memory_free(scale);
        case_close(&c);
    }
}

/* Losses and gradients of a row scale with its weight; a row of weight 0 has no
 * effect. */
static void test_classifier_weighs_rows(void **state)
{
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 3 : 1) {
        struct loss_case c;
        double units = gradient_units(shapes[i].format);

        case_open(&c, &shapes[i]);
        case_weigh(&c, &shapes[i]);
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 2 },
                                          { &c.dx, c.real[1], units, 0.5 },
                                          { &c.dw, c.real[2], units, 0.5 } },
                     3);
        assert_true(c.real[0][0] == 0 && c.real[1][0] == 0);
        case_close(&c);
    }
}

/* Logits are about 4 to 8: below one cap, above the other. */
static void test_classifier_caps_logits(void **state)
{
    static const float caps[] = { 30, 3 };
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 3 : 1) {
        struct loss_case c;
        double units = gradient_units(shapes[i].format);

        case_open(&c, &shapes[i]);
        case_cap(&c, &shapes[i], caps[i % 2]);
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.dx, c.real[1], units, 0.25 },
                                          { &c.dw, c.real[2], units, 0.25 } },
                     3);
        c.op.dx = c.op.dw = (struct tensor) { 0 };
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 } }, 1);
        case_close(&c);
    }
}

/* With and without a cap and weights; fewer and more tokens than EAFT counts. */
static void test_classifier_has_factors_of_other_losses(void **state)
{
    static const struct {
        enum token_loss kind;
        float alpha;
    } kinds[] = { { TOKEN_LOSS_DFT, 0 }, { TOKEN_LOSS_EAFT, 1 }, { TOKEN_LOSS_EAFT, 2 } };
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(kinds) * TS_COUNT(shapes);
         i += machines->slow ? 5 : 1) {
        const struct shape *s = &shapes[i / TS_COUNT(kinds)];
        struct loss_case c;
        double units = gradient_units(s->format);

        case_open(&c, s);
        if (i % 2)
            case_weigh(&c, s);
        if (i % 4 == 2)
            case_cap(&c, s, 3);
        case_kind(&c, s, kinds[i % TS_COUNT(kinds)].kind,
                  kinds[i % TS_COUNT(kinds)].alpha);
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 16, 1 },
                                          { &c.dx, c.real[1], units, 0.25 },
                                          { &c.dw, c.real[2], units, 0.25 } },
                     3);
        c.op.dx = c.op.dw = (struct tensor) { 0 };
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 16, 1 } }, 1);
        case_close(&c);
    }
}

static void test_classifier_adds_a_bias(void **state)
{
    const struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(shapes); i += machines->slow ? 3 : 1) {
        struct loss_case c;
        double units = gradient_units(shapes[i].format);

        case_open(&c, &shapes[i]);
        case_bias(&c, &shapes[i]);
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.dx, c.real[1], units, 0.25 },
                                          { &c.dw, c.real[2], units, 0.25 },
                                          { &c.dbias, c.real[3], units, 0.25 } },
                     4);
        c.op.dx = c.op.dw = c.op.dbias = (struct tensor) { 0 };
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 } }, 1);
        case_close(&c);
    }
}

/* Many rows of which few have a target: all of a long list are visited, in order. */
static void test_classifier_finds_few_targets_among_many_rows(void **state)
{
    static const struct shape shape = { FORMAT_BF16, 1100, 8, 5, 16, 0, 0 };
    double units = gradient_units(shape.format);
    struct loss_case c;

    case_open(&c, &shape);
    for (size_t i = 0; i < shape.rows; i++)
        if (i % 97 != 5)
            c.targets[i] = -100;
    case_refer(&c, &shape);
    machines_try(*state, run_classifier, &c.op,
                 (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                      { &c.dx, c.real[1], units, 0.25 },
                                      { &c.dw, c.real[2], units, 0.25 } },
                 3);
    case_close(&c);
}

/* Logits are overwritten with their gradients, as the model lays them out in fp32. */
static void test_classifier_may_overwrite_logits_with_gradients(void **state)
{
    struct loss_case c;

    for (int capped = 0; capped < 2; capped++) {
        case_open(&c, &shapes[2]);
        case_cap(&c, &shapes[2], capped ? 5 : 0);
        c.op.dlogits = c.op.logits;
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.dx, c.real[1], 32, 0.25 },
                                          { &c.dw, c.real[2], 32, 0.25 } },
                     3);
        case_close(&c);
    }
}

/* Rows of logits and of their gradients on multiples of 64 elements, as in the model on a
 * GPU, with padding columns: whole tiles, and more or fewer columns than vectors have. */
static void test_classifier_accepts_rows_with_gaps(void **state)
{
    static const struct shape padded[] = {
        { FORMAT_FP32, 9, 16, 5001, 4, 4, 0.2f },
        { FORMAT_BF16, 70, 64, 203, 32, 5, 0 },
        { FORMAT_FP16, 70, 64, 129, 32, 5, 0 },
        { FORMAT_BF16, 5, 16, 9001, 3, 2, 0.1f },
        { FORMAT_BF16, 17, 24, 65, 5, 0, 0 },
        { FORMAT_FP32, 17, 24, 63, 5, 0, 0 },
    };

    for (size_t i = 0; i < 2 * TS_COUNT(padded); i++) {
        const struct shape *s = &padded[i / 2];
        struct loss_case c;
        double units = gradient_units(s->format);

        case_open(&c, s);
        operand_clear(&c.logits);
        operand_clear(&c.dlogits);
        c.logits = operand_padded(FORMAT_FP32, s->chunk, s->words, 7);
        c.dlogits = operand_padded(s->format, s->chunk, s->words, 7);
        c.op.logits = c.logits.tensor;
        c.op.dlogits = c.dlogits.tensor;
        case_cap(&c, s, i % 2 ? 5 : 0);
        machines_try(*state, run_classifier, &c.op,
                     (struct outcome[]) { { &c.losses, c.real[0], 8, 1 },
                                          { &c.dx, c.real[1], units, 0.25 },
                                          { &c.dw, c.real[2], units, 0.25 },
                                          { &c.logits, NULL, 0, 0 },
                                          { &c.dlogits, NULL, 0, 0 } },
                     5);
        case_close(&c);
    }
}

static double loss(void *context)
{
    struct reference_classifier r = *(struct reference_classifier *)context;
    double sum = 0;

    r.dx = r.dw = NULL;
    reference_classifier(&r);
    for (size_t i = 0; i < r.rows; i++)
        sum += r.grad_scale * r.losses[i];
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    static const struct shape small = { FORMAT_FP32, 5, 6, 9, 2, 3, 0.2f };
    struct loss_case c;

    (void)state;
    case_open(&c, &small);
    c.op.softcap = 2;
    case_weigh(&c, &small);
    for (size_t i = 0; i < c.dw.numbers; i++)
        c.real[2][i] -= c.dw.real[i]; /* it was accumulated */
    assert_true(reference_slope_error(loss, &c.reference, c.x.real, c.x.numbers,
                                      c.real[1]) < 1e-6);
    assert_true(reference_slope_error(loss, &c.reference, c.w.real, c.w.numbers,
                                      c.real[2]) < 1e-6);
    case_close(&c);
}

/* The gradient of the loss with a constant factor p is that of -p. */
static double probability(void *context)
{
    struct reference_classifier r = *(struct reference_classifier *)context;
    double sum = 0;

    r.dx = r.dw = NULL;
    r.kind = TOKEN_LOSS_PLAIN;
    reference_classifier(&r);
    for (size_t i = 0; i < r.rows; i++)
        sum -= r.targets[i] >= 0 ? r.grad_scale * exp(-r.losses[i]) : 0;
    return sum;
}

static void test_reference_gradient_of_dft_matches_differences(void **state)
{
    static const struct shape small = { FORMAT_FP32, 5, 6, 9, 2, 3, 0 };
    struct loss_case c;

    (void)state;
    case_open(&c, &small);
    case_kind(&c, &small, TOKEN_LOSS_DFT, 0);
    for (size_t i = 0; i < c.dw.numbers; i++)
        c.real[2][i] -= c.dw.real[i]; /* it was accumulated */
    assert_true(reference_slope_error(probability, &c.reference, c.x.real, c.x.numbers,
                                      c.real[1]) < 1e-6);
    assert_true(reference_slope_error(probability, &c.reference, c.w.real, c.w.numbers,
                                      c.real[2]) < 1e-6);
    case_close(&c);
}

/* Compare the bits of losses and dx for each chunk size.  A GPU's library has different
 * kernels for different row counts, so there the results are only within tolerance; the
 * emulated one has one kernel for all. */
static void try_chunk(struct machines *machines, struct loss_case *c,
                      const struct loss_case *first, enum format format)
{
    struct backend *be = machines->backends[1];
    bool gpu = be->ops->kind == DEVICE_CUDA;

    if (gpu)
        machines_try(
            machines, run_classifier, &c->op,
            (struct outcome[]) { { &c->losses, c->real[0], 8, 1 },
                                 { &c->dx, c->real[1], gradient_units(format), 0.25 },
                                 { &c->dw, NULL, 0, 0 } },
            3);
    else
        machine_run(be, run_classifier, &c->op);
    if (!gpu || machines->slow) {
        assert_memory_equal(c->losses.block, first->losses.block, c->losses.bytes);
        assert_memory_equal(c->dx.block, first->dx.block, c->dx.bytes);
    }
}

static void test_classifier_is_independent_of_chunk_size(void **state)
{
    static const size_t chunks[] = { 1, 7, 64, 257 };
    static const enum format formats[] = { FORMAT_FP32, FORMAT_BF16 };
    struct machines *machines = *state;

    for (size_t f = 0; f < TS_COUNT(formats); f++)
        for (size_t every = 0; every <= 5; every += 5) {
            struct shape shape = { formats[f], 257, 72, 600, 0, every, 0 };
            struct loss_case first, c;

            shape.chunk = chunks[0];
            case_open(&first, &shape);
            machine_run(machines->backends[1], run_classifier, &first.op);
            for (size_t i = 1; i < TS_COUNT(chunks); i++) {
                shape.chunk = chunks[i];
                case_open(&c, &shape);
                try_chunk(machines, &c, &first, formats[f]);
                case_close(&c);
            }
            case_close(&first);
        }
}

/* fp16 gradients beyond 65504 must be visible: the scaler depends on it. */
static void test_classifier_propagates_overflow(void **state)
{
    static const struct shape shape = { FORMAT_FP16, 3, 16, 33, 3, 0, 0 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];
        struct loss_case c;

        case_open(&c, &shape);
        c.op.grad_scale = 1e6f;
        machine_run(be, run_classifier, &c.op);
        operand_read(&c.losses);
        operand_read(&c.dx);
        operand_read(&c.dw);
        assert_true(isfinite(c.losses.real[0]));
        assert_false(isfinite(c.dx.real[0]));
        assert_false(isfinite(c.dw.real[(size_t)c.targets[0] * shape.cols]));
        case_close(&c);
    }
}

static void test_classifier_propagates_nan(void **state)
{
    static const struct shape shape = { FORMAT_FP32, 3, 16, 33, 3, 0, 0 };
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++) {
        struct backend *be = machines->backends[m];
        struct loss_case c;

        case_open(&c, &shape);
        ((float *)c.x.tensor.data)[c.x.tensor.stride] = NAN;
        machine_run(be, run_classifier, &c.op);
        operand_read(&c.losses);
        operand_read(&c.dx);
        assert_true(isfinite(c.losses.real[0]) && isfinite(c.losses.real[2]));
        assert_true(isnan(c.losses.real[1]) && isnan(c.dx.real[shape.cols]));
        case_close(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_classifier_follows_the_formula),
        cmocka_unit_test(test_classifier_counts_hits),
        cmocka_unit_test(test_classifier_reads_factor_and_count_from_memory),
        cmocka_unit_test(test_classifier_weighs_rows),
        cmocka_unit_test(test_classifier_caps_logits),
        cmocka_unit_test(test_classifier_has_factors_of_other_losses),
        cmocka_unit_test(test_reference_gradient_of_dft_matches_differences),
        cmocka_unit_test(test_classifier_adds_a_bias),
        cmocka_unit_test(test_classifier_finds_few_targets_among_many_rows),
        cmocka_unit_test(test_classifier_may_overwrite_logits_with_gradients),
        cmocka_unit_test(test_classifier_accepts_rows_with_gaps),
        cmocka_unit_test(test_classifier_is_independent_of_chunk_size),
        cmocka_unit_test(test_classifier_propagates_overflow),
        cmocka_unit_test(test_classifier_propagates_nan),
    };

    /* the bits of oneDNN's matmuls depend on the number of rows */
    setenv("TRAINSPOOL_NO_ONEDNN", "1", 1);
    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
