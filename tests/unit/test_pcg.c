/* tests/unit/test_pcg.c - the output matches numpy's. */
#include "config.h"

#include "base/pcg.h"

#include "base/arena.h"
#include "base/size.h"
#include "tests/unit/unit.h"

/* numpy 2.4.6: np.random.PCG64(seed).random_raw(3);
 * np.random.default_rng(seed).random(2) */
static const struct {
    uint64_t seed, raw[3];
    double uniform[2];
} golden[] = {
    { 0,
      { 0xa30febcfd9c2825f, 0x4510bdf882d9d721, 0xa7d3da94ecde8b8 },
      { 0x1.461fd79fb3850p-1, 0x1.1442f7e20b674p-2 } },
    { 1,
      { 0x8306bdf37922e4ff, 0xf35196bbc152a866, 0x24e7a4f608ec18cd },
      { 0x1.060d7be6f245cp-1, 0x1.e6a32d7782a55p-1 } },
    { 42,
      { 0xc621fbcd16d92688, 0x705a5661a791ffc1, 0xdbcd12c26eda1624 },
      { 0x1.8c43f79a2db24p-1, 0x1.c16959869e47ep-2 } },
    { ((uint64_t)1 << 40) + 7,
      { 0xd46e9e2034de21aa, 0x415badc99c087675, 0x275ed40f045acb84 },
      { 0x1.a8dd3c4069bc4p-1, 0x1.056eb7267021cp-2 } },
    { UINT64_MAX,
      { 0xae163a7a8c47568f, 0xd86659f5f3382359, 0x1e52b195bc2d24a },
      { 0x1.5c2c74f5188eap-1, 0x1.b0ccb3ebe6704p-1 } },
};

static void test_pcg_matches_numpy(void **state)
{
    struct pcg pcg;

    (void)state;
    for (size_t i = 0; i < TS_COUNT(golden); i++) {
        pcg_seed(&pcg, golden[i].seed);
        for (size_t j = 0; j < 3; j++)
            assert_true(pcg_next(&pcg) == golden[i].raw[j]);
        pcg_seed(&pcg, golden[i].seed);
        for (size_t j = 0; j < 2; j++)
            assert_true(pcg_uniform(&pcg) == golden[i].uniform[j]);
    }
}

/* np.random.default_rng(seed).permutation(count); for the long one, the length and the
 * sum of (position + 1) * value, modulo 2^32. */
static void test_pcg_permutes_as_numpy(void **state)
{
    static const uint32_t small[] = { 18, 10, 17, 22, 16, 15, 7, 6,  9, 3,  0, 19,
                                      12, 5,  11, 14, 21, 2,  4, 20, 1, 13, 8 };
    uint32_t *out = memory_resize(NULL, 100003, sizeof(*out)), sum = 0;
    struct pcg pcg;

    (void)state;
    pcg_seed(&pcg, 42);
    pcg_permutation(&pcg, out, TS_COUNT(small));
    assert_memory_equal(out, small, sizeof(small));
    pcg_seed(&pcg, 7);
    pcg_permutation(&pcg, out, 100003);
    for (uint32_t i = 0; i < 100003; i++)
        sum += (i + 1) * out[i];
    assert_int_equal(sum, 4264998162u);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pcg_matches_numpy),
        cmocka_unit_test(test_pcg_permutes_as_numpy),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
