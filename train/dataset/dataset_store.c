/* train/dataset/dataset_store.c - growing arrays of samples, spans and ids. */
#include "config.h"

#include "train/dataset/dataset_store.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"

void dataset_store_clear(struct dataset_store *store)
{
    if (store->mapping) {
        munmap(store->mapping, store->mapped);
    } else {
        free(store->spans);
        free(store->samples);
        free(store->media_spans);
        free(store->media);
        free(store->strings);
        if (!store->borrows_ids && !store->spill.data)
            free(store->ids);
        dataset_spill_clear(&store->spill);
    }
    *store = (struct dataset_store) { 0 };
}

/* Make room for `more` elements of an array. */
static void *grow(void *array, size_t count, size_t *room, size_t more, size_t size)
{
    if (count + more <= *room)
        return array;
    *room = 2 * *room + more + 64;
    return memory_resize(array, *room, size);
}

static void add_span(struct dataset_store *store, struct sample *sample, uint32_t start,
                     uint32_t len, float weight)
{
    uint32_t targets = start > 0 ? len : len - 1; /* nothing predicts the first token */

    store->spans = grow(store->spans, store->span_count, &store->span_room, 1,
                        sizeof(struct label_span));
    store->spans[store->span_count++] = (struct label_span) { start, len, weight };
    sample->spans++;
    sample->targets += targets;
    sample->weight += (double)targets * fabs((double)weight);
    store->weighted |= fabsf(weight) != 1;
}

static void add_spans(struct dataset_store *store, struct sample *sample,
                      const float *weights)
{
    uint32_t end;

    for (uint32_t start = 0; start < sample->len; start = end) {
        for (end = start + 1; end < sample->len && weights[end] == weights[start]; end++)
            ;
        if (weights[start] != 0)
            add_span(store, sample, start, end - start, weights[start]);
    }
}

/* Make room in a file; ids in memory move there. */
static bool spill_ids(struct dataset_store *store, size_t room)
{
    uint32_t *before = store->spill.data ? NULL : store->ids;

    if (!dataset_spill_grow(&store->spill, store->spill_dir, room * sizeof(uint32_t)))
        return false;
    if (before)
        memcpy(store->spill.data, before, store->tokens * sizeof(uint32_t));
    free(before);
    store->ids = store->spill.data;
    store->room = room;
    return true;
}

/* Make room for `more` ids. If the disk is full, use memory. */
static void grow_ids(struct dataset_store *store, size_t more)
{
    size_t room = 2 * store->room + more + 64;
    uint32_t *ids;

    if (store->tokens + more <= store->room)
        return;
    if (store->spill_dir && room >= store->spill_from && spill_ids(store, room))
        return;
    if (store->spill.data) {
        ids = memory_resize(NULL, room, sizeof(uint32_t));
        memcpy(ids, store->ids, store->tokens * sizeof(uint32_t));
        dataset_spill_clear(&store->spill);
        store->spill_dir = NULL;
        store->ids = ids;
        store->room = room;
    } else {
        store->ids = memory_resize(store->ids, room, sizeof(uint32_t));
        store->room = room;
    }
}

static void add_ids(struct dataset_store *store, const uint32_t *ids, size_t len)
{
    grow_ids(store, len);
    for (size_t i = 0; i < len; i++) {
        store->ids[store->tokens + i] = ids[i];
        store->token_max = ids[i] > store->token_max ? ids[i] : store->token_max;
    }
    store->tokens += len;
}

static void add_sample(struct dataset_store *store, const struct sample *sample)
{
    store->samples =
        grow(store->samples, store->count, &store->sample_room, 1, sizeof(struct sample));
    store->samples[store->count++] = *sample;
}

void dataset_store_add(struct dataset_store *store, const uint32_t *ids,
                       const float *weights, size_t len)
{
    struct sample sample = {
        .at = store->tokens,
        .len = (uint32_t)len,
        .span_at = store->span_count,
    };

    add_ids(store, ids, len);
    if (weights)
        add_spans(store, &sample, weights);
    else if (len > 0)
        add_span(store, &sample, 0, (uint32_t)len, 1);
    add_sample(store, &sample);
}

void dataset_store_add_media(struct dataset_store *store, const struct media_span *spans,
                             size_t count)
{
    struct sample *sample = &store->samples[store->count - 1];

    if (count == 0)
        return;
    store->media_spans = grow(store->media_spans, store->media_span_count,
                              &store->media_span_room, count, sizeof(*spans));
    memcpy(store->media_spans + store->media_span_count, spans, count * sizeof(*spans));
    sample->media_at = (uint32_t)store->media_span_count;
    sample->media = (uint32_t)count;
    store->media_span_count += count;
}

static uint64_t add_string(struct dataset_store *store, const char *text)
{
    size_t at = store->string_bytes, len = strlen(text) + 1;

    store->strings = grow(store->strings, at, &store->string_room, len, 1);
    memcpy(store->strings + at, text, len);
    store->string_bytes += len;
    return at;
}

uint32_t dataset_store_medium(struct dataset_store *store,
                              const struct stored_medium *medium, const char *path,
                              const char *key, const struct dataset_position *position)
{
    struct stored_medium added = *medium;
    const size_t last = store->media_count - 1;

    added.path = add_string(store, path);
    added.key = strcmp(path, key) == 0 ? added.path : add_string(store, key);
    added.source =
        store->media_count > 0 &&
                strcmp(store->strings + store->media[last].source, position->file) == 0
            ? store->media[last].source
            : add_string(store, position->file);
    added.line = position->line;
    store->media =
        grow(store->media, store->media_count, &store->media_room, 1, sizeof(added));
    store->media[store->media_count] = added;
    return (uint32_t)store->media_count++;
}

void dataset_store_join(const struct dataset_store *from, const uint32_t *samples,
                        size_t count, struct dataset_store *out)
{
    for (size_t i = 0; i < count; i++) {
        const struct sample *sample = &from->samples[samples[i]];

        add_ids(out, from->ids + sample->at, sample->len);
    }
}

void dataset_store_cut(const struct dataset_store *from, size_t block,
                       struct dataset_store *out)
{
    *out = (struct dataset_store) { .ids = from->ids,
                                    .tokens = from->tokens,
                                    .token_max = from->token_max,
                                    .borrows_ids = true };
    for (size_t at = 0; at < from->tokens; at += block) {
        size_t remaining = from->tokens - at, len = remaining < block ? remaining : block;
        struct sample sample = {
            .at = at,
            .len = (uint32_t)len,
            .span_at = out->span_count,
        };

        if (len < block && at > 0)
            break;
        add_span(out, &sample, 0, (uint32_t)len, 1);
        add_sample(out, &sample);
    }
}
