/* tests/unit/test_lease_sights.c - how long a lease has not changed, and what is forgotten. */
#include "config.h"

#include "base/lease_sights.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/unit/unit.h"

static void test_sight_lasts_until_a_change(void **state)
{
    (void)state;
    setenv("TRAINSPOOL_LEASE", "60", 1);
    assert_true(lease_sight_note("a", 1, "x") == 0);
    usleep(2000);
    assert_true(lease_sight_note("a", 1, "x") > 0);
    assert_true(lease_sight_is_still("a", 1));
    assert_false(lease_sight_is_still("a", 2));
    assert_false(lease_sight_is_still("b", 1));
    assert_true(lease_sight_note("a", 1, "y") == 0); /* its holder lives */
    assert_false(lease_sight_is_still("a", 1));
    assert_true(lease_sight_note("a", 2, "y") == 0); /* another holder, which may not */
    assert_true(lease_sight_is_still("a", 2));
    lease_sight_forget("a");
    assert_false(lease_sight_is_still("a", 2));
}

static void test_sights_of_old_locks_are_forgotten(void **state)
{
    char name[16];

    (void)state;
    setenv("TRAINSPOOL_LEASE", "0.001", 1);
    lease_sight_note("old", 1, "x");
    usleep(50000);
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof(name), "lock%d", i);
        lease_sight_note(name, 1, "x");
    }
    assert_false(lease_sight_is_still("old", 1));
    assert_true(lease_sight_is_still("lock39", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sight_lasts_until_a_change),
        cmocka_unit_test(test_sights_of_old_locks_are_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
