/* tests/unit/test_nf4.c - the 4-bit codes and 8-bit scales match those of bitsandbytes
 * (tests/golden/nf4.py). */
#include "config.h"

#include "precision/nf4.h"

#include <math.h>

#include "tests/unit/unit_nf4.h"

static int read_golden(void **state)
{
    *state = unit_nf4_golden();
    return 0;
}

static int drop_golden(void **state)
{
    json_decref(*state);
    return 0;
}

static void test_map_matches_bitsandbytes(void **state)
{
    float map[NF4_MAP];

    nf4_map(map);
    unit_nf4_same(*state, "map", map, sizeof(map));
}

static void test_codes_and_absmax_match_bitsandbytes_bit_for_bit(void **state)
{
    size_t count = json_array_size(json_object_get(*state, "cases"));

    assert_true(count >= 10);
    for (size_t i = 0; i < count; i++) {
        struct unit_nf4 c = unit_nf4_open(*state, i);

        unit_nf4_same(c.wanted, "codes", c.codes, nf4_bytes(c.numbers));
        unit_nf4_same(c.wanted, "absmax", c.absmax, c.blocks * sizeof(float));
        unit_nf4_close(&c);
    }
}

static void test_double_quantization_matches_bitsandbytes_bit_for_bit(void **state)
{
    size_t count = json_array_size(json_object_get(*state, "cases"));

    for (size_t i = 0; i < count; i++) {
        struct unit_nf4 c = unit_nf4_open(*state, i);
        char mean[9];
        uint32_t bits;

        memcpy(&bits, &c.map[NF4_MAP], sizeof(bits));
        snprintf(mean, sizeof(mean), "%08x", bits);
        assert_string_equal(mean, json_string_value(json_object_get(c.wanted, "mean")));
        unit_nf4_same(c.wanted, "bytes", c.bytes, c.blocks);
        unit_nf4_same(c.wanted, "groups", c.nested, c.groups * sizeof(float));
        unit_nf4_close(&c);
    }
}

/* In parts that begin at a block: a loader never holds a matrix twice. */
static void test_quantizing_in_parts_equals_quantizing_whole(void **state)
{
    struct unit_nf4 c = unit_nf4_open(*state, 1);
    float *x = unit_nf4_numbers(1, &c, 0.02);
    uint8_t *codes = malloc(nf4_bytes(c.numbers));
    float *absmax = malloc(c.blocks * sizeof(float));

    for (size_t first = 0; first < c.numbers; first += 5 * NF4_BLOCK) {
        size_t left = c.numbers - first,
               part = left < 5 * NF4_BLOCK ? left : 5 * NF4_BLOCK;

        nf4_quantize(x + first, part, codes + first / 2, absmax + first / NF4_BLOCK);
    }
    assert_memory_equal(codes, c.codes, nf4_bytes(c.numbers));
    assert_memory_equal(absmax, c.absmax, c.blocks * sizeof(float));
    free(x);
    free(codes);
    free(absmax);
    unit_nf4_close(&c);
}

static void test_nonfinite_values_stay_visible(void **state)
{
    float x[NF4_BLOCK] = { 1, NAN, -1 }, absmax;
    uint8_t codes[NF4_BLOCK / 2];

    (void)state;
    nf4_quantize(x, NF4_BLOCK, codes, &absmax);
    assert_true(isnan(absmax));
    x[1] = -INFINITY;
    nf4_quantize(x, NF4_BLOCK, codes, &absmax);
    assert_true(isinf(absmax));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_matches_bitsandbytes),
        cmocka_unit_test(test_codes_and_absmax_match_bitsandbytes_bit_for_bit),
        cmocka_unit_test(test_double_quantization_matches_bitsandbytes_bit_for_bit),
        cmocka_unit_test(test_quantizing_in_parts_equals_quantizing_whole),
        cmocka_unit_test(test_nonfinite_values_stay_visible),
    };

    return cmocka_run_group_tests_name("nf4", tests, read_golden, drop_golden);
}
