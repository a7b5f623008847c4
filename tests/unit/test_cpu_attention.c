/* tests/unit/test_cpu_attention.c - attention and its gradients follow the formula, for
 * packed sequences, shared heads and windows, with any number of threads. */
#include "config.h"

#include "kernels/backend.h"

#include "base/size.h"
#include "tests/unit/unit_attention_trial.h"

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

/* Heads of more than 256 columns, which a GPU divides among blocks. */
static const struct shape long_shapes[] = {
    { FORMAT_FP32, 2, 1, 512, 0, { 0, 3, 70 } },
    { FORMAT_FP32, 1, 1, 300, 20, { 0, 66 } },
    { FORMAT_BF16, 2, 1, 512, 0, { 0, 67 } },
    { FORMAT_FP16, 2, 2, 264, 5, { 0, 33, 33, 66 } },
};

static void test_attention_follows_the_formula(void **state)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        try_forward(*state, &shapes[i], (struct extra) { 0 });
}

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

/* Numbers of heads that are a power of two and others, shared heads, windows, tiles after
 * the first, heads for tensor cores; once with dropout. */
static void try_leaning(struct machines *machines, trial *run)
{
    static const struct shape leaning[] = {
        { FORMAT_FP32, 4, 4, 8, 0, { 0, 10, 150 } },
        { FORMAT_FP32, 6, 2, 16, 40, { 0, 131 } },
        { FORMAT_BF16, 3, 3, 64, 0, { 0, 70, 133 } },
        { FORMAT_FP16, 5, 1, 40, 0, { 0, 1, 67 } },
        { FORMAT_BF16, 2, 2, 128, 0, { 0, 66 } },
    };

    for (size_t i = 0; i < TS_COUNT(leaning); i++)
        run(machines, &leaning[i],
            (struct extra) { .p = i == 1 ? 0.25f : 0,
                             .slopes = { 8, i % 2 ? 0.25f : 1 } });
}

static void test_attention_leans(void **state)
{
    try_leaning(*state, try_forward);
}

static void test_attention_drops_weights(void **state)
{
    try_dropping(*state, try_forward);
}

static void test_attention_caps_scores(void **state)
{
    try_capped(*state, try_forward);
}

static void test_attention_backward_is_the_gradient(void **state)
{
    for (size_t i = 0; i < TS_COUNT(shapes); i++)
        try_backward(*state, &shapes[i], (struct extra) { 0 });
}

static void test_attention_of_long_heads(void **state)
{
    for (size_t i = 0; i < TS_COUNT(long_shapes); i++) {
        try_forward(*state, &long_shapes[i], (struct extra) { .p = i % 2 ? 0.1f : 0 });
        try_backward(*state, &long_shapes[i], (struct extra) { .p = i % 2 ? 0.1f : 0 });
    }
}

static void test_attention_backward_of_capped_scores(void **state)
{
    try_capped(*state, try_backward);
}

static void test_attention_backward_leans(void **state)
{
    try_leaning(*state, try_backward);
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
    static const struct extra extras[] = { { .p = 0 },
                                           { .p = 0.3f, .slopes = { 8, 1 } },
                                           { .softcap = 3 },
                                           { .softcap = 3, .p = 0.3f } };

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

/* Last: the test with cuDNN checks that cuDNN ran all the time, also for gradients if they
 * may vary. */
static void test_attention_uses_cudnn_if_requested(void **state)
{
    struct machines *machines = *state;
    const char *asked = getenv("TRAINSPOOL_CUDNN");
    const size_t least = getenv("GRADIENTS_MIB") ? 20 : 10;
    size_t plans = 0;

    if (!asked || strcmp(asked, "1") != 0)
        skip();
    for (size_t m = 0; m < machines->count; m++)
        plans += machine_cudnn_plans(machines->backends[m]);
    assert_true(plans >= machines->count * least);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reference_gradient_matches_differences),
        cmocka_unit_test(test_attention_follows_the_formula),
        cmocka_unit_test(test_attention_caps_scores),
        cmocka_unit_test(test_attention_leans),
        cmocka_unit_test(test_attention_drops_weights),
        cmocka_unit_test(test_attention_backward_is_the_gradient),
        cmocka_unit_test(test_attention_of_long_heads),
        cmocka_unit_test(test_attention_backward_of_capped_scores),
        cmocka_unit_test(test_attention_backward_leans),
        cmocka_unit_test(test_attention_backward_of_dropped_weights),
        cmocka_unit_test(test_attention_uses_cudnn_if_requested),
    };

    return cmocka_run_group_tests(tests, machines_open, machines_close);
}
