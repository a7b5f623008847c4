/* tests/unit/test_cpu_pair_scale.c - learned factors of the weights of experts, and their
 * gradients, follow the formulas, which agree with finite differences. */
#include "config.h"

#include "kernels/backend.h"

#include "base/random.h"
#include "base/size.h"
#include "tests/reference/operand.h"
#include "tests/unit/unit.h"

OPERATION(pair_scale)
OPERATION(pair_scale_backward)

/* rows, experts chosen for each, experts */
static const size_t sizes[][3] = { { 1, 1, 1 },   { 3, 2, 5 },   { 41, 8, 128 },
                                   { 700, 4, 6 }, { 9, 3, 300 }, { 2000, 2, 3 } };

struct pairs {
    size_t count, experts;
    int32_t *chosen, *order, *starts;
    struct operand out, weights, scales, dweights, dscales;
    double *wanted_out, *wanted_dweights, *wanted_dscales;
};

/* Return the expert of a pair; the last of several has none. */
static int32_t expert_of(size_t pair, size_t chosen, size_t experts)
{
    uint32_t bits = random_bits(3, RANDOM_ORDER, 0, pair / chosen);

    return (int32_t)((bits + pair % chosen) % (experts > chosen ? experts - 1 : experts));
}

static void pairs_open(struct pairs *p, const size_t size[3])
{
    const size_t count = size[0] * size[1], experts = size[2];
    int32_t at = 0;

    *p = (struct pairs) { .count = count, .experts = experts };
    p->chosen = machines_memory((2 * count + experts + 1) * sizeof(*p->chosen));
    p->order = p->chosen + count;
    p->starts = p->order + count;
    for (size_t i = 0; i < count; i++)
        p->chosen[i] = expert_of(i, size[1], experts);
    for (size_t e = 0; e <= experts; e++) {
        p->starts[e] = at;
        for (size_t i = 0; e < experts && i < count; i++)
            if (p->chosen[i] == (int32_t)e)
                p->order[at++] = (int32_t)i;
    }
    p->weights = operand_random(FORMAT_FP32, size[0], size[1], 1, 1);
    p->scales = operand_random(FORMAT_FP32, 1, experts, 1, 2);
    p->dweights = operand_random(FORMAT_FP32, size[0], size[1], 1, 3);
    p->dscales = operand_random(FORMAT_FP32, 1, experts, 1, 4);
    p->out = operand_filled(FORMAT_FP32, size[0], size[1], 0);
    p->wanted_out = calloc(count, sizeof(double));
    p->wanted_dweights = calloc(count, sizeof(double));
    p->wanted_dscales = calloc(experts, sizeof(double));
}

static void pairs_close(struct pairs *p)
{
    struct operand *operands[] = { &p->out, &p->weights, &p->scales, &p->dweights,
                                   &p->dscales };

    for (size_t i = 0; i < TS_COUNT(operands); i++)
        operand_clear(operands[i]);
    free(p->wanted_out);
    free(p->wanted_dweights);
    free(p->wanted_dscales);
    machines_memory_free(p->chosen);
}

/* The formulas, with gradients of the sum of out times dweights. */
static double value_of(struct pairs *p)
{
    double sum = 0;

    for (size_t i = 0; i < p->count; i++) {
        p->wanted_out[i] = p->weights.real[i] * p->scales.real[p->chosen[i]];
        sum += p->wanted_out[i] * p->dweights.real[i];
    }
    return sum;
}

static void gradients_of(struct pairs *p)
{
    for (size_t i = 0; i < p->count; i++) {
        p->wanted_dweights[i] = p->dweights.real[i] * p->scales.real[p->chosen[i]];
        p->wanted_dscales[p->chosen[i]] += p->dweights.real[i] * p->weights.real[i];
    }
}

static void test_weights_are_scaled_by_expert(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct pairs p;
        struct op_pair_scale op;

        pairs_open(&p, sizes[i]);
        op = (struct op_pair_scale) { p.out.tensor, p.weights.tensor, p.scales.tensor,
                                      p.chosen };
        value_of(&p);
        machines_try(*state, run_pair_scale, &op,
                     &(struct outcome) { &p.out, p.wanted_out, 2, 0 }, 1);
        pairs_close(&p);
    }
}

static void test_gradients_follow_the_formulas(void **state)
{
    for (size_t i = 0; i < TS_COUNT(sizes); i++) {
        struct pairs p;
        struct op_pair_scale_backward op;

        pairs_open(&p, sizes[i]);
        op = (struct op_pair_scale_backward) { .dweights = p.dweights.tensor,
                                               .weights = p.weights.tensor,
                                               .scales = p.scales.tensor,
                                               .order = p.order,
                                               .starts = p.starts };
        memcpy(p.wanted_dscales, p.dscales.real, p.experts * sizeof(double));
        gradients_of(&p);
        machines_try(*state, run_pair_scale_backward, &op,
                     &(struct outcome) { &p.dweights, p.wanted_dweights, 2, 0 }, 1);
        op.dscales = p.dscales.tensor;
        machines_try(*state, run_pair_scale_backward, &op,
                     (struct outcome[]) { { &p.dweights, p.wanted_dweights, 2, 0 },
                                          { &p.dscales, p.wanted_dscales, 8, 2 } },
                     2);
        pairs_close(&p);
    }
}

static void check_slope(struct pairs *p, double *x, size_t count, const double *slope)
{
    for (size_t i = 0; i < count; i++) {
        double kept = x[i], up, down;

        x[i] = kept + 1e-4;
        up = value_of(p);
        x[i] = kept - 1e-4;
        down = value_of(p);
        x[i] = kept;
        assert_float_equal(slope[i], (up - down) / 2e-4, 1e-6);
    }
}

static void test_formulas_agree_with_differences(void **state)
{
    struct pairs p;

    (void)state;
    pairs_open(&p, sizes[1]);
    gradients_of(&p);
    check_slope(&p, p.weights.real, p.count, p.wanted_dweights);
    check_slope(&p, p.scales.real, p.experts, p.wanted_dscales);
    pairs_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights_are_scaled_by_expert),
        cmocka_unit_test(test_gradients_follow_the_formulas),
        cmocka_unit_test(test_formulas_agree_with_differences),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
