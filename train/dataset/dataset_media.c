/* train/dataset/dataset_media.c - the media of a dataset, and which rows of a batch stand
 * for them. */
#include "config.h"

#include "train/dataset/dataset_internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

static void take_medium(struct dataset *dataset, uint32_t index)
{
    const struct dataset_store *store = dataset->data;
    const struct stored_medium *stored = &store->media[index];
    struct media_item *item;

    if (dataset->media_of[index] != UINT32_MAX)
        return;
    dataset->media_of[index] = (uint32_t)dataset->media_count;
    item = &dataset->media[dataset->media_count++];
    *item = (struct media_item) {
        .path = stored->bytes > 0 ? store->strings + stored->path : NULL,
        .key = store->strings + stored->key,
        .kind = (enum media_kind)stored->kind,
        .rows = stored->rows,
        .position = { store->strings + stored->source, stored->line },
        .bytes = stored->seconds ? stored->bytes : 0,
        .seconds = stored->seconds,
        .nanoseconds = stored->nanoseconds,
    };
    memcpy(item->digest, stored->digest, sizeof(item->digest));
    memcpy(item->grid, stored->grid, sizeof(item->grid));
}

void dataset_media_list(struct dataset *dataset)
{
    const struct dataset_store *store = dataset->data;

    if (store->media_count == 0)
        return;
    dataset->media = memory_resize(NULL, store->media_count, sizeof(*dataset->media));
    dataset->media_of =
        memory_resize(NULL, store->media_count, sizeof(*dataset->media_of));
    memset(dataset->media_of, 0xff, store->media_count * sizeof(*dataset->media_of));
    for (size_t i = 0; i < dataset->starts[dataset->rows]; i++) {
        const struct sample *sample = &store->samples[dataset->members[i]];

        for (uint32_t m = 0; m < sample->media; m++)
            take_medium(dataset, store->media_spans[sample->media_at + m].medium);
    }
}

size_t dataset_media(const struct dataset *dataset)
{
    return dataset->media_count;
}

const struct media_item *dataset_medium(const struct dataset *dataset, size_t index)
{
    return &dataset->media[index];
}

static bool is_within(const struct media_span *span, size_t from, size_t to)
{
    return span->start >= from && span->start + span->len <= to;
}

size_t dataset_media_rows(const struct dataset *dataset, const struct sample *sample,
                          size_t from, size_t to)
{
    const struct dataset_store *store = dataset->data;
    const struct media_span *spans = store->media_spans + sample->media_at;
    size_t rows = 0;

    for (uint32_t m = 0; m < sample->media; m++)
        if (is_within(&spans[m], from, to))
            rows += store->media[spans[m].medium].rows;
    return rows;
}

/* Return how many feature rows belong to a token of a span: all, if it has fewer tokens. */
static uint32_t rows_at(const struct media_span *span, const struct stored_medium *medium,
                        uint32_t token)
{
    if (token != medium->token)
        return 0;
    return span->len < medium->rows ? medium->rows : 1;
}

void dataset_media_add(const struct dataset *dataset, const struct sample *sample,
                       size_t from, size_t to, size_t at, struct batch *batch)
{
    const struct dataset_store *store = dataset->data;
    const uint32_t *ids = store->ids + sample->at;

    for (uint32_t m = 0; m < sample->media; m++) {
        const struct media_span *span = &store->media_spans[sample->media_at + m];
        const struct stored_medium *medium = &store->media[span->medium];

        if (!is_within(span, from, to))
            continue;
        batch->media[batch->media_count++] =
            (struct batch_medium) { &dataset->media[dataset->media_of[span->medium]],
                                    (uint32_t)batch->media_rows,
                                    (uint32_t)batch->sequences };
        for (uint32_t i = span->start; i < span->start + span->len; i++)
            for (uint32_t n = rows_at(span, medium, ids[i]); n > 0; n--)
                batch->media_at[batch->media_rows++] = (int32_t)(at + i - from);
    }
}
