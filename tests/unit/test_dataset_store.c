/* tests/unit/test_dataset_store.c - weights as runs, cutting in blocks, and packing held
 * against first-fit-decreasing as it is told. */
#include "config.h"

#include "train/dataset_store.h"

#include "base/random.h"
#include "base/size.h"
#include "tests/unit/unit.h"

static void test_dataset_store_keeps_weights_as_runs(void **state)
{
    static const uint32_t ids[] = { 5, 6, 7, 8, 9, 10 };
    static const float weights[][6] = {
        { 0, 0, 1, 1, 0, 1 },
        { 1, 1, 0, 0, 0, 0 }, /* nothing stands before the first: one target */
        { 0, 0, 0, 0, 0, 0 },
    };
    struct dataset_store store = { 0 };

    (void)state;
    for (size_t i = 0; i < TS_COUNT(weights); i++)
        dataset_store_add(&store, ids, weights[i], 6);
    dataset_store_add(&store, ids, NULL, 6);
    dataset_store_add(&store, NULL, NULL, 0);
    assert_int_equal(store.count, 5);
    assert_int_equal(store.tokens, 24);
    assert_int_equal(store.samples[0].targets, 3);
    assert_int_equal(store.samples[0].runs, 2);
    assert_int_equal(store.runs[0].start, 2);
    assert_int_equal(store.runs[0].len, 2);
    assert_int_equal(store.runs[1].start, 5);
    assert_int_equal(store.samples[1].targets, 1);
    assert_int_equal(store.samples[2].targets, 0);
    assert_int_equal(store.samples[2].runs, 0);
    assert_int_equal(store.samples[3].targets, 5);
    assert_int_equal(store.samples[4].len, 0);
    assert_false(store.weighted);
    dataset_store_clear(&store);
}

/* A run ends where the weight changes; the weight of a sample is that of its targets. */
static void test_dataset_store_parts_runs_by_weight(void **state)
{
    static const uint32_t ids[] = { 5, 6, 7, 8, 9 };
    static const float weights[] = { 0.5f, 0.5f, 2, 2, 0 };
    struct dataset_store store = { 0 };

    (void)state;
    dataset_store_add(&store, ids, weights, 5);
    assert_true(store.weighted);
    assert_int_equal(store.samples[0].runs, 2);
    assert_int_equal(store.samples[0].targets, 3);
    assert_true(store.samples[0].weight == 0.5 + 2 + 2);
    assert_true(store.runs[0].start == 0 && store.runs[0].len == 2);
    assert_true(store.runs[1].start == 2 && store.runs[1].len == 2);
    assert_true(store.runs[0].weight == 0.5f && store.runs[1].weight == 2);
    dataset_store_clear(&store);
}

/* Samples of 1, 2, 3 ... tokens, all of them the sample's number. */
static void fill(struct dataset_store *store, size_t samples)
{
    uint32_t ids[64];

    for (size_t i = 0; i < samples; i++) {
        for (size_t n = 0; n <= i; n++)
            ids[n] = (uint32_t)i;
        dataset_store_add(store, ids, NULL, i + 1);
    }
}

static void test_dataset_store_keeps_a_choice(void **state)
{
    static const uint32_t kept[] = { 1, 2, 5 };
    struct dataset_store store = { 0 };

    (void)state;
    fill(&store, 7);
    dataset_store_keep(&store, kept, 3);
    assert_int_equal(store.count, 3);
    assert_int_equal(store.tokens, 2 + 3 + 6);
    for (size_t i = 0; i < 3; i++) {
        const struct sample *sample = &store.samples[i];

        assert_int_equal(sample->len, kept[i] + 1);
        assert_int_equal(store.runs[sample->run_at].len, kept[i] + 1);
        for (size_t n = 0; n < sample->len; n++)
            assert_int_equal(store.ids[sample->at + n], kept[i]);
    }
    dataset_store_clear(&store);
}

static void test_dataset_store_cuts_blocks(void **state)
{
    struct dataset_store store = { 0 };

    (void)state;
    fill(&store, 6); /* 21 tokens: 0 1 1 2 2 2 3 3 3 3 ... */
    dataset_store_cut(&store, 4, -1);
    assert_int_equal(store.count, 5);
    assert_int_equal(store.tokens, 20);
    for (size_t i = 0; i < store.count; i++) {
        assert_int_equal(store.samples[i].at, 4 * i);
        assert_int_equal(store.samples[i].len, 4);
        assert_int_equal(store.samples[i].targets, 3);
    }
    assert_int_equal(store.ids[0], 0);
    dataset_store_cut(&store, 8, 99);
    assert_int_equal(store.count, 2);
    assert_int_equal(store.ids[0], 99);
    assert_int_equal(store.ids[8], 99);
    assert_int_equal(store.ids[9], 3);
    dataset_store_cut(&store, 100, -1); /* less than a block: it is all there is */
    assert_int_equal(store.count, 1);
    assert_int_equal(store.samples[0].len, 16);
    dataset_store_clear(&store);
}

/* First-fit-decreasing as the books have it: the row of each sample, by trying all rows.
 */
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

static void test_dataset_store_packs_first_fit_decreasing(void **state)
{
    static const uint32_t ids[64] = { 0 };
    const size_t room = 64;

    (void)state;
    for (uint32_t round = 0; round < 200; round++) {
        struct dataset_store store = { 0 };
        size_t wanted[60], *starts, rows, samples = 1 + round % 60;
        uint32_t *members;

        for (size_t i = 0; i < samples; i++)
            dataset_store_add(&store, ids, NULL,
                              1 + random_bits(7, RANDOM_SPLIT, round, i) %
                                      (round % 3 ? room : 20));
        rows = dataset_store_pack(&store, room, &members, &starts);
        assert_int_equal(rows, first_fit(&store, room, wanted));
        assert_int_equal(starts[0], 0);
        assert_int_equal(starts[rows], samples);
        for (size_t row = 0; row < rows; row++)
            for (size_t i = starts[row]; i < starts[row + 1]; i++)
                assert_int_equal(wanted[members[i]], row);
        free(members);
        free(starts);
        dataset_store_clear(&store);
    }
}

static void test_dataset_store_packs_what_is_too_long_alone(void **state)
{
    struct dataset_store store = { 0 };
    size_t *starts;
    uint32_t *members;

    (void)state;
    fill(&store, 6); /* 1 to 6 tokens into rows of 3 */
    assert_int_equal(dataset_store_pack(&store, 3, &members, &starts), 5);
    assert_int_equal(members[starts[0]], 2);
    assert_int_equal(members[starts[4]], 1);
    assert_int_equal(members[starts[4] + 1], 0);
    free(members);
    free(starts);
    dataset_store_clear(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_store_keeps_weights_as_runs),
        cmocka_unit_test(test_dataset_store_parts_runs_by_weight),
        cmocka_unit_test(test_dataset_store_keeps_a_choice),
        cmocka_unit_test(test_dataset_store_cuts_blocks),
        cmocka_unit_test(test_dataset_store_packs_first_fit_decreasing),
        cmocka_unit_test(test_dataset_store_packs_what_is_too_long_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
