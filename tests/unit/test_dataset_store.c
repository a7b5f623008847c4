/* tests/unit/test_dataset_store.c - weights as spans, a selection joined, a text cut
 * into blocks. */
#include "config.h"

#include "train/dataset/dataset_store.h"

#include <unistd.h>

#include "base/size.h"
#include "tests/unit/unit.h"

static void test_dataset_store_keeps_weights_as_spans(void **state)
{
    static const uint32_t ids[] = { 5, 6, 7, 8, 9, 10 };
    static const float weights[][6] = {
        { 0, 0, 1, 1, 0, 1 },
        { 1, 1, 0, 0, 0, 0 }, /* nothing precedes the first: one target */
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
    assert_int_equal(store.samples[0].spans, 2);
    assert_int_equal(store.spans[0].start, 2);
    assert_int_equal(store.spans[0].len, 2);
    assert_int_equal(store.spans[1].start, 5);
    assert_int_equal(store.samples[1].targets, 1);
    assert_int_equal(store.samples[2].targets, 0);
    assert_int_equal(store.samples[2].spans, 0);
    assert_int_equal(store.samples[3].targets, 5);
    assert_int_equal(store.samples[4].len, 0);
    assert_false(store.weighted);
    dataset_store_clear(&store);
}

/* A span ends where the weight changes; the weight of a sample is that of its
 * targets. */
static void test_dataset_store_splits_spans_by_weight(void **state)
{
    static const uint32_t ids[] = { 5, 6, 7, 8, 9 };
    static const float weights[] = { 0.5f, 0.5f, 2, 2, 0 };
    struct dataset_store store = { 0 };

    (void)state;
    dataset_store_add(&store, ids, weights, 5);
    assert_true(store.weighted);
    assert_int_equal(store.samples[0].spans, 2);
    assert_int_equal(store.samples[0].targets, 3);
    assert_true(store.samples[0].weight == 0.5 + 2 + 2);
    assert_true(store.spans[0].start == 0 && store.spans[0].len == 2);
    assert_true(store.spans[1].start == 2 && store.spans[1].len == 2);
    assert_true(store.spans[0].weight == 0.5f && store.spans[1].weight == 2);
    dataset_store_clear(&store);
}

/* Samples of 1, 2, 3 ... tokens, each token being the sample's number. */
static void fill(struct dataset_store *store, size_t samples)
{
    uint32_t ids[64];

    for (size_t i = 0; i < samples; i++) {
        for (size_t n = 0; n <= i; n++)
            ids[n] = (uint32_t)i;
        dataset_store_add(store, ids, NULL, i + 1);
    }
}

static void test_dataset_store_joins_a_selection(void **state)
{
    static const uint32_t chosen[] = { 2, 0, 5, 0 };
    struct dataset_store store = { 0 }, joined = { 0 };
    size_t at = 0;

    (void)state;
    fill(&store, 7);
    dataset_store_join(&store, chosen, TS_COUNT(chosen), &joined);
    assert_int_equal(joined.tokens, 3 + 1 + 6 + 1);
    assert_int_equal(joined.token_max, 5);
    for (size_t i = 0; i < TS_COUNT(chosen); i++)
        for (size_t n = 0; n <= chosen[i]; n++)
            assert_int_equal(joined.ids[at++], chosen[i]);
    dataset_store_clear(&joined);
    dataset_store_clear(&store);
}

/* Above a certain number, tokens are moved to a file, unchanged. */
static void test_dataset_store_spills_to_a_file(void **state)
{
    char *dir = unit_dir_new();
    struct dataset_store store = { .spill_dir = dir, .spill_from = 1000 };
    struct dataset_store stuck = { .spill_dir = "/nowhere", .spill_from = 10 };
    uint32_t ids[97];
    size_t at = 0;

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        for (uint32_t n = 0; n < TS_COUNT(ids); n++)
            ids[n] = i * 1000 + n;
        dataset_store_add(&store, ids, NULL, 1 + i % TS_COUNT(ids));
        dataset_store_add(&stuck, ids, NULL, 1 + i % TS_COUNT(ids));
        assert_int_equal(store.spill.data != NULL, store.room >= 1000);
    }
    assert_non_null(store.spill.data);
    assert_null(stuck.spill.data); /* falls back to memory */
    for (uint32_t i = 0; i < 200; i++)
        for (uint32_t n = 0; n < 1 + i % TS_COUNT(ids); n++, at++)
            assert_true(store.ids[at] == i * 1000 + n && stuck.ids[at] == store.ids[at]);
    dataset_store_clear(&store);
    dataset_store_clear(&stuck);
    assert_int_equal(rmdir(dir), 0); /* the directory is empty */
    free(dir);
}

static void test_dataset_store_cuts_text_into_blocks(void **state)
{
    struct dataset_store store = { 0 }, blocks;

    (void)state;
    fill(&store, 6); /* 21 tokens: 0 1 1 2 2 2 3 3 3 3 ... */
    dataset_store_cut(&store, 4, &blocks);
    assert_int_equal(blocks.count, 5);
    for (size_t i = 0; i < blocks.count; i++) {
        assert_int_equal(blocks.samples[i].at, 4 * i);
        assert_int_equal(blocks.samples[i].len, 4);
        assert_int_equal(blocks.samples[i].targets, 3);
    }
    assert_ptr_equal(blocks.ids, store.ids);
    dataset_store_clear(&blocks);
    assert_int_equal(store.count, 6);        /* is unchanged */
    dataset_store_cut(&store, 100, &blocks); /* less than a block: all tokens */
    assert_int_equal(blocks.count, 1);
    assert_int_equal(blocks.samples[0].len, 21);
    dataset_store_clear(&blocks);
    dataset_store_clear(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_store_keeps_weights_as_spans),
        cmocka_unit_test(test_dataset_store_splits_spans_by_weight),
        cmocka_unit_test(test_dataset_store_joins_a_selection),
        cmocka_unit_test(test_dataset_store_spills_to_a_file),
        cmocka_unit_test(test_dataset_store_cuts_text_into_blocks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
