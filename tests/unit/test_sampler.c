/* tests/unit/test_sampler.c - the next token is drawn from the tokens that transformers'
 * logits processors keep, with their probabilities. */
#include "config.h"

#include "train/generation/sampler.h"

#include <math.h>

#include "base/file.h"
#include "base/json.h"
#include "base/size.h"
#include "tests/unit/unit.h"

enum { VOCABULARY = 200, DRAWS = 4000 };

static void fill(float logits[VOCABULARY], double slope)
{
    for (int i = 0; i < VOCABULARY; i++)
        logits[i] = (float)(i * 7919 % 61 - 30) / 2 + (float)(i * slope);
}

static json_t *golden(void)
{
    char *name = unit_source("tests/golden/sampling.json");
    struct error err = { 0 };
    json_t *root = json_read_file(name, 1 << 20, &err);

    if (!root)
        fail_msg("%s", err.text);
    free(name);
    return root;
}

static double real(const json_t *object, const char *key)
{
    return json_number_value(json_object_get(object, key));
}

/* Check that the count of each token is within five standard deviations of its
 * expectation, plus 3 because counts of rare tokens are small integers, and that tokens
 * that were filtered out are never drawn. */
static void check_case(const json_t *one, const int32_t *before, size_t count)
{
    struct sampler *sampler = sampler_new(VOCABULARY);
    struct generation how = { .do_sample = true,
                              .temperature = real(one, "temperature"),
                              .top_k = (int64_t)real(one, "top_k"),
                              .top_p = real(one, "top_p"),
                              .repetition_penalty = real(one, "repetition_penalty") };
    struct sampler_position place = { .tokens = before, .count = count, .seed = 42 };
    int seen[VOCABULARY] = { 0 };
    float logits[VOCABULARY];

    for (place.index = 0; place.index < DRAWS; place.index++) {
        fill(logits, real(one, "slope"));
        seen[sampler_take(sampler, &how, &place, logits)]++;
    }
    for (int i = 0; i < VOCABULARY; i++) {
        char name[16];
        double p;

        snprintf(name, sizeof(name), "%d", i);
        p = real(json_object_get(one, "kept"), name);
        if (fabs(seen[i] - p * DRAWS) > 5 * sqrt(p * (1 - p) * DRAWS) + (p > 0 ? 3 : 0))
            fail_msg("token %d was drawn %d times, its probability is %g", i, seen[i], p);
    }
    how.do_sample = false;
    fill(logits, real(one, "slope"));
    assert_int_equal(sampler_take(sampler, &how, &place, logits), real(one, "greedy"));
    sampler_free(sampler);
}

static void test_sampler_draws_like_transformers(void **state)
{
    json_t *root = golden();
    const json_t *cases = json_object_get(root, "cases"),
                 *ids = json_object_get(root, "before");
    int32_t before[16];
    size_t count = json_array_size(ids);

    (void)state;
    assert_true(count > 0 && count <= TS_COUNT(before) && json_array_size(cases) > 0);
    for (size_t i = 0; i < count; i++)
        before[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(json_array_get(cases, i), before, count);
    json_decref(root);
}

static const struct generation plain = {
    .do_sample = true, .temperature = 1, .top_p = 1, .repetition_penalty = 1
};

/* A draw depends only on seed, sequence and position. */
static void test_sampler_depends_on_seed_sequence_and_position(void **state)
{
    struct sampler *left = sampler_new(VOCABULARY), *right = sampler_new(VOCABULARY);
    int different = 0;
    float logits[VOCABULARY];

    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        struct sampler_position place = { .seed = 1, .sequence = i % 7, .index = i / 7 };
        int64_t first, again, other;

        fill(logits, 0);
        logits[i % VOCABULARY] = 15;
        first = sampler_take(left, &plain, &place, logits);
        again = sampler_take(right, &plain, &place, logits);
        place.seed = 2;
        other = sampler_take(right, &plain, &place, logits);
        assert_int_equal(first, again);
        different += first != other;
    }
    assert_true(different > 100);
    sampler_free(left);
    sampler_free(right);
}

/* A token whose logit is not finite is never drawn. */
static void test_sampler_skips_nonfinite_logits(void **state)
{
    struct sampler *sampler = sampler_new(4);
    struct generation greedy = { .repetition_penalty = 1 };
    struct sampler_position place = { .seed = 1 };
    float some[4], none[4] = { NAN, INFINITY, -INFINITY, NAN };

    (void)state;
    for (place.index = 0; place.index < 50; place.index++) {
        memcpy(some, (float[]) { NAN, -3, INFINITY, -INFINITY }, sizeof(some));
        assert_int_equal(sampler_take(sampler, &plain, &place, some), 1);
        assert_int_equal(sampler_take(sampler, &greedy, &place, some), 1);
        assert_int_equal(sampler_take(sampler, &plain, &place, none), -1);
        assert_int_equal(sampler_take(sampler, &greedy, &place, none), -1);
    }
    sampler_free(sampler);
}

/* As in RepetitionPenaltyLogitsProcessor of transformers: the logit of a token that
 * occurred before is divided by the penalty, or multiplied if it is below 0, only
 * once. */
static void test_sampler_penalizes_a_repeated_token_once(void **state)
{
    static const int32_t before[] = { 0, 1, 0, 7 };
    static const float expected[] = { 1, -4, 1.5f, 0.5f };
    struct sampler *sampler = sampler_new(TS_COUNT(expected));
    struct generation greedy = { .repetition_penalty = 2 };
    struct sampler_position place = { .tokens = before, .count = TS_COUNT(before) };

    (void)state;
    for (int i = 0; i < 2; i++) {
        float logits[] = { 2, -2, 1.5f, 0.5f };

        assert_int_equal(sampler_take(sampler, &greedy, &place, logits), 2);
        assert_memory_equal(logits, expected, sizeof(expected));
    }
    sampler_free(sampler);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sampler_draws_like_transformers),
        cmocka_unit_test(test_sampler_depends_on_seed_sequence_and_position),
        cmocka_unit_test(test_sampler_skips_nonfinite_logits),
        cmocka_unit_test(test_sampler_penalizes_a_repeated_token_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
