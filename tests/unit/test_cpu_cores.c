/* tests/unit/test_cpu_cores.c - the cores that a process may use. */
#include "config.h"

#include "kernels/cpu/cpu_cores.h"

#include "tests/unit/unit.h"

#include <sched.h>

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
        cmocka_unit_test(test_cores_respect_affinity),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
