/* train/dataset_store.c - arrays that grow, and the arrangement of samples in rows. */
#include "config.h"

#include "train/dataset_store.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

void dataset_store_clear(struct dataset_store *store)
{
    free(store->ids);
    free(store->runs);
    free(store->samples);
    *store = (struct dataset_store) { 0 };
}

/* Room for one more of an array. */
static void *grow(void *array, size_t count, size_t *room, size_t more, size_t size)
{
    if (count + more <= *room)
        return array;
    *room = 2 * *room + more + 64;
    return memory_resize(array, *room, size);
}

static void add_run(struct dataset_store *store, struct sample *sample, uint32_t start,
                    uint32_t len, float weight)
{
    uint32_t targets = start > 0 ? len : len - 1; /* nothing stands before the first */

    store->runs = grow(store->runs, store->run_count, &store->run_room, 1,
                       sizeof(struct label_run));
    store->runs[store->run_count++] = (struct label_run) { start, len, weight };
    sample->runs++;
    sample->targets += targets;
    sample->weight += (double)targets * (double)weight;
    store->weighted |= weight != 1;
}

static void add_runs(struct dataset_store *store, struct sample *sample,
                     const float *weights)
{
    uint32_t end;

    for (uint32_t start = 0; start < sample->len; start = end) {
        for (end = start + 1; end < sample->len && weights[end] == weights[start]; end++)
            ;
        if (weights[start] > 0)
            add_run(store, sample, start, end - start, weights[start]);
    }
}

void dataset_store_add(struct dataset_store *store, const uint32_t *ids,
                       const float *weights, size_t len)
{
    struct sample sample = {
        .at = store->tokens,
        .len = (uint32_t)len,
        .run_at = store->run_count,
    };

    store->ids = grow(store->ids, store->tokens, &store->room, len, sizeof(uint32_t));
    if (len > 0)
        memcpy(store->ids + store->tokens, ids, len * sizeof(uint32_t));
    store->tokens += len;
    if (weights)
        add_runs(store, &sample, weights);
    else if (len > 0)
        add_run(store, &sample, 0, (uint32_t)len, 1);
    store->samples =
        grow(store->samples, store->count, &store->sample_room, 1, sizeof(struct sample));
    store->samples[store->count++] = sample;
}

/* Samples only move towards the front, so nothing is overwritten that is still wanted. */
void dataset_store_keep(struct dataset_store *store, const uint32_t *indices,
                        size_t count)
{
    size_t tokens = 0, runs = 0;

    for (size_t i = 0; i < count; i++) {
        struct sample sample = store->samples[indices[i]];

        memmove(store->ids + tokens, store->ids + sample.at,
                sample.len * sizeof(uint32_t));
        memmove(store->runs + runs, store->runs + sample.run_at,
                sample.runs * sizeof(struct label_run));
        sample.at = tokens;
        sample.run_at = runs;
        tokens += sample.len;
        runs += sample.runs;
        store->samples[i] = sample;
    }
    store->tokens = tokens;
    store->run_count = runs;
    store->count = count;
}

void dataset_store_cut(struct dataset_store *store, size_t block, int64_t first)
{
    size_t tokens = store->tokens;

    store->count = store->run_count = 0;
    for (size_t at = 0; at < tokens; at += block) {
        size_t len = tokens - at < block ? tokens - at : block;
        struct sample sample = {
            .at = at,
            .len = (uint32_t)len,
            .run_at = store->run_count,
        };

        if (len < block && at > 0) {
            store->tokens = at;
            break;
        }
        if (first >= 0)
            store->ids[at] = (uint32_t)first;
        add_run(store, &sample, 0, (uint32_t)len, 1);
        store->samples = grow(store->samples, store->count, &store->sample_room, 1,
                              sizeof(struct sample));
        store->samples[store->count++] = sample;
    }
}

/* Samples by length: lists of those of one length, in order, and which lengths have any.
 */
struct lengths {
    uint32_t *heads, *next; /* index + 1; 0: none */
    uint64_t *any;          /* a bit a length */
    size_t longest;
};

static struct lengths lengths_new(const struct dataset_store *store, size_t room)
{
    struct lengths lengths = {
        .heads = memory_alloc((room + 1) * sizeof(uint32_t)),
        .next = memory_alloc((store->count + 1) * sizeof(uint32_t)),
        .any = memory_alloc((room / 64 + 1) * sizeof(uint64_t)),
    };

    for (size_t i = store->count; i-- > 0;) {
        size_t len = store->samples[i].len < room ? store->samples[i].len : room;

        lengths.next[i] = lengths.heads[len];
        lengths.heads[len] = (uint32_t)i + 1;
        lengths.any[len / 64] |= (uint64_t)1 << len % 64;
    }
    return lengths;
}

static void lengths_free(struct lengths *lengths)
{
    free(lengths->heads);
    free(lengths->next);
    free(lengths->any);
}

/* Take the first of the longest samples of at most `len` tokens: index + 1, or 0. */
static uint32_t take_longest(struct lengths *lengths, size_t len)
{
    size_t word = len / 64;
    uint64_t bits = lengths->any[word] & (~(uint64_t)0 >> (63 - len % 64));
    size_t found;
    uint32_t taken;

    while (bits == 0 && word > 0)
        bits = lengths->any[--word];
    if (bits == 0)
        return 0;
    found = 64 * word + 63 - (size_t)__builtin_clzll(bits);
    taken = lengths->heads[found];
    lengths->heads[found] = lengths->next[taken - 1];
    if (lengths->heads[found] == 0)
        lengths->any[word] &= ~((uint64_t)1 << found % 64);
    return taken;
}

/*
 * Filling one row after the other, each time with the longest sample that still fits,
 * gives the rows of first-fit-decreasing: there too, a row gets a sample exactly if the
 * samples before it in order of length have left the room.
 */
size_t dataset_store_pack(const struct dataset_store *store, size_t room,
                          uint32_t **members, size_t **starts)
{
    struct lengths lengths = lengths_new(store, room);
    size_t placed = 0, rows = 0;

    *members = memory_alloc((store->count + 1) * sizeof(uint32_t));
    *starts = memory_alloc((store->count + 1) * sizeof(size_t));
    while (placed < store->count) {
        size_t left = room;
        uint32_t taken;

        while (placed < store->count && (taken = take_longest(&lengths, left)) > 0) {
            uint32_t len = store->samples[taken - 1].len;

            (*members)[placed++] = taken - 1;
            left -= len < left ? len : left;
        }
        (*starts)[++rows] = placed;
    }
    lengths_free(&lengths);
    return rows;
}
