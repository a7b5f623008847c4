/* tests/unit/test_cpu_policy.c - losses of sampled answers and the weights of their tokens
 * follow the formula and match TRL's, whose slopes are torch's. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/reference/backend_double.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/unit/unit.h"

OPERATION(policy)

struct setting {
    float low, high, delta, beta;
    bool by_sequence, old, reference, corrects_kl;
};

static const struct setting settings[] = {
    { 0.2f, 0.2f, 0, 0, false, false, false, false },
    { 0.2f, 0.2f, 0, 0.04f, false, false, true, false },
    { 0.2f, 0.28f, 0, 0, false, true, false, false },
    { 0.2f, 0.3f, 1.4f, 0.1f, false, true, true, false },
    { 0.2f, 0.28f, 1.1f, 0.1f, false, true, true, false },
    { 0.05f, 0.05f, 0, 0.1f, true, true, true, false },
    { 0.2f, 0.2f, 0, 1, true, false, true, false },
    { 0.2f, 0.2f, 1.2f, 0.5f, false, true, true, true },
    { 0.05f, 0.05f, 0, 0.5f, true, true, true, true },
    { 0.2f, 0.2f, 0, 0.5f, false, false, true, true },
};

struct runs {
    size_t sequences, longest; /* lengths range from 0 to this */
    size_t every;              /* each every-th row has no target; 0: all do */
    size_t behind;             /* rows after the last sequence */
    const size_t *given;       /* the lengths; NULL: as above */
};

static const struct runs lengths[] = {
    { 1, 5, 0, 0, NULL },    { 1, 301, 3, 700, NULL }, { 3, 0, 0, 4, NULL },
    { 9, 40, 4, 600, NULL }, { 5, 900, 7, 0, NULL },
};

struct policy_case {
    struct operand values, losses, old, reference, advantages, factors, weights;
    int32_t *targets, *offsets;
    double *wanted_values, *wanted_weights;
    struct op_policy op;
    struct reference_policy refer;
};

static size_t length_of(const struct runs *runs, size_t s)
{
    return runs->given ? runs->given[s] : runs->longest - s * s * 5 % (runs->longest + 1);
}

static void put_rows(struct policy_case *c, const struct runs *runs)
{
    size_t rows = 0;

    c->offsets = machines_memory((runs->sequences + 1) * sizeof(*c->offsets));
    for (size_t s = 0; s < runs->sequences; s++) {
        c->offsets[s] = (int32_t)rows;
        rows += length_of(runs, s);
    }
    c->offsets[runs->sequences] = (int32_t)rows;
    rows += runs->behind;
    c->targets = machines_memory(rows * sizeof(*c->targets));
    for (size_t n = 0; n < rows; n++)
        c->targets[n] = runs->every && n % runs->every == 0 ? -100 : (int32_t)(n % 50);
}

/* Losses near those of `base`, if given; rows without a target are not read. */
static struct operand losses_new(const struct policy_case *c, size_t rows, uint64_t seed,
                                 const struct operand *base, double near)
{
    struct operand o = operand_random(FORMAT_FP32, 1, rows, 1, seed);

    for (size_t n = 0; n < rows; n++)
        o.real[n] = c->targets[n] < 0 ? NAN
                    : base            ? base->real[n] + near * o.real[n]
                                      : fabs(o.real[n]);
    operand_write(&o);
    return o;
}

static void case_refer(struct policy_case *c)
{
    c->refer = (struct reference_policy) {
        .sequences = c->values.tensor.rows,
        .rows = c->losses.numbers,
        .losses = c->losses.real,
        .old = c->old.real,
        .reference = c->reference.real,
        .advantages = c->advantages.real,
        .factors = c->factors.real,
        .targets = c->targets,
        .offsets = c->offsets,
        .low = (double)c->op.low,
        .high = (double)c->op.high,
        .delta = (double)c->op.delta,
        .beta = (double)c->op.beta,
        .by_sequence = c->op.by_sequence,
        .corrects_kl = c->op.corrects_kl,
        .values = c->wanted_values,
        .weights = c->wanted_weights,
    };
    reference_policy(&c->refer);
}

static void case_open(struct policy_case *c, const struct setting *s,
                      const struct runs *runs)
{
    const double near = s->by_sequence ? 0.1 : 0.5;
    size_t rows;

    *c = (struct policy_case) { 0 };
    put_rows(c, runs);
    rows = (size_t)c->offsets[runs->sequences] + runs->behind;
    c->values = operand_filled(FORMAT_FP32, runs->sequences, POLICY_VALUES, 7);
    c->losses = losses_new(c, rows, 1, NULL, 0);
    if (s->old)
        c->old = losses_new(c, rows, 2, &c->losses, near);
    if (s->reference)
        c->reference = losses_new(c, rows, 3, &c->losses, near);
    c->advantages = operand_random(FORMAT_FP32, 1, runs->sequences, 1, 4);
    c->factors = operand_random(FORMAT_FP32, 1, runs->sequences, 1, 5);
    c->weights = operand_filled(FORMAT_FP32, 1, rows, 7);
    c->wanted_values = calloc(c->values.numbers, sizeof(double));
    c->wanted_weights = calloc(rows, sizeof(double));
    c->op = (struct op_policy) {
        .values = c->values.tensor,
        .losses = c->losses.tensor,
        .old = c->old.tensor,
        .reference = c->reference.tensor,
        .advantages = c->advantages.tensor,
        .factors = c->factors.tensor,
        .weights = c->weights.tensor.data,
        .targets = c->targets,
        .offsets = c->offsets,
        .low = s->low,
        .high = s->high,
        .delta = s->delta,
        .beta = s->beta,
        .by_sequence = s->by_sequence,
        .corrects_kl = s->corrects_kl,
    };
    case_refer(c);
}

static void case_close(struct policy_case *c)
{
    operand_clear(&c->values);
    operand_clear(&c->losses);
    operand_clear(&c->old);
    operand_clear(&c->reference);
    operand_clear(&c->advantages);
    operand_clear(&c->factors);
    operand_clear(&c->weights);
    machines_memory_free(c->targets);
    machines_memory_free(c->offsets);
    free(c->wanted_values);
    free(c->wanted_weights);
}

/* Intermediate values are in double; only differences of fp32 losses cancel, exactly. */
static void try_case(struct machines *machines, struct policy_case *c)
{
    machines_try(machines, run_policy, &c->op,
                 (struct outcome[]) { { &c->values, c->wanted_values, 0.001, 0 },
                                      { &c->weights, c->wanted_weights, 0.001, 0 } },
                 2);
}

static void test_policy_follows_the_formula(void **state)
{
    struct machines *machines = *state;

    for (size_t i = 0; i < TS_COUNT(lengths); i++)
        for (size_t k = 0; k < TS_COUNT(settings); k += machines->slow && i > 1 ? 3 : 1) {
            struct policy_case c;

            case_open(&c, &settings[k], &lengths[i]);
            try_case(machines, &c);
            case_close(&c);
        }
}

static double loss(void *context)
{
    struct reference_policy r = *(struct reference_policy *)context;
    double sum = 0;

    r.values = calloc(r.sequences * POLICY_VALUES, sizeof(double));
    r.weights = calloc(r.rows, sizeof(double));
    reference_policy(&r);
    for (size_t s = 0; s < r.sequences; s++)
        sum += r.values[s * POLICY_VALUES + POLICY_LOSS];
    free(r.values);
    free(r.weights);
    return sum;
}

/* Without old losses the ratio does not change with the losses. */
static void test_reference_gradient_matches_differences(void **state)
{
    static const struct runs runs = { 6, 9, 5, 3, NULL };

    (void)state;
    for (size_t k = 0; k < TS_COUNT(settings); k++) {
        struct policy_case c;

        if (!settings[k].old)
            continue;
        case_open(&c, &settings[k], &runs);
        assert_true(reference_slope_error(loss, &c.refer, c.losses.real, c.losses.numbers,
                                          c.wanted_weights) < 1e-8);
        case_close(&c);
    }
}

/* ---- NaN and large ratios ---- */

static void test_policy_keeps_nan_in_its_sequence(void **state)
{
    static const struct runs runs = { 4, 20, 3, 9, NULL };
    struct machines *machines = *state;

    for (size_t k = 0; k < TS_COUNT(settings); k++) {
        struct policy_case c;
        size_t n;

        case_open(&c, &settings[k], &runs);
        n = (size_t)c.offsets[1] + 1;
        n += c.targets[n] < 0;
        c.losses.real[n] = NAN;
        operand_write(&c.losses);
        case_refer(&c);
        assert_true(isnan(c.wanted_weights[n]));
        for (size_t m = 0; m < machines->count; m++) {
            const float *weights = c.weights.tensor.data, *values = c.values.tensor.data;

            machine_run(machines->backends[m], run_policy, &c.op);
            for (size_t i = 0; i < c.weights.numbers; i++)
                assert_int_equal(isnan(weights[i]), isnan(c.wanted_weights[i]));
            for (size_t s = 0; s < runs.sequences; s++)
                assert_int_equal(isnan(values[s * c.values.tensor.stride]), s == 1);
        }
        case_close(&c);
    }
}

/* A ratio beyond fp32 is clipped if that helps, and else has a slope as large. */
static void test_policy_clips_extreme_ratios(void **state)
{
    static const size_t one[] = { 1, 1, 1 };
    const struct runs runs = { .sequences = 3, .given = one };
    const struct setting setting = { .low = 0.2f, .high = 0.2f, .old = true };
    const double advantages[] = { 1, -1, -1 }, losses[] = { 0, 50, 0 },
                 old[] = { 800, 0, 3 };
    struct policy_case c;

    case_open(&c, &setting, &runs);
    for (size_t s = 0; s < 3; s++) {
        c.advantages.real[s] = advantages[s];
        c.factors.real[s] = 1;
        c.losses.real[s] = losses[s];
        c.old.real[s] = old[s];
    }
    operand_write(&c.advantages);
    operand_write(&c.factors);
    operand_write(&c.losses);
    operand_write(&c.old);
    case_refer(&c);
    assert_true(c.wanted_weights[0] == 0 && c.wanted_weights[1] == 0);
    assert_true(fabs(c.wanted_values[0] + (1 + (double)0.2f)) < 1e-12);
    assert_true(fabs(c.wanted_weights[2] + exp(3)) < 1e-12);
    try_case(*state, &c);
    case_close(&c);
}

/* ---- Comparison with TRL ---- */

static void put_numbers(double *out, const json_t *numbers, size_t count)
{
    assert_int_equal(json_array_size(numbers), count);
    for (size_t i = 0; i < count; i++)
        out[i] = json_number_value(json_array_get(numbers, i));
}

static void put_operand(struct operand *o, const json_t *row, const char *name)
{
    if (!o->real)
        return;
    put_numbers(o->real, json_object_get(row, name), o->numbers);
    operand_write(o);
}

static float member(const json_t *object, const char *name)
{
    return (float)json_number_value(json_object_get(object, name));
}

static void try_golden(struct machines *machines, const json_t *row)
{
    const struct setting setting = {
        member(row, "low"),
        member(row, "high"),
        member(row, "delta"),
        member(row, "beta"),
        json_is_true(json_object_get(row, "sequence")),
        json_is_array(json_object_get(row, "old")),
        json_is_array(json_object_get(row, "reference")),
        json_is_true(json_object_get(row, "corrects")),
    };
    const json_t *all = json_object_get(row, "lengths");
    size_t given[16];
    const struct runs runs = { .sequences = json_array_size(all), .given = given };
    struct policy_case c;

    assert_true(runs.sequences <= TS_COUNT(given));
    for (size_t i = 0; i < runs.sequences; i++)
        given[i] = (size_t)json_integer_value(json_array_get(all, i));
    case_open(&c, &setting, &runs);
    put_operand(&c.losses, row, "losses");
    put_operand(&c.old, row, "old");
    put_operand(&c.reference, row, "reference");
    put_operand(&c.advantages, row, "advantages");
    put_operand(&c.factors, row, "factors");
    put_numbers(c.wanted_values, json_object_get(row, "values"), c.values.numbers);
    put_numbers(c.wanted_weights, json_object_get(row, "slopes"), c.weights.numbers);
    try_case(machines, &c);
    case_close(&c);
}

static void test_policy_matches_trl(void **state)
{
    char *name = unit_source("tests/golden/policy_loss.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, 1 << 20, &err), *row;
    size_t i;

    if (!golden)
        fail_msg("%s", err.text);
    assert_int_equal(json_array_size(json_object_get(golden, "cases")), 10);
    json_array_foreach(json_object_get(golden, "cases"), i, row) try_golden(*state, row);
    json_decref(golden);
    free(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_policy_follows_the_formula),
        cmocka_unit_test(test_policy_keeps_nan_in_its_sequence),
        cmocka_unit_test(test_policy_clips_extreme_ratios),
        cmocka_unit_test(test_policy_matches_trl),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
