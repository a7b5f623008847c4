/* tests/unit/test_dataset_pack.c - packing compared with a plain implementation of
 * first-fit-decreasing. */
#include "config.h"

#include "train/dataset/dataset_pack.h"

#include "base/random.h"
#include "base/size.h"
#include "tests/unit/unit.h"

/* Textbook first-fit-decreasing: the row of each sample, by trying all rows. */
static size_t first_fit(const struct dataset_store *store, size_t room, size_t *rows)
{
    size_t left[64], count = 0;

    for (size_t len = room; len > 0; len--) {
        for (size_t i = 0; i < store->count; i++) {
            size_t row = 0;

            if (store->samples[i].len != len)
                continue;
            while (row < count && left[row] < len)
                row++;
            if (row == count)
                left[count++] = room;
            left[row] -= len;
            rows[i] = row;
        }
    }
    return count;
}

static void test_dataset_pack_is_first_fit_decreasing(void **state)
{
    static const uint32_t ids[64] = { 0 };
    const size_t room = 64;

    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        struct dataset_store store = { 0 };
        size_t expected[60], starts[61], rows, samples = 1 + round % 60;
        uint32_t all[60], members[60];

        for (uint32_t i = 0; i < samples; i++) {
            all[i] = i;
            dataset_store_add(&store, ids, NULL,
                              1 + random_bits(7, RANDOM_SPLIT, round, i) %
                                      (round % 3 ? room : 20));
        }
        rows = dataset_pack(&store, all, samples, room, members, starts);
        assert_int_equal(rows, first_fit(&store, room, expected));
        assert_int_equal(starts[0], 0);
        assert_int_equal(starts[rows], samples);
        for (size_t row = 0; row < rows; row++)
            for (size_t i = starts[row]; i < starts[row + 1]; i++)
                assert_int_equal(expected[members[i]], row);
        dataset_store_clear(&store);
    }
}

/* Samples of 1, 2, 3 ... tokens. */
static void fill(struct dataset_store *store, size_t samples)
{
    static const uint32_t ids[64] = { 0 };

    for (size_t i = 0; i < samples; i++)
        dataset_store_add(store, ids, NULL, i + 1);
}

static void test_dataset_pack_leaves_long_samples_alone(void **state)
{
    static const uint32_t all[] = { 0, 1, 2, 3, 4, 5 };
    struct dataset_store store = { 0 };
    uint32_t members[6];
    size_t starts[7];

    (void)state;
    fill(&store, 6); /* 1 to 6 tokens into rows of 3 */
    assert_int_equal(dataset_pack(&store, all, 6, 3, members, starts), 5);
    assert_int_equal(members[starts[0]], 2);
    assert_int_equal(members[starts[4]], 1);
    assert_int_equal(members[starts[4] + 1], 0);
    dataset_store_clear(&store);
}

/* Only the listed samples, some of them twice. */
static void test_dataset_pack_accepts_a_selection(void **state)
{
    static const uint32_t some[] = { 5, 1, 1, 3 };
    struct dataset_store store = { 0 };
    uint32_t members[4];
    size_t starts[5];

    (void)state;
    fill(&store, 6);
    assert_int_equal(dataset_pack(&store, some, 4, 8, members, starts), 2);
    assert_memory_equal(members, ((uint32_t[]) { 5, 1, 3, 1 }), sizeof(members));
    assert_int_equal(starts[1], 2);
    assert_int_equal(starts[2], 4);
    dataset_store_clear(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_pack_is_first_fit_decreasing),
        cmocka_unit_test(test_dataset_pack_leaves_long_samples_alone),
        cmocka_unit_test(test_dataset_pack_accepts_a_selection),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
