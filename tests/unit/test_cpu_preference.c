/* tests/unit/test_cpu_preference.c - losses of pairs of answers and the weights of their
 * tokens follow the formulas and match LLaMA-Factory's and TRL's, at every length and
 * even for extreme differences. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/reference/backend_double.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(preference)

struct setting {
    enum preference_loss kind;
    float beta, ftx, smoothing, margin;
    float chosen_weight, rejected_weight;
    float center, scale; /* scale 0: none */
};

static const struct setting settings[] = {
    { PREFERENCE_SIGMOID, 0.1f, 0, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_SIGMOID, 0.5f, 0, 0.1f, 0, 0, 0, 0, 0 },
    { PREFERENCE_SIGMOID, 2, 0.3f, 0.1f, 0, 0, 0, 0, 0 },
    { PREFERENCE_HINGE, 0.1f, 0, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_HINGE, 0.01f, 1, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_IPO, 0.1f, 0, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_IPO, 0.7f, 0.2f, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_ORPO, 0.1f, 0, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_ORPO, 1, 0.5f, 0, 0, 0, 0, 0, 0 },
    { PREFERENCE_SIMPO, 2.5f, 0, 0, 1.4f, 0, 0, 0, 0 },
    { PREFERENCE_SIMPO, 2, 0.1f, 0, 0.5f, 0, 0, 0, 0 },
    { PREFERENCE_SIMPO, 2, 0, 0, 0, 0, 0, 0, 0 },
    { .kind = PREFERENCE_REWARD },
    { .kind = PREFERENCE_REWARD, .center = 0.25f, .scale = 512 },
};

struct runs {
    size_t pairs, longest; /* lengths range from 0 to this */
    /* each every-th row and bare-th sequence has no target; 0: all do */
    size_t every, bare;
    size_t behind;       /* rows after the last sequence */
    const size_t *given; /* the lengths; NULL: as above */
};

static const struct runs lengths[] = {
    { 1, 5, 0, 0, 0, NULL },      { 1, 301, 3, 0, 700, NULL }, { 2, 1, 0, 0, 1, NULL },
    { 3, 0, 0, 0, 4, NULL },      { 6, 9, 2, 3, 600, NULL },   { 33, 40, 4, 5, 33, NULL },
    { 4, 1000, 7, 0, 300, NULL },
};

static bool has_reference(enum preference_loss kind)
{
    return kind != PREFERENCE_ORPO && kind != PREFERENCE_SIMPO &&
           kind != PREFERENCE_REWARD;
}

struct preference_case {
    struct operand pairs, losses, reference, weights;
    int32_t *targets, *offsets;
    float *scale;
    double *wanted_pairs, *wanted_weights;
    struct op_preference op;
    struct reference_preference refer;
};

static size_t length_of(const struct runs *runs, size_t run)
{
    return runs->given ? runs->given[run]
                       : runs->longest - run * run * 5 % (runs->longest + 1);
}

static void put_rows(struct preference_case *c, const struct runs *runs)
{
    size_t rows = 0;

    c->offsets = machines_memory((2 * runs->pairs + 1) * sizeof(*c->offsets));
    for (size_t run = 0; run < 2 * runs->pairs; run++) {
        c->offsets[run] = (int32_t)rows;
        rows += length_of(runs, run);
    }
    c->offsets[2 * runs->pairs] = (int32_t)rows;
    rows += runs->behind;
    c->targets = machines_memory(rows * sizeof(*c->targets));
    for (size_t n = 0; n < rows; n++)
        c->targets[n] = runs->every && n % runs->every == 0 ? -100 : (int32_t)(n % 50);
    for (size_t run = 0; runs->bare && run < 2 * runs->pairs; run += runs->bare)
        for (int32_t n = c->offsets[run]; n < c->offsets[run + 1]; n++)
            c->targets[n] = -1;
    for (size_t n = rows - runs->behind; n < rows; n++)
        c->targets[n] = n % 3 ? -100 : 7;
}

/* Losses are positive; rows without a target are not read. */
static struct operand losses_new(const int32_t *targets, size_t rows, uint64_t seed)
{
    struct operand o = operand_random(FORMAT_FP32, 1, rows, 1, seed);

    for (size_t n = 0; n < rows; n++)
        o.real[n] = targets[n] < 0 ? NAN : fabs(o.real[n]);
    operand_write(&o);
    return o;
}

static void case_refer(struct preference_case *c, const struct setting *s)
{
    c->refer = (struct reference_preference) {
        .pairs = c->pairs.tensor.rows,
        .rows = c->losses.numbers,
        .losses = c->losses.real,
        .reference = c->reference.real,
        .targets = c->targets,
        .offsets = c->offsets,
        .kind = s->kind,
        .beta = (double)s->beta,
        .ftx = (double)s->ftx,
        .smoothing = (double)s->smoothing,
        .margin = (double)s->margin,
        .chosen_weight = (double)s->chosen_weight,
        .rejected_weight = (double)s->rejected_weight,
        .center = (double)s->center,
        .scale = (double)s->scale,
        .out = c->wanted_pairs,
        .weights = c->wanted_weights,
    };
    reference_preference(&c->refer);
}

static void case_open(struct preference_case *c, const struct setting *s,
                      const struct runs *runs)
{
    size_t rows;

    *c = (struct preference_case) { 0 };
    put_rows(c, runs);
    rows = (size_t)c->offsets[2 * runs->pairs] + runs->behind;
    c->pairs = operand_filled(FORMAT_FP32, runs->pairs, PREFERENCE_VALUES, 7);
    c->losses = losses_new(c->targets, rows, 1);
    if (has_reference(s->kind))
        c->reference = losses_new(c->targets, rows, 2);
    c->weights = operand_filled(FORMAT_FP32, 1, rows, 7);
    c->wanted_pairs = calloc(c->pairs.numbers, sizeof(double));
    c->wanted_weights = calloc(rows, sizeof(double));
    case_refer(c, s);
    c->op = (struct op_preference) {
        .pairs = c->pairs.tensor,
        .losses = c->losses.tensor,
        .reference = c->reference.tensor,
        .weights = c->weights.tensor.data,
        .targets = c->targets,
        .offsets = c->offsets,
        .kind = s->kind,
        .beta = s->beta,
        .ftx = s->ftx,
        .smoothing = s->smoothing,
        .margin = s->margin,
        .chosen_weight = s->chosen_weight,
        .rejected_weight = s->rejected_weight,
        .center = s->center,
    };
    if (s->scale > 0) {
        c->scale = machines_memory(sizeof(*c->scale));
        *c->scale = s->scale;
        c->op.scale = c->scale;
    }
}

static void case_close(struct preference_case *c)
{
    operand_clear(&c->pairs);
    operand_clear(&c->losses);
    operand_clear(&c->reference);
    operand_clear(&c->weights);
    machines_memory_free(c->targets);
    machines_memory_free(c->offsets);
    machines_memory_free(c->scale);
    free(c->wanted_pairs);
    free(c->wanted_weights);
}

/* Results are almost correctly rounded: intermediate values are in double. */
static void try_case(struct machines *machines, struct preference_case *c)
{
    machines_try(machines, run_preference, &c->op,
                 (struct outcome[]) { { &c->pairs, c->wanted_pairs, 0.001, 0 },
                                      { &c->weights, c->wanted_weights, 0.001, 0 } },
                 2);
}

/* One value for all rows of a sequence that have a target, 0 for the others. */
static void check_weights(const struct preference_case *c)
{
    const float *weights = c->weights.tensor.data;
    size_t run = 0, runs = 2 * c->pairs.tensor.rows, first = SIZE_MAX;

    for (size_t n = 0; n < c->weights.numbers; n++) {
        while (run < runs && n >= (size_t)c->offsets[run + 1]) {
            first = SIZE_MAX;
            run++;
        }
        if (run == runs || c->targets[n] < 0) {
            assert_true(weights[n] == 0);
            continue;
        }
        first = first == SIZE_MAX ? n : first;
        assert_memory_equal(&weights[n], &weights[first], sizeof(*weights));
    }
}

/* Every other setting, one of each kind. */
static void test_preference_follows_the_formula(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(lengths); i++)
        for (size_t k = 0; k < TS_COUNT(settings); k += machines->slow && i > 1 ? 2 : 1) {
            struct preference_case c;

            case_open(&c, &settings[k], &lengths[i]);
            try_case(machines, &c);
            check_weights(&c);
            case_close(&c);
        }
}

/* More sequences than the pairs': rows of the others follow. */
static void test_preference_ignores_other_sequences(void **state)
{
    static const struct runs four = { 4, 30, 3, 0, 5, NULL };

    for (size_t k = 0; k < TS_COUNT(settings); k++) {
        struct preference_case c;
        struct operand all;

        case_open(&c, &settings[k], &four);
        all = c.pairs;
        c.pairs = operand_filled(FORMAT_FP32, 3, PREFERENCE_VALUES, 7);
        c.op.pairs = c.pairs.tensor;
        case_refer(&c, &settings[k]);
        try_case(*state, &c);
        check_weights(&c);
        operand_clear(&all);
        case_close(&c);
    }
}

/* The last row of a sequence has no target; `bad` answers are marked there. */
static void mark_answers(struct preference_case *c, const json_t *good)
{
    for (size_t run = 0; run < 2 * c->pairs.tensor.rows; run++) {
        int32_t end = c->offsets[run + 1];
        bool is_good = good ? json_integer_value(json_array_get(good, run / 2)) != 0
                            : run / 2 % 3 > 0;

        if (end > c->offsets[run])
            c->targets[end - 1] = run % 2 == 0 && !is_good ? TARGET_BAD : -100;
    }
}

static const struct setting feedback[] = {
    { PREFERENCE_KTO, 0.1f, 0, 0, 0, 1, 1, 0, 0 },
    { PREFERENCE_KTO, 0.5f, 0.3f, 0, 0, 1.5f, 0.5f, 0, 0 },
    { PREFERENCE_KTO, 2, 0, 0, 0, 0, 2, 0, 0 },
};

/* Without and with a divergence, which depends on the losses. */
static void test_feedback_follows_the_formula(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < 2 * TS_COUNT(lengths); i++)
        for (size_t k = 0; k < TS_COUNT(feedback); k++) {
            struct preference_case c;

            case_open(&c, &feedback[k], &lengths[i / 2]);
            for (size_t n = 0; i % 2 && n < c.reference.numbers; n++)
                c.reference.real[n] *= 3;
            operand_write(&c.reference);
            mark_answers(&c, NULL);
            case_refer(&c, &feedback[k]);
            try_case(machines, &c);
            case_close(&c);
        }
}

static double loss(void *context)
{
    struct reference_preference r = *(struct reference_preference *)context;
    double sum = 0;

    r.out = calloc(r.pairs * PREFERENCE_VALUES, sizeof(double));
    r.weights = calloc(r.rows, sizeof(double));
    reference_preference(&r);
    for (size_t p = 0; p < r.pairs; p++)
        sum += r.out[p * PREFERENCE_VALUES + PREFERENCE_LOSS];
    free(r.out);
    free(r.weights);
    return sum;
}

static void test_reference_gradient_matches_differences(void **state)
{
    static const struct runs runs = { 6, 9, 5, 4, 3, NULL };

    (void)state;
    for (size_t k = 0; k < TS_COUNT(settings); k++) {
        struct preference_case c;

        case_open(&c, &settings[k], &runs);
        for (size_t n = 0; c.refer.scale > 0 && n < c.losses.numbers; n++)
            c.wanted_weights[n] /= c.refer.scale;
        assert_true(reference_slope_error(loss, &c.refer, c.losses.real, c.losses.numbers,
                                          c.wanted_weights) < 1e-8);
        case_close(&c);
    }
}

/* ---- Extreme losses ---- */

/* Answers of one row each, without a reference. */
static void test_preference_is_finite_for_extreme_losses(void **state)
{
    const double doubt = -expm1(-0x1p-23), log_doubt = log(doubt);
    const struct {
        struct setting setting;
        float chosen, rejected; /* their losses */
        double loss, up, down;  /* of the pair, and its weights */
    } cases[] = {
        { { PREFERENCE_SIGMOID, 1, 0, 0, 0, 0, 0, 0, 0 }, 1e6f, 0, 1e6, 1, -1 },
        { { PREFERENCE_SIGMOID, 1, 0, 0, 0, 0, 0, 0, 0 }, 0, 1e6f, 0, 0, 0 },
        { { PREFERENCE_SIGMOID, 4, 0, 0, 0, 0, 0, 0, 0 }, 0, 0, log(2), 2, -2 },
        { { PREFERENCE_SIGMOID, 1, 0, 0.25f, 0, 0, 0, 0, 0 },
          1e6f,
          0,
          750000,
          0.75,
          -0.75 },
        { { PREFERENCE_SIGMOID, 1, 0, 0.25f, 0, 0, 0, 0, 0 },
          0,
          1e6f,
          250000,
          -0.25,
          0.25 },
        { { PREFERENCE_SIGMOID, 0x1p20f, 0, 0, 0, 0, 0, 0, 0 },
          0x1p100f,
          0,
          0x1p120,
          0x1p20,
          -0x1p20 },
        { { PREFERENCE_HINGE, 0.5f, 0, 0, 0, 0, 0, 0, 0 }, 1, 3, 0, 0, 0 },
        { { PREFERENCE_HINGE, 0.5f, 0, 0, 0, 0, 0, 0, 0 }, 1, 2.75f, 0.125, 0.5, -0.5 },
        { { PREFERENCE_HINGE, 0.5f, 0, 0, 0, 0, 0, 0, 0 }, 1, 3.25f, 0, 0, 0 },
        { { PREFERENCE_HINGE, 0.5f, 0, 0, 0, 0, 0, 0, 0 }, 1e6f, 0, 500001, 0.5, -0.5 },
        { { PREFERENCE_IPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 },
          1e6f,
          0,
          1.000002000001e12,
          2000002,
          -2000002 },
        { { PREFERENCE_IPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 },
          0,
          1e6f,
          0.999998000001e12,
          -1999998,
          1999998 },
        { { PREFERENCE_ORPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 },
          0,
          0,
          log(2) / 2,
          1 + 0.25 / doubt,
          -0.25 / doubt },
        { { PREFERENCE_ORPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 },
          0x1p-26f,
          0x1p-26f,
          0x1p-26 + log(2) / 2,
          1 + 0.25 / doubt,
          -0.25 / doubt },
        { { PREFERENCE_ORPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 }, 1e-30f, 1e4f, 0, 1, 0 },
        { { PREFERENCE_ORPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 },
          1e4f,
          0,
          15000 - log_doubt / 2,
          1.5,
          -0.5 / doubt },
        { { PREFERENCE_ORPO, 0.5f, 0, 0, 0, 0, 0, 0, 0 },
          1e6f,
          1e6f,
          1e6 + log(2) / 2,
          1.25,
          -0.25 },
        { { PREFERENCE_SIMPO, 2, 0, 0, 1, 0, 0, 0, 0 }, 1e6f, 0, 2000001, 2, -2 },
        { { PREFERENCE_SIMPO, 2, 0, 0, 1, 0, 0, 0, 0 }, 0, 1e6f, 0, 0, 0 },
        { { .kind = PREFERENCE_REWARD }, 0, 1e6f, 1e6, -1, 1 },
        { { .kind = PREFERENCE_REWARD }, 1e6f, -1e6f, 0, 0, 0 },
        { { .kind = PREFERENCE_REWARD, .center = 0.5f },
          1e4f,
          1e4f,
          2e8 + log(2),
          2e4 - 0.5,
          2e4 + 0.5 },
    };
    static const size_t one[] = { 1, 1 };
    const struct runs runs = { .pairs = 1, .given = one };

    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        struct preference_case c;
        double beta = (double)cases[i].setting.beta, chosen, rejected;

        case_open(&c, &cases[i].setting, &runs);
        c.op.reference = (struct tensor) { 0 };
        chosen = c.losses.real[0] = (double)cases[i].chosen;
        rejected = c.losses.real[1] = (double)cases[i].rejected;
        operand_write(&c.losses);
        c.wanted_pairs[PREFERENCE_LOSS] = cases[i].loss;
        c.wanted_pairs[PREFERENCE_CHOSEN] = -beta * chosen;
        c.wanted_pairs[PREFERENCE_REJECTED] = -beta * rejected;
        c.wanted_pairs[PREFERENCE_LOGP_CHOSEN] = -chosen;
        c.wanted_pairs[PREFERENCE_LOGP_REJECTED] = -rejected;
        if (cases[i].setting.kind == PREFERENCE_REWARD) {
            c.wanted_pairs[PREFERENCE_CHOSEN] = chosen;
            c.wanted_pairs[PREFERENCE_REJECTED] = rejected;
            c.wanted_pairs[PREFERENCE_LOGP_CHOSEN] = 0;
            c.wanted_pairs[PREFERENCE_LOGP_REJECTED] = 0;
        }
        c.wanted_weights[0] = cases[i].up;
        c.wanted_weights[1] = cases[i].down;
        try_case(*state, &c);
        case_close(&c);
    }
}

/* One pair is broken, and all others are unchanged. */
static void check_broken(const struct preference_case *c,
                         const struct preference_case *whole, size_t broken)
{
    const float *pairs = c->pairs.tensor.data, *weights = c->weights.tensor.data;
    const float *good = whole->pairs.tensor.data, *even = whole->weights.tensor.data;
    size_t stride = c->pairs.tensor.stride, row = PREFERENCE_VALUES * sizeof(*pairs);

    assert_true(isnan(pairs[broken * stride + PREFERENCE_LOSS]));
    for (size_t p = 0; p < c->pairs.tensor.rows; p++)
        if (p != broken)
            assert_memory_equal(&pairs[p * stride], &good[p * stride], row);
    for (size_t n = 0; n < c->weights.numbers; n++) {
        bool within =
            n >= (size_t)c->offsets[2 * broken] && n < (size_t)c->offsets[2 * broken + 2];

        if (within && c->targets[n] >= 0)
            assert_true(isnan(weights[n]));
        else
            assert_memory_equal(&weights[n], &even[n], sizeof(*weights));
    }
}

/* Put a NaN in a row with a target of either answer, in the trained model's losses or the
 * reference's. */
static void try_broken(struct backend *be, const struct setting *setting, size_t answer,
                       bool reference)
{
    static const struct runs runs = { 5, 20, 3, 0, 9, NULL };
    const size_t broken = 3;
    struct preference_case c, whole;
    struct tensor where;
    size_t n;

    case_open(&whole, setting, &runs);
    machine_run(be, run_preference, &whole.op);
    case_open(&c, setting, &runs);
    n = (size_t)c.offsets[2 * broken + answer] + 1;
    n += c.targets[n] < 0;
    assert_true(c.targets[n] >= 0 && n < (size_t)c.offsets[2 * broken + answer + 1]);
    where = reference ? c.reference.tensor : c.losses.tensor;
    ((float *)where.data)[n] = NAN;
    machine_run(be, run_preference, &c.op);
    check_broken(&c, &whole, broken);
    case_close(&c);
    case_close(&whole);
}

static void test_preference_keeps_nan_in_its_pair(void **state)
{
    struct machines *machines = *state;

    for (size_t m = 0; m < machines->count; m++)
        for (size_t k = 0; k < TS_COUNT(settings); k += machines->slow ? 2 : 1)
            for (size_t i = 0; i < (has_reference(settings[k].kind) ? 4 : 2); i++)
                try_broken(machines->backends[m], &settings[k], i % 2, i / 2);
}

/* ---- Comparison with other programs ---- */

static void put_numbers(double *out, const json_t *numbers, size_t count)
{
    assert_int_equal(json_array_size(numbers), count);
    for (size_t i = 0; i < count; i++)
        out[i] = json_number_value(json_array_get(numbers, i));
}

static float member(const json_t *object, const char *name)
{
    return (float)json_number_value(json_object_get(object, name));
}

static enum preference_loss kind_of(const char *name)
{
    static const char *const names[] = {
        [PREFERENCE_SIGMOID] = "sigmoid", [PREFERENCE_HINGE] = "hinge",
        [PREFERENCE_IPO] = "ipo",         [PREFERENCE_ORPO] = "orpo",
        [PREFERENCE_SIMPO] = "simpo",     [PREFERENCE_KTO] = "kto",
    };

    for (size_t i = 0; i < TS_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum preference_loss)i;
    fail_msg("unknown loss %s", name);
    return PREFERENCE_SIGMOID;
}

static void try_golden(struct machines *machines, const json_t *row)
{
    const struct setting setting = {
        .kind = kind_of(json_string_value(json_object_get(row, "kind"))),
        .beta = member(row, "beta"),
        .ftx = member(row, "ftx"),
        .smoothing = member(row, "smoothing"),
        .margin = member(row, "margin"),
        .chosen_weight = member(row, "chosen_weight"),
        .rejected_weight = member(row, "rejected_weight"),
    };
    const json_t *all = json_object_get(row, "lengths");
    size_t given[8];
    struct runs runs = { .pairs = json_array_size(all) / 2, .given = given };
    struct preference_case c;

    assert_true(2 * runs.pairs <= TS_COUNT(given));
    for (size_t i = 0; i < 2 * runs.pairs; i++)
        given[i] = (size_t)json_integer_value(json_array_get(all, i));
    case_open(&c, &setting, &runs);
    if (setting.kind == PREFERENCE_KTO)
        mark_answers(&c, json_object_get(row, "good"));
    put_numbers(c.losses.real, json_object_get(row, "losses"), c.losses.numbers);
    operand_write(&c.losses);
    if (has_reference(setting.kind)) {
        put_numbers(c.reference.real, json_object_get(row, "reference"),
                    c.reference.numbers);
        operand_write(&c.reference);
    }
    put_numbers(c.wanted_pairs, json_object_get(row, "pairs"), c.pairs.numbers);
    put_numbers(c.wanted_weights, json_object_get(row, "slopes"), c.weights.numbers);
    try_case(machines, &c);
    case_close(&c);
}

static void try_file(struct machines *machines, const char *path, size_t cases)
{
    char *name = unit_source(path);
    struct error err = { 0 };
    json_t *golden = json_read_file(name, 1 << 20, &err), *row;
    size_t i;

    if (!golden)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(json_object_get(golden, "cases")), cases);
    json_array_foreach(json_object_get(golden, "cases"), i, row)
        try_golden(machines, row);
    json_decref(golden);
    free(name);
}

static void test_preference_matches_llamafactory_and_trl(void **state)
{
    try_file(*state, "tests/golden/preference_loss.json", 15);
    try_file(*state, "tests/golden/feedback_loss.json", 7);
}

/* ---- With the classifier, in double ---- */

enum { WORDS = 6, COLS = 3, ROWS = 14, PAIRS = 2 };

struct whole {
    struct backend *be;
    struct op_classifier classifier;
    struct op_preference preference;
};

static void *upload(struct backend *be, const void *from, size_t count)
{
    struct error err = { 0 };
    void *block = be->ops->alloc(be, count * sizeof(float), &err);

    be->ops->upload(be, block, from, count * sizeof(float));
    return block;
}

static struct tensor uploaded(struct backend *be, size_t rows, size_t cols, uint64_t seed)
{
    struct operand o = operand_random(FORMAT_FP32, 1, rows * cols, 1, seed);
    struct tensor t =
        tensor_of(upload(be, o.tensor.data, o.numbers), FORMAT_FP32, rows, cols);

    operand_clear(&o);
    return t;
}

static void whole_open(struct whole *w, const struct setting *s)
{
    static const int32_t offsets[] = { 0, 3, 7, 8, 12 };
    static const int32_t targets[ROWS] = { -1, 2, 3, 0, -1, 1, 5, 4, 2, 2, -1, 1, -1, 3 };
    struct backend *be = backend_double.open(NULL, NULL);
    struct tensor losses = uploaded(be, 1, ROWS, 1);

    *w = (struct whole) {
        .be = be,
        .classifier = { .losses = losses,
                        .x = uploaded(be, ROWS, COLS, 2),
                        .w = uploaded(be, WORDS, COLS, 3),
                        .targets = upload(be, targets, ROWS),
                        .grad_scale = 1 },
        .preference = { .pairs = uploaded(be, PAIRS, PREFERENCE_VALUES, 4),
                        .losses = losses,
                        .weights = uploaded(be, 1, ROWS, 5).data,
                        .offsets = upload(be, offsets, TS_COUNT(offsets)),
                        .kind = s->kind,
                        .beta = s->beta,
                        .ftx = s->ftx,
                        .smoothing = s->smoothing,
                        .margin = s->margin,
                        .center = s->center },
    };
    w->preference.targets = w->classifier.targets;
    if (has_reference(s->kind))
        w->preference.reference = uploaded(be, 1, ROWS, 6);
}

static double whole_loss(void *context)
{
    struct whole *w = context;

    double_take_preference(w->be);
    w->be->ops->classifier(w->be, &w->classifier);
    w->be->ops->preference(w->be, &w->preference);
    return double_take_preference(w->be);
}

/* The weights from op_preference are those op_classifier needs for the gradient of the
 * pairs. */
static void test_preference_weights_give_the_classifier_gradient(void **state)
{
    (void)state;
    for (size_t k = 0; k < TS_COUNT(settings); k++) {
        struct whole w;
        struct op_classifier backward;
        double *x, *dx;

        whole_open(&w, &settings[k]);
        whole_loss(&w);
        backward = w.classifier;
        backward.dx = uploaded(w.be, ROWS, COLS, 7);
        backward.weights = w.preference.weights;
        w.be->ops->classifier(w.be, &backward);
        x = double_values(w.be, w.classifier.x.data);
        dx = double_values(w.be, backward.dx.data);
        assert_true(reference_slope_error(whole_loss, &w, x, (size_t)ROWS * COLS, dx) <
                    1e-8);
        w.be->ops->close(w.be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_preference_follows_the_formula),
        cmocka_unit_test(test_feedback_follows_the_formula),
        cmocka_unit_test(test_preference_ignores_other_sequences),
        cmocka_unit_test(test_preference_is_finite_for_extreme_losses),
        cmocka_unit_test(test_preference_keeps_nan_in_its_pair),
        cmocka_unit_test(test_preference_matches_llamafactory_and_trl),
        cmocka_unit_test(test_preference_weights_give_the_classifier_gradient),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
