/* tests/unit/test_cpu_cores.c - CPU limits in the format the kernel writes. */
#include "config.h"

#include "kernels/cpu/cpu_cores.h"

#include "tests/unit/unit.h"

#include <sched.h>

static void test_cores_reads_version_2(void **state)
{
    (void)state;
    assert_int_equal(cores_of_max("max 100000\n"), 0);
    assert_int_equal(cores_of_max("200000 100000\n"), 2);
    assert_int_equal(cores_of_max("150000 100000\n"), 2);
    assert_int_equal(cores_of_max("1000 100000\n"), 1);
    assert_int_equal(cores_of_max(""), 0);
    assert_int_equal(cores_of_max("100000 0"), 0);
}

static void test_cores_reads_version_1(void **state)
{
    (void)state;
    assert_int_equal(cores_of_quota("-1\n", "100000\n"), 0);
    assert_int_equal(cores_of_quota("400000\n", "100000\n"), 4);
    assert_int_equal(cores_of_quota("50000\n", "100000\n"), 1);
    assert_int_equal(cores_of_quota("", ""), 0);
}

static void test_cores_respect_affinity(void **state)
{
    cpu_set_t before, one;
    size_t cores = cores_usable();

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    assert_in_range(cores, 1, (size_t)CPU_COUNT(&before));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    assert_int_equal(cores_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cores_reads_version_2),
        cmocka_unit_test(test_cores_reads_version_1),
        cmocka_unit_test(test_cores_respect_affinity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
