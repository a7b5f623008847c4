/* tests/unit/test_reach.c - which rows see each other in attention. */
#include "config.h"

#include "kernels/reach.h"

#include "base/size.h"
#include "tests/unit/unit.h"

/* Two sequences, 0 .. 5 and 6 .. 9; rows 1 .. 3 and 6 .. 7 are blocks. */
static const int32_t offsets[] = { 0, 6, 10 };
static const int32_t blocks[] = { 1, 4, 4, 4, 5, 6, 8, 8, 9, 10 };

static void test_reach_joins_blocks(void **state)
{
    int32_t reach[10];

    (void)state;
    reach_causal(reach, TS_COUNT(reach));
    reach_join(reach, 1, 4);
    reach_join(reach, 6, 8);
    assert_memory_equal(reach, blocks, sizeof(blocks));
}

/* By its definition: the first row that reaches beyond k. */
static void test_reach_since_is_the_first_that_sees(void **state)
{
    static const int32_t whole[] = { 6, 6, 6, 6, 6, 6, 10, 10, 10, 10 };
    static const int32_t before[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 };
    const int32_t *const all[] = { blocks, whole, before };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(all); i++) {
        int32_t since[10];

        assert_true(reach_holds(all[i], offsets, 2));
        reach_since(since, all[i], 10);
        for (int32_t k = 0; k < 10; k++) {
            int32_t row = 0;

            while (all[i][row] <= k)
                row++;
            assert_int_equal(since[k], row);
        }
    }
}

static void check_broken(size_t row, int32_t value)
{
    int32_t reach[10];

    memcpy(reach, blocks, sizeof(reach));
    reach[row] = value;
    assert_false(reach_holds(reach, offsets, 2));
}

static void test_reach_holds_refuses_others(void **state)
{
    (void)state;
    check_broken(0, 0); /* does not see itself */
    check_broken(2, 3); /* sees less than the row before it */
    check_broken(5, 7); /* sees the next sequence */
    check_broken(9, 11);
}

/* Sequences of 3, 0 and 2 rows, which have 4, 1 and 0 keys. */
static const int32_t rows_of[] = { 0, 3, 3, 5 }, keys_of[] = { 0, 4, 5, 5 };
static const int32_t of_keys[] = { 0, 2, 3, 5, 5 };

static void test_reach_since_keys_is_the_first_that_sees(void **state)
{
    static const int32_t wanted[] = { 1, 1, 2, 3, 3 };
    int32_t since[TS_COUNT(wanted)];

    (void)state;
    assert_true(reach_keys_hold(of_keys, rows_of, keys_of, 3));
    assert_true(reach_keys_hold(NULL, rows_of, keys_of, 3));
    reach_since_keys(since, of_keys, rows_of, keys_of, 3);
    assert_memory_equal(since, wanted, sizeof(wanted));
}

static void check_broken_keys(size_t row, int32_t value)
{
    int32_t reach[TS_COUNT(of_keys)];

    memcpy(reach, of_keys, sizeof(reach));
    reach[row] = value;
    assert_false(reach_keys_hold(reach, rows_of, keys_of, 3));
}

static void test_reach_keys_hold_refuses_others(void **state)
{
    static const int32_t late[] = { 1, 4, 5, 5 }, falls[] = { 0, 4, 3, 5 };

    (void)state;
    check_broken_keys(0, -1);
    check_broken_keys(1, 4); /* the row after it sees less */
    check_broken_keys(2, 5); /* a key of the next sequence */
    check_broken_keys(3, 4); /* of an earlier one */
    check_broken_keys(4, 6);
    assert_false(reach_keys_hold(NULL, rows_of, late, 3));
    assert_false(reach_keys_hold(NULL, late, keys_of, 3));
    assert_false(reach_keys_hold(NULL, rows_of, falls, 3));
    assert_false(reach_keys_hold(NULL, falls, keys_of, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reach_joins_blocks),
        cmocka_unit_test(test_reach_since_is_the_first_that_sees),
        cmocka_unit_test(test_reach_holds_refuses_others),
        cmocka_unit_test(test_reach_since_keys_is_the_first_that_sees),
        cmocka_unit_test(test_reach_keys_hold_refuses_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
