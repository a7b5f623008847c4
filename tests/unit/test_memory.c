/* tests/unit/test_memory.c - memory limits in a job, and memory that backends use. */
#include "config.h"

#include "tests/unit/unit.h"

#include "precision/memory.h"

/* The context counts if the free memory is the card's nominal size. */
static void test_memory_held_by_a_gpu(void **state)
{
    struct device cpu = { .kind = DEVICE_CPU }, gpu = { .kind = DEVICE_CUDA };

    (void)state;
    assert_int_equal(memory_overhead(&cpu, 2).expected, 0);
    assert_int_equal(memory_overhead(&cpu, 2).high, (uint64_t)(16 + 2 * 4) << 20);
    cpu.threads = 8;
    assert_int_equal(memory_overhead(&cpu, 0).high, (uint64_t)(16 + 8 * 4) << 20);
    assert_int_equal(memory_overhead(&gpu, 0).expected, (uint64_t)(400 + 256 + 32 + 65)
                                                            << 20);
    assert_int_equal(memory_overhead(&gpu, 0).low, (uint64_t)(300 + 128 + 32 + 65) << 20);
    assert_int_equal(memory_overhead(&gpu, 0).high, (uint64_t)(500 + 384 + 32 + 65)
                                                        << 20);
    gpu.here = true;
    assert_int_equal(memory_overhead(&gpu, 0).expected, (uint64_t)(256 + 32 + 65) << 20);
    assert_int_equal(memory_overhead(&gpu, 0).high, (uint64_t)(384 + 32 + 65) << 20);
}

/* NCCL's memory in MiB, term by term as in memory.h; it grows with the number of
 * ranks. */
static void test_memory_held_for_a_group(void **state)
{
    const struct device cpu = { .kind = DEVICE_CPU }, gpu = { .kind = DEVICE_CUDA };
    const struct memory_range two = memory_group_overhead(&gpu, 2, 2),
                              eight = memory_group_overhead(&gpu, 8, 8),
                              spread = memory_group_overhead(&gpu, 1024, 8),
                              alone = memory_group_overhead(&gpu, 64, 1);
    struct memory_range before = { 0 };

    (void)state;
    assert_int_equal(memory_group_overhead(&gpu, 1, 1).high, 0);
    assert_int_equal(memory_group_overhead(&gpu, 0, 0).high, 0);
    assert_int_equal(memory_group_overhead(&cpu, 8, 8).high, 0);
    assert_int_equal(two.low, (uint64_t)64 << 20);
    assert_int_equal(two.expected, (uint64_t)(128 + 200 + 24 * 12 + 16 * 2 * 3) << 20);
    assert_int_equal(two.high, (uint64_t)(128 + 200 + 32 * 12 + 24 * 2 * 3) << 20);
    assert_int_equal(eight.expected, (uint64_t)(128 + 200 + 24 * 24 + 16 * 2 * 9) << 20);
    assert_int_equal(eight.high, (uint64_t)(128 + 200 + 32 * 36 + 24 * 2 * 9) << 20);
    /* only the ranks of a machine share buffers in its switch */
    assert_int_equal(spread.expected, eight.expected);
    assert_int_equal(alone.expected, (uint64_t)(128 + 200 + 24 * 24) << 20);
    for (size_t ranks = 1; ranks <= DEVICE_RANKS_MAX; ranks++) {
        struct memory_range is = memory_group_overhead(&gpu, ranks, ranks);

        assert_true(is.low <= is.expected && is.expected <= is.high);
        assert_true(ranks == 1 || is.expected > before.expected);
        before = is;
    }
}

/* kernels/cpu/cpu_rendezvous.c has two windows of 256 KiB for each rank of a machine. */
static void test_memory_of_a_group_of_cpus(void **state)
{
    (void)state;
    assert_int_equal(memory_cpu_group(1), 0);
    assert_int_equal(memory_cpu_group(2), (uint64_t)1 << 20);
    assert_int_equal(memory_cpu_group(16), (uint64_t)8 << 20);
    assert_int_equal(memory_cpu_group(64), (uint64_t)32 << 20);
    assert_int_equal(memory_cpu_group(1024), (uint64_t)32 << 20);
}

static void test_memory_limit_accepts_shares_and_sizes(void **state)
{
    struct device device = { .available = 1000 };
    struct error err = { 0 };
    uint64_t limit;

    (void)state;
    assert_true(memory_limit(NULL, &device, &limit, &err) && limit == 950);
    assert_true(memory_limit("80%", &device, &limit, &err) && limit == 800);
    assert_true(memory_limit("2GiB", &device, &limit, &err) && limit == (uint64_t)2
                                                                            << 30);
    assert_false(memory_limit("120%", &device, &limit, &err));
    assert_int_equal(err.code, ERROR_JOB);
    assert_false(memory_limit("much", &device, &limit, &err));
    assert_false(memory_limit("0", &device, &limit, &err));
    error_clear(&err);
    assert_false(memory_limit("24", &device, &limit, &err));
    assert_non_null(strstr(err.text, "a size such as 12GiB, not '24'"));
    assert_false(memory_limit("nan%", &device, &limit, &err));
}

static void test_memory_sums_and_compares(void **state)
{
    struct memory_use use = {
        .weights = 1, .gradients = 2, .optimizer = 3, .activations = 4, .workspace = 5
    };

    (void)state;
    memory_finish(&use, 15);
    assert_true(use.total == 15 && use.fits);
    memory_finish(&use, 14);
    assert_false(use.fits);
    memory_finish(&use, 0);
    assert_true(use.fits);
}

static void test_memory_text_is_short(void **state)
{
    char text[16];

    (void)state;
    memory_text(512, text);
    assert_string_equal(text, "512 B");
    memory_text((uint64_t)3 << 29, text);
    assert_string_equal(text, "1.5 GiB");
    memory_text(UINT64_MAX, text);
    assert_string_equal(text, "16.0 EiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_held_by_a_gpu),
        cmocka_unit_test(test_memory_held_for_a_group),
        cmocka_unit_test(test_memory_of_a_group_of_cpus),
        cmocka_unit_test(test_memory_limit_accepts_shares_and_sizes),
        cmocka_unit_test(test_memory_sums_and_compares),
        cmocka_unit_test(test_memory_text_is_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
