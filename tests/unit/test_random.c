/* tests/unit/test_random.c - known answers, and moments within statistical limits. */
#include "config.h"

#include "base/random.h"

#include <math.h>

#include "base/size.h"
#include "tests/unit/unit.h"

/* Random123 1.14.0, tests/kat_vectors, "philox4x32 10". */
static void test_random_matches_philox_known_answers(void **state)
{
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    uint32_t out[4];

    (void)state;
    for (size_t i = 0; i < TS_COUNT(cases); i++) {
        random_philox(cases[i].key, cases[i].counter, out);
        assert_memory_equal(out, cases[i].out, sizeof(out));
    }
}

/* Checkpoints depend on the layout: it must not change between versions. */
static void test_random_bits_are_words_of_the_documented_block(void **state)
{
    const uint64_t seed = 0x299f31d0a4093822u, block = 0x85a308d3243f6a88u >> 2;
    uint32_t key[2] = { 0xa4093822, 0x299f31d0 };
    uint32_t counter[4] = { (uint32_t)block, (uint32_t)(block >> 32), 7, RANDOM_DROPOUT };
    uint32_t out[4];

    (void)state;
    random_philox(key, counter, out);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(random_bits(seed, RANDOM_DROPOUT, 7, 4 * block + i), out[i]);
}

static void test_random_weights_are_halves_of_the_documented_block(void **state)
{
    const struct random_head head = { 0x299f31d0a4093822u, 5, 9, 3 };
    uint32_t key[2] = { 0xa4093822, 0x299f31d0 }, out[4];

    (void)state;
    for (uint32_t k = 0; k < 100; k++) {
        uint32_t counter[4] = { 77, k / 32 * 4 + k % 8 / 2, (3 << 16) + 9,
                                (5 << 4) + RANDOM_ATTENTION };

        random_philox(key, counter, out);
        assert_int_equal(random_weight(head, 77, k),
                         k % 2 ? out[k % 32 / 8] >> 16 : out[k % 32 / 8] & 0xffff);
    }
}

static void test_random_streams_differ(void **state)
{
    uint32_t first = random_bits(1, RANDOM_ORDER, 0, 0);

    (void)state;
    assert_int_not_equal(first, random_bits(2, RANDOM_ORDER, 0, 0));
    assert_int_not_equal(first, random_bits(1, RANDOM_INIT, 0, 0));
    assert_int_not_equal(first, random_bits(1, RANDOM_ORDER, 1, 0));
    assert_int_not_equal(first, random_bits(1, RANDOM_ORDER, 0, 1));
    assert_int_not_equal(first, random_bits(1, RANDOM_ORDER, 0, (uint64_t)1 << 34));
}

enum { DRAWS = 100000 };

/* The limits are five standard errors; the seed is fixed, so they hold always or
 * never. */
static void test_random_uniform_has_the_right_moments(void **state)
{
    double sum = 0, squares = 0;

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = random_uniform(42, RANDOM_INIT, 0, i);

        assert_true(value >= 0 && value < 1);
        sum += value;
        squares += value * value;
    }
    assert_true(fabs(sum / DRAWS - 0.5) < 5 * sqrt(1 / 12.0 / DRAWS));
    assert_true(fabs(squares / DRAWS - 1 / 3.0) < 5 * sqrt(4 / 45.0 / DRAWS));
}

static void test_random_normal_has_the_right_moments(void **state)
{
    double moment[5] = { 0 }, covariance = 0, before = 0;

    (void)state;
    for (uint64_t i = 0; i < DRAWS; i++) {
        double value = random_normal(42, RANDOM_INIT, 0, i);

        assert_true(isfinite(value));
        for (int k = 1; k <= 4; k++)
            moment[k] += pow(value, k) / DRAWS;
        covariance += value * before / DRAWS;
        before = value;
    }
    assert_true(fabs(moment[1]) < 5 * sqrt(1.0 / DRAWS));
    assert_true(fabs(moment[2] - 1) < 5 * sqrt(2.0 / DRAWS));
    assert_true(fabs(moment[3]) < 5 * sqrt(15.0 / DRAWS));
    assert_true(fabs(moment[4] - 3) < 5 * sqrt(96.0 / DRAWS));
    assert_true(fabs(covariance) < 5 * sqrt(1.0 / DRAWS));
}

static void test_random_permutation_is_a_permutation(void **state)
{
    enum { COUNT = 1000 };
    uint32_t order[COUNT], again[COUNT];
    bool seen[COUNT] = { false };
    size_t kept = 0;

    (void)state;
    random_permutation(7, RANDOM_ORDER, 3, order, COUNT);
    random_permutation(7, RANDOM_ORDER, 3, again, COUNT);
    assert_memory_equal(order, again, sizeof(order));
    for (size_t i = 0; i < COUNT; i++) {
        assert_true(order[i] < COUNT);
        assert_false(seen[order[i]]);
        seen[order[i]] = true;
        kept += order[i] == i;
    }
    assert_true(kept < 10);
    random_permutation(8, RANDOM_ORDER, 3, again, COUNT);
    assert_memory_not_equal(order, again, sizeof(order));
    random_permutation(7, RANDOM_ORDER, 3, order, 1);
    assert_int_equal(order[0], 0);
    random_permutation(7, RANDOM_ORDER, 3, order, 0);
}

/* Each of the 24 orders of four occurs once in 24. */
static void test_random_permutation_produces_every_order(void **state)
{
    enum { TIMES = 24000 };
    int count[256] = { 0 }, orders = 0;

    (void)state;
    for (uint32_t stream = 0; stream < TIMES; stream++) {
        uint32_t order[4];

        random_permutation(1, RANDOM_ORDER, stream, order, 4);
        count[order[0] << 6 | order[1] << 4 | order[2] << 2 | order[3]]++;
    }
    for (size_t i = 0; i < TS_COUNT(count); i++) {
        orders += count[i] > 0;
        if (count[i] > 0)
            assert_in_range(count[i], 845, 1155); /* 1000 and five standard deviations */
    }
    assert_int_equal(orders, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_matches_philox_known_answers),
        cmocka_unit_test(test_random_bits_are_words_of_the_documented_block),
        cmocka_unit_test(test_random_weights_are_halves_of_the_documented_block),
        cmocka_unit_test(test_random_streams_differ),
        cmocka_unit_test(test_random_uniform_has_the_right_moments),
        cmocka_unit_test(test_random_normal_has_the_right_moments),
        cmocka_unit_test(test_random_permutation_is_a_permutation),
        cmocka_unit_test(test_random_permutation_produces_every_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
