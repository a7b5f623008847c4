/* train/dataset/dataset_pack.c - first-fit-decreasing packing in one pass over
 * lengths. */
#include "config.h"

#include "train/dataset/dataset_pack.h"

#include <stdlib.h>

#include "base/arena.h"

/* Samples by length: a list of the samples of each length, in order, and a bitmap of the
 * lengths that occur. */
struct lengths {
    uint32_t *heads, *next; /* index + 1; 0: none */
    uint64_t *present;      /* one bit per length */
    size_t longest;
};

static struct lengths lengths_new(const struct dataset_store *store,
                                  const uint32_t *samples, size_t count, size_t room)
{
    struct lengths lengths = {
        .heads = memory_alloc((room + 1) * sizeof(uint32_t)),
        .next = memory_alloc((count + 1) * sizeof(uint32_t)),
        .present = memory_alloc((room / 64 + 1) * sizeof(uint64_t)),
    };

    for (size_t i = count; i-- > 0;) {
        size_t own = store->samples[samples[i]].len, len = own < room ? own : room;

        lengths.next[i] = lengths.heads[len];
        lengths.heads[len] = (uint32_t)i + 1;
        lengths.present[len / 64] |= (uint64_t)1 << len % 64;
    }
    return lengths;
}

static void lengths_free(struct lengths *lengths)
{
    free(lengths->heads);
    free(lengths->next);
    free(lengths->present);
}

/* Take the first of the longest samples of at most `len` tokens: index + 1, or 0. */
static uint32_t take_longest(struct lengths *lengths, size_t len)
{
    size_t word = len / 64;
    uint64_t bits = lengths->present[word] & (~(uint64_t)0 >> (63 - len % 64));
    size_t found;
    uint32_t taken;

    while (bits == 0 && word > 0)
        bits = lengths->present[--word];
    if (bits == 0)
        return 0;
    found = 64 * word + 63 - (size_t)__builtin_clzll(bits);
    taken = lengths->heads[found];
    lengths->heads[found] = lengths->next[taken - 1];
    if (lengths->heads[found] == 0)
        lengths->present[word] &= ~((uint64_t)1 << found % 64);
    return taken;
}

/* Filling one row after the other, each time with the longest sample that still fits,
 * gives the rows of first-fit-decreasing: there too, a row gets a sample if and only if
 * the samples before it, in order of length, leave enough room. */
size_t dataset_pack(const struct dataset_store *store, const uint32_t *samples,
                    size_t count, size_t room, uint32_t *members, size_t *starts)
{
    struct lengths lengths = lengths_new(store, samples, count, room);
    size_t placed = 0, rows = 0;

    starts[0] = 0;
    while (placed < count) {
        size_t left = room;
        uint32_t taken;

        while (placed < count && (taken = take_longest(&lengths, left)) > 0) {
            uint32_t len = store->samples[samples[taken - 1]].len;

            members[placed++] = samples[taken - 1];
            left -= len < left ? len : left;
        }
        starts[++rows] = placed;
    }
    lengths_free(&lengths);
    return rows;
}
