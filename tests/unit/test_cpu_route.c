/* tests/unit/test_cpu_route.c - the router chooses the experts of the formula, sorts the
 * pairs, and its gradient is the slope of the formula. */
#include "config.h"

#include "kernels/backend.h"

#include <math.h>

#include "base/json.h"
#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/reference/reference.h"
#include "tests/reference/reference_experts.h"
#include "tests/unit/unit.h"

OPERATION(route)
OPERATION(route_backward)

/* A router, and its input. */
struct shape {
    size_t rows, experts, chosen, counted; /* counted 0: NULL */
    enum format format;
    bool biased;
    double spread;       /* of the logits; 0: 1 */
    bool differentiated; /* small, and no choice is close */
    struct op_route op;
};

static const struct shape shapes[] = {
    { .rows = 1, .experts = 1, .chosen = 1 },
    { .rows = 37,
      .experts = 8,
      .chosen = 2,
      .op.normalize = true,
      .differentiated = true },
    { .rows = 60, .experts = 60, .chosen = 4, .counted = 51, .format = FORMAT_BF16 },
    { .rows = 300,
      .experts = 128,
      .chosen = 8,
      .format = FORMAT_FP16,
      .op.normalize = true },
    { .rows = 5, .experts = 1000, .chosen = 32, .op.normalize = true },
    { .rows = 9, .experts = 3, .chosen = 3, .spread = 40, .op.normalize = true },
    { .rows = 20,
      .experts = 17,
      .chosen = 3,
      .biased = true,
      .op.normalize = true,
      .differentiated = true },
    { .rows = 14,
      .experts = 9,
      .chosen = 2,
      .biased = true,
      .op = { .kind = ROUTE_SIGMOID, .normalize = true, .scale = 2, .least_sum = 0.25f },
      .differentiated = true },
    { .rows = 70,
      .experts = 64,
      .chosen = 6,
      .op = { .groups = 8, .groups_kept = 3, .scale = 16 } },
    { .rows = 11,
      .experts = 12,
      .chosen = 3,
      .op = { .groups = 4, .groups_kept = 2, .scale = 16 },
      .differentiated = true },
    { .rows = 66,
      .experts = 256,
      .chosen = 8,
      .counted = 60,
      .biased = true,
      .op = { .kind = ROUTE_SIGMOID,
              .normalize = true,
              .group_pairs = true,
              .groups = 8,
              .groups_kept = 4,
              .scale = 2.5f } },
    { .rows = 12,
      .experts = 16,
      .chosen = 3,
      .biased = true,
      .op = { .kind = ROUTE_SIGMOID,
              .normalize = true,
              .group_pairs = true,
              .groups = 4,
              .groups_kept = 2,
              .scale = 2.5f },
      .differentiated = true },
    { .rows = 40,
      .experts = 12,
      .chosen = 2,
      .format = FORMAT_BF16,
      .op.kind = ROUTE_SIGMOID },
    { .rows = 33,
      .experts = 6,
      .chosen = 2,
      .op = { .kind = ROUTE_SIGMOID,
              .group_pairs = true,
              .groups = 6,
              .groups_kept = 2 } },
    { .rows = 30,
      .experts = 16,
      .chosen = 2,
      .op = { .kind = ROUTE_SPARSEMIXER, .jitter = 0.3f },
      .differentiated = true },
    { .rows = 90,
      .experts = 16,
      .chosen = 2,
      .counted = 80,
      .format = FORMAT_BF16,
      .op = { .kind = ROUTE_SPARSEMIXER, .jitter = 0.4f, .sampled = true, .seed = 5 } },
    { .rows = 20,
      .experts = 2,
      .chosen = 2,
      .op = { .kind = ROUTE_SPARSEMIXER, .jitter = 0.01f } },
};

struct route_case {
    struct operand logits, bias, probabilities, weights, dweights, dlogits;
    int32_t *integers; /* experts, order, slots, starts and counts, one after the other */
    size_t integer_count;
    uint64_t *counted, *draw;
    struct op_route op;
    struct op_route_backward backward;
    struct reference_route reference;
    struct reference_route_backward gradient;
};

static size_t pairs_of(const struct shape *s)
{
    return s->rows * s->chosen;
}

/* The integers of an operation or of the reference, from one block. */
#define PLACE_INTEGERS(r, s, block)                                                 \
    ((r)->experts = (block), (r)->order = (r)->experts + pairs_of(s),               \
     (r)->slots = (r)->order + pairs_of(s), (r)->starts = (r)->slots + pairs_of(s), \
     (r)->counts = (r)->starts + (s)->experts + 1)

static void case_reference(struct route_case *c, const struct shape *s)
{
    size_t cells = s->rows * s->experts;

    c->reference = (struct reference_route) {
        .op = &c->op,
        .logits = c->logits.real,
        .bias = s->biased ? c->bias.real : NULL,
        .probabilities = calloc(cells, sizeof(double)),
        .weights = calloc(pairs_of(s), sizeof(double)),
    };
    PLACE_INTEGERS(&c->reference, s, calloc(c->integer_count, sizeof(int32_t)));
    reference_route(&c->reference);
    c->gradient = (struct reference_route_backward) {
        .op = &c->backward,
        .forward = c->reference,
        .dweights = c->dweights.real,
        .dlogits = calloc(cells, sizeof(double)),
    };
    reference_route_backward(&c->gradient);
}

static void case_open(struct route_case *c, const struct shape *s)
{
    size_t rows = s->rows, experts = s->experts, chosen = s->chosen;

    *c = (struct route_case) { .op = s->op };
    c->logits = operand_random(s->format, rows, experts, s->spread ? s->spread : 1, 1);
    c->bias = operand_random(FORMAT_FP32, 1, experts, 0.3, 2);
    c->dweights = operand_random(FORMAT_FP32, rows, chosen, 1, 3);
    c->probabilities = operand_filled(FORMAT_FP32, rows, experts, 7);
    c->weights = operand_filled(FORMAT_FP32, rows, chosen, 7);
    c->dlogits = operand_filled(s->format, rows, experts, 7);
    c->integer_count = 3 * rows * chosen + 2 * experts + 1;
    c->integers = machines_memory(c->integer_count * sizeof(int32_t));
    memset(c->integers, 0, c->integer_count * sizeof(int32_t));
    c->counted = machines_memory(2 * sizeof(*c->counted));
    c->draw = c->counted + 1;
    *c->counted = s->counted;
    *c->draw = 3;
    PLACE_INTEGERS(&c->op, s, c->integers);
    c->op.probabilities = c->probabilities.tensor;
    c->op.weights = c->weights.tensor;
    c->op.logits = c->logits.tensor;
    if (s->biased)
        c->op.bias = c->bias.tensor;
    c->op.rows = s->counted ? c->counted : NULL;
    c->op.draw = c->draw;
    c->backward =
        (struct op_route_backward) { .dlogits = c->dlogits.tensor,
                                     .dweights = c->dweights.tensor,
                                     .forward = c->op,
                                     .layers = 3,
                                     .coefficient =
                                         s->op.kind == ROUTE_SIGMOID ? 0 : 0.7f };
    case_reference(c, s);
}

static void case_close(struct route_case *c)
{
    struct operand *operands[] = { &c->logits,  &c->bias,     &c->probabilities,
                                   &c->weights, &c->dweights, &c->dlogits };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    free(c->reference.probabilities);
    free(c->reference.weights);
    free(c->reference.experts);
    free(c->gradient.dlogits);
    machines_memory_free(c->integers);
    machines_memory_free(c->counted);
}

static void try_shape(struct machines *machines, const struct shape *s)
{
    struct route_case c;
    int32_t *counts;

    case_open(&c, s);
    counts = c.op.counts;
    c.op.counts = NULL;
    machines_try(
        machines, run_route, &c.op,
        (struct outcome[]) { { &c.probabilities, c.reference.probabilities, 8, 0 },
                             { &c.weights, c.reference.weights, 16, 0 } },
        2);
    c.op.counts = counts;
    for (size_t m = 0; m < machines->count; m++) {
        memset(c.integers, 0, c.integer_count * sizeof(int32_t));
        machine_run(machines->backends[m], run_route, &c.op);
        for (size_t i = 0; i < c.integer_count; i++)
            if (c.integers[i] != c.reference.experts[i])
                fail_msg("shape %zu, integer %zu is %d, not %d", (size_t)(s - shapes), i,
                         c.integers[i], c.reference.experts[i]);
    }
    machines_try(machines, run_route_backward, &c.backward,
                 (struct outcome[]) { { &c.dlogits, c.gradient.dlogits, 16, 0.01 } }, 1);
    case_close(&c);
}

static void test_route_matches_the_reference(void **state)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        try_shape(*state, &shapes[i]);
}

/* The value whose gradient op_route_backward computes, with the choice kept. */
static double value_of(void *context)
{
    struct route_case *c = context;
    size_t pairs = c->op.weights.rows * c->op.weights.cols;
    double sum = 0;

    memset(c->reference.counts, 0, c->op.logits.cols * sizeof(int32_t));
    reference_route(&c->reference);
    for (size_t i = 0; i < pairs; i++)
        sum += c->reference.weights[i] * c->dweights.real[i];
    if (c->backward.coefficient != 0)
        sum += reference_balance(&c->gradient);
    return sum;
}

/* Not of those that are sampled, whose factor 0.3333 is not part of the gradient. */
static void test_reference_gradient_matches_differences(void **state)
{
    (void)state;
    for (size_t i = 0; i < TS_COUNT(shapes); i++) {
        struct route_case c;

        if (!shapes[i].differentiated)
            continue;
        case_open(&c, &shapes[i]);
        assert_true(reference_slope_error(value_of, &c, c.logits.real, c.logits.numbers,
                                          c.gradient.dlogits) < 1e-6);
        case_close(&c);
    }
}

/* ---- The routers of transformers: tests/golden/experts.py ---- */

static double number(const json_t *row, const char *key)
{
    return json_number_value(json_object_get(row, key));
}

static size_t count(const json_t *row, const char *key)
{
    return (size_t)json_integer_value(json_object_get(row, key));
}

static void fill(struct operand *operand, const json_t *row, const char *key)
{
    const json_t *values = json_object_get(row, key);

    assert_int_equal(json_array_size(values), operand->numbers);
    for (size_t i = 0; i < operand->numbers; i++)
        operand->real[i] = json_number_value(json_array_get(values, i));
    operand_write(operand);
}

static struct shape shape_of(const json_t *row)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));

    return (struct shape) {
        .rows = count(row, "rows"),
        .experts = count(row, "experts"),
        .chosen = count(row, "chosen"),
        .biased = json_object_get(row, "bias") != NULL,
        .op = { .kind = !kind                          ? ROUTE_SOFTMAX
                        : strcmp(kind, "sigmoid") == 0 ? ROUTE_SIGMOID
                                                       : ROUTE_SPARSEMIXER,
                .normalize = json_is_true(json_object_get(row, "normalize")),
                .group_pairs = json_is_true(json_object_get(row, "pairs")),
                .groups = count(row, "groups"),
                .groups_kept = count(row, "groups_kept"),
                .scale = (float)number(row, "scale"),
                .jitter = (float)number(row, "jitter") },
    };
}

/* Choices in the order of the expert, as in the file. */
static void sort_choices(struct route_case *c, size_t row, size_t chosen)
{
    int32_t *ids = c->op.experts + row * chosen;
    double *weights = c->weights.real + row * chosen;

    for (size_t i = 1; i < chosen; i++)
        for (size_t j = i; j > 0 && ids[j] < ids[j - 1]; j--) {
            int32_t id = ids[j];
            double weight = weights[j];

            ids[j] = ids[j - 1];
            weights[j] = weights[j - 1];
            ids[j - 1] = id;
            weights[j - 1] = weight;
        }
}

static void check_values(const json_t *row, const char *key, const double *values)
{
    const json_t *wanted = json_object_get(row, key);

    for (size_t i = 0; i < json_array_size(wanted); i++) {
        double one = json_number_value(json_array_get(wanted, i));

        if (!(fabs(values[i] - one) <= 2e-6 * fmax(1, fabs(one))))
            fail_msg("%s, %s %zu is %.9g, not %.9g",
                     json_string_value(json_object_get(row, "name")), key, i, values[i],
                     one);
    }
}

/* The gradients of the weights are in the order of the file; here they must be in that of
 * the choice. */
static void give_gradients(struct route_case *c, const json_t *row, const int32_t *choice)
{
    const json_t *ids = json_object_get(row, "ids"),
                 *given = json_object_get(row, "given");
    size_t chosen = c->op.weights.cols;

    for (size_t i = 0; i < c->dweights.numbers; i++)
        for (size_t j = i / chosen * chosen; j < (i / chosen + 1) * chosen; j++)
            if (json_integer_value(json_array_get(ids, j)) == choice[i])
                c->dweights.real[i] = json_number_value(json_array_get(given, j));
    operand_write(&c->dweights);
}

static void check_row(struct backend *be, const json_t *row)
{
    struct shape s = shape_of(row);
    struct route_case c;
    int32_t *choice;

    case_open(&c, &s);
    fill(&c.logits, row, "logits");
    if (s.biased)
        fill(&c.bias, row, "bias");
    memset(c.op.counts, 0, s.experts * sizeof(int32_t));
    machine_run(be, run_route, &c.op); /* twice: the file has two layers */
    machine_run(be, run_route, &c.op);
    choice = malloc(pairs_of(&s) * sizeof(*choice));
    memcpy(choice, c.op.experts, pairs_of(&s) * sizeof(*choice));
    give_gradients(&c, row, choice);
    c.backward.layers = 2;
    c.backward.coefficient = (float)(2 * number(row, "coefficient"));
    machine_run(be, run_route_backward, &c.backward);
    operand_read(&c.weights);
    operand_read(&c.dlogits);
    for (size_t n = 0; n < s.rows; n++)
        sort_choices(&c, n, s.chosen);
    for (size_t i = 0; i < pairs_of(&s); i++)
        assert_int_equal(c.op.experts[i], json_integer_value(json_array_get(
                                              json_object_get(row, "ids"), i)));
    check_values(row, "weights", c.weights.real);
    check_values(row, "dlogits", c.dlogits.real);
    free(choice);
    case_close(&c);
}

static void test_route_matches_transformers(void **state)
{
    struct machines *machines = *state;
    char *name = unit_source("tests/golden/experts.json");
    struct error err = { 0 };
    json_t *golden = json_read_file(name, (size_t)1 << 20, &err), *row;
    size_t index;

    assert_non_null(golden);
    json_array_foreach(json_object_get(golden, "cases"), index,
                       row) for (size_t m = 0; m < machines->count; m++)
        check_row(machines->backends[m], row);
    assert_true(index >= 7);
    json_decref(golden);
    free(name);
}

/* Ties go to the lower index; NaN and inf are above all, and no expert is chosen twice. */
static void test_route_orders_ties_and_nan(void **state)
{
    static const struct shape s = { .rows = 4, .experts = 8, .chosen = 3 };
    static const float logits[4][8] = {
        { 1, 2, 1, 2, 1, 1, 1, 1 },
        { -0.0f, 0, 0, 0, 0, 0, 0, 0 },
        { 5, NAN, 5, 6, NAN, 5, 5, 5 },
        { -INFINITY, INFINITY, 0, 1, 0, 0, 0, 0 },
    };
    static const int32_t wanted[4][3] = {
        { 1, 3, 0 }, { 0, 1, 2 }, { 1, 4, 3 }, { 1, 3, 2 }
    };
    struct machines *machines = *state;
    struct route_case c;

    case_open(&c, &s);
    for (size_t i = 0; i < c.logits.numbers; i++)
        c.logits.real[i] = (double)logits[i / 8][i % 8];
    operand_write(&c.logits);
    for (size_t m = 0; m < machines->count; m++) {
        machine_run(machines->backends[m], run_route, &c.op);
        assert_memory_equal(c.op.experts, wanted, sizeof(wanted));
        operand_read(&c.weights);
        for (size_t j = 0; j < 3; j++) {
            assert_true(isfinite(c.weights.real[j]));
            assert_true(isnan(c.weights.real[6 + j]) && isnan(c.weights.real[9]));
        }
    }
    case_close(&c);
}

/* Counts add up over calls. */
static void test_route_adds_to_counts(void **state)
{
    struct machines *machines = *state;
    const struct shape *s = &shapes[2];
    struct route_case c;

    case_open(&c, s);
    for (size_t m = 0; m < machines->count; m++) {
        memset(c.op.counts, 0, s->experts * sizeof(int32_t));
        machine_run(machines->backends[m], run_route, &c.op);
        machine_run(machines->backends[m], run_route, &c.op);
        for (size_t e = 0; e < s->experts; e++)
            assert_int_equal(c.op.counts[e], 2 * c.reference.counts[e]);
    }
    case_close(&c);
}

/* Samples follow the softmax over S: of 4000 rows, each share within 5 deviations. */
static void test_route_samples_the_softmax(void **state)
{
    enum { ROWS = 4000, EXPERTS = 4 };
    static const struct shape s = {
        .rows = ROWS,
        .experts = EXPERTS,
        .chosen = 2,
        .op = { .kind = ROUTE_SPARSEMIXER, .jitter = 10, .sampled = true, .seed = 9 }
    };
    struct machines *machines = *state;
    double found[EXPERTS] = { 0 }, lowered = 0, others = 0;
    struct route_case c;

    case_open(&c, &s);
    for (size_t i = 0; i < c.logits.numbers; i++)
        c.logits.real[i] = 0.5 * (double)(i % EXPERTS);
    operand_write(&c.logits);
    machine_run(machines->backends[0], run_route, &c.op);
    operand_read(&c.probabilities);
    operand_read(&c.weights);
    for (size_t n = 0; n < ROWS; n++) {
        size_t e = (size_t)c.op.experts[2 * n];

        found[e]++;
        others += e != EXPERTS - 1;
        lowered += c.weights.real[2 * n] < 0.5 * c.probabilities.real[n * EXPERTS + e];
    }
    for (size_t e = 0; e < EXPERTS; e++) {
        double p = c.probabilities.real[e];

        assert_true(fabs(found[e] - ROWS * p) < 5 * sqrt(ROWS * p * (1 - p)));
    }
    assert_true(fabs(lowered - 0.75 * others) < 5 * sqrt(others * 0.75 * 0.25));
    case_close(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_route_matches_the_reference),
        cmocka_unit_test(test_route_matches_transformers),
        cmocka_unit_test(test_route_orders_ties_and_nan),
        cmocka_unit_test(test_route_adds_to_counts),
        cmocka_unit_test(test_route_samples_the_softmax),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
