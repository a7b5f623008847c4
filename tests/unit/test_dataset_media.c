/* tests/unit/test_dataset_media.c - which rows of a batch stand for which medium. */
#include "config.h"

#include "train/dataset/dataset_internal.h"

#include "base/size.h"
#include "tests/unit/unit.h"

enum { TOKEN = 99, BREAK = 98 };

/* Two samples that share a medium; the second one also has an image whose rows have a
 * break between them. */
static struct dataset samples_with_media(void)
{
    static const uint32_t first[] = { 1, TOKEN, TOKEN, TOKEN, 2, 3 };
    static const uint32_t second[] = { 4,     TOKEN, TOKEN, TOKEN, 5,
                                       TOKEN, TOKEN, BREAK, TOKEN, TOKEN };
    const struct dataset_position at = { "a.jsonl", 1 }, next = { "b.jsonl", 7 };
    const struct media_span spans[] = { { 1, 3, 1 }, { 5, 5, 2 } };
    const struct stored_medium
        sound = { .bytes = 1, .kind = MEDIA_AUDIO, .rows = 3, .token = TOKEN },
        image = { .kind = MEDIA_IMAGE, .rows = 4, .grid = { 1, 2, 2 }, .token = TOKEN };
    struct dataset dataset = { .first_token = -1 };
    struct dataset_store *store = &dataset.store;

    dataset_store_medium(store, &sound, "unused.wav", "unused.wav", &at);
    dataset_store_medium(store, &sound, "media/a.wav", "a.wav", &at);
    dataset_store_medium(store, &image, "b.png", "b.png", &next);
    dataset_store_add(store, first, NULL, TS_COUNT(first));
    dataset_store_add_media(store, spans, 1);
    dataset_store_add(store, second, NULL, TS_COUNT(second));
    dataset_store_add_media(store, spans, 2);
    dataset.rows = 2;
    dataset.starts = memory_resize(NULL, 3, sizeof(size_t));
    dataset.members = memory_resize(NULL, 2, sizeof(uint32_t));
    for (size_t i = 0; i < 3; i++)
        dataset.starts[i] = i;
    for (uint32_t i = 0; i < 2; i++)
        dataset.members[i] = 1 - i; /* the second sample first */
    return dataset;
}

static void clear(struct dataset *dataset)
{
    dataset_store_clear(&dataset->store);
    free(dataset->starts);
    free(dataset->members);
    free(dataset->media);
    free(dataset->media_of);
}

static void test_dataset_media_lists_those_of_the_rows(void **state)
{
    struct dataset dataset = samples_with_media();
    const struct media_item *item;

    (void)state;
    dataset.data = &dataset.store;
    dataset_media_list(&dataset);
    assert_int_equal(dataset_media(&dataset), 2);
    item = dataset_medium(&dataset, 0);
    assert_string_equal(item->path, "media/a.wav");
    assert_string_equal(item->key, "a.wav");
    assert_string_equal(item->position.file, "a.jsonl");
    assert_int_equal(item->position.line, 1);
    assert_int_equal(item->kind, MEDIA_AUDIO);
    item = dataset_medium(&dataset, 1);
    assert_null(item->path); /* without a file */
    assert_string_equal(item->key, "b.png");
    assert_string_equal(item->position.file, "b.jsonl");
    assert_int_equal(item->position.line, 7);
    assert_int_equal(item->grid[2], 2);
    assert_int_equal(dataset_media_rows_max(&dataset, 1), 7);
    assert_int_equal(dataset_media_rows_max(&dataset, 8), 10);
    clear(&dataset);
}

static void test_dataset_media_have_rows_of_a_batch(void **state)
{
    static const int32_t at[] = { 1, 2, 3, 5, 6, 8, 9, 11, 12, 13 };
    struct dataset dataset = samples_with_media();
    struct batch batch = { 0 };

    (void)state;
    dataset.data = &dataset.store;
    dataset_media_list(&dataset);
    for (int again = 0; again < 2; again++) {
        assert_true(dataset_batch(&dataset, 0, 0, 2, &batch));
        assert_int_equal(batch.rows, 16);
        assert_int_equal(batch.media_count, 3);
        assert_int_equal(batch.media_rows, TS_COUNT(at));
        assert_memory_equal(batch.media_at, at, sizeof(at));
        assert_ptr_equal(batch.media[0].item, dataset_medium(&dataset, 0));
        assert_ptr_equal(batch.media[1].item, dataset_medium(&dataset, 1));
        assert_ptr_equal(batch.media[2].item, dataset_medium(&dataset, 0));
        assert_int_equal(batch.media[1].first, 3);
        assert_int_equal(batch.media[2].first, 7);
        assert_int_equal(batch.media[1].sequence, 0);
        assert_int_equal(batch.media[2].sequence, 1);
        for (size_t i = 0; i < batch.media_rows; i++)
            assert_int_equal(batch.tokens[batch.media_at[i]], TOKEN);
    }
    assert_true(
        dataset_batch(&dataset, 0, 1, 1, &batch)); /* the memory is large enough */
    assert_int_equal(batch.media_count, 1);
    assert_int_equal(batch.media_rows, 3);
    assert_int_equal(batch.media_at[2], 3);
    batch_clear(&batch);
    clear(&dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dataset_media_lists_those_of_the_rows),
        cmocka_unit_test(test_dataset_media_have_rows_of_a_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
