/* tests/unit/test_spread.c - elements spread over threads. */
#include "config.h"

#include "tests/unit/unit.h"

#include <stdatomic.h>

#include "base/spread.h"
#include "base/size.h"

enum { MOST = 1000 };

struct visits {
    atomic_int of[MOST];
    size_t grain;
    atomic_bool large; /* some part */
};

static void visit(void *context, size_t from, size_t to)
{
    struct visits *visits = context;

    if (to - from > visits->grain)
        visits->large = true;
    for (size_t i = from; i < to; i++)
        visits->of[i]++;
}

static void test_spread_visits_each_element_once(void **state)
{
    static const size_t counts[] = { 0, 1, 7, 8, 9, 999, MOST };
    static const size_t grains[] = { 1, 8, 2000 };

    (void)state;
    for (size_t c = 0; c < TS_COUNT(counts); c++)
        for (size_t g = 0; g < TS_COUNT(grains); g++) {
            struct visits visits = { .grain = grains[g] };

            spread_each(counts[c], grains[g], visit, &visits);
            assert_false(visits.large);
            for (size_t i = 0; i < MOST; i++)
                assert_int_equal(visits.of[i], i < counts[c]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spread_visits_each_element_once),
    };

    return cmocka_run_group_tests_name("spread", tests, NULL, NULL);
}
