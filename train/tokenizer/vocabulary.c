/* train/tokenizer/vocabulary.c - one blob of strings, and a hash table over it with open
 * addressing. */
#include "config.h"

#include "train/tokenizer/vocabulary.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* id + 1, so that zeroed memory is empty; the hash avoids most string comparisons. */
struct slot {
    uint32_t hash, id1;
};

/* The position of the string of an id; NOWHERE: none. */
struct location {
    uint32_t at, len;
};

#define NOWHERE UINT32_MAX

struct vocabulary {
    char *blob;
    size_t used, room;
    struct location *locations;
    size_t limit, ids, size; /* limit of ids; allocated; largest id + 1 */
    struct slot *slots;
    size_t mask, count;
};

/* Eight bytes per round: xor, multiply by 2^64 over the golden ratio, fold. */
static uint32_t hash_bytes(const char *data, size_t len)
{
    uint64_t hash = len, chunk;

    while (len > 0) {
        size_t bytes = len < 8 ? len : 8;

        chunk = 0;
        memcpy(&chunk, data, bytes);
        hash = (hash ^ chunk) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 29;
        data += bytes;
        len -= bytes;
    }
    return (uint32_t)(hash ^ hash >> 32);
}

struct vocabulary *vocabulary_new(size_t ids, size_t strings)
{
    struct vocabulary *vocabulary = memory_alloc(sizeof(*vocabulary));
    size_t slots = 64;

    while (slots < 2 * strings)
        slots *= 2;
    vocabulary->slots = memory_alloc(slots * sizeof(struct slot));
    vocabulary->mask = slots - 1;
    vocabulary->room = 4096;
    vocabulary->blob = memory_alloc(vocabulary->room);
    vocabulary->limit = ids;
    return vocabulary;
}

void vocabulary_free(struct vocabulary *vocabulary)
{
    if (!vocabulary)
        return;
    free(vocabulary->blob);
    free(vocabulary->locations);
    free(vocabulary->slots);
    free(vocabulary);
}

/* The slot of the string, or the empty one where it would be. */
static struct slot *find_slot(const struct vocabulary *vocabulary, const char *data,
                              size_t len, uint32_t hash)
{
    for (size_t i = hash & vocabulary->mask;; i = (i + 1) & vocabulary->mask) {
        struct slot *slot = &vocabulary->slots[i];
        const struct location *location;

        if (slot->id1 == 0)
            return slot;
        if (slot->hash != hash)
            continue;
        location = &vocabulary->locations[slot->id1 - 1];
        if (location->len == len &&
            memcmp(vocabulary->blob + location->at, data, len) == 0)
            return slot;
    }
}

static void grow_slots(struct vocabulary *vocabulary)
{
    size_t slots = 2 * (vocabulary->mask + 1);
    struct slot *old = vocabulary->slots;

    vocabulary->slots = memory_alloc(slots * sizeof(struct slot));
    for (size_t i = 0; i <= vocabulary->mask; i++) {
        size_t at = old[i].hash & (slots - 1);

        if (old[i].id1 == 0)
            continue;
        while (vocabulary->slots[at].id1 != 0)
            at = (at + 1) & (slots - 1);
        vocabulary->slots[at] = old[i];
    }
    vocabulary->mask = slots - 1;
    free(old);
}

static void keep_string(struct vocabulary *vocabulary, const char *data, size_t len)
{
    if (len > vocabulary->room - vocabulary->used) {
        while (len > vocabulary->room - vocabulary->used)
            vocabulary->room *= 2;
        vocabulary->blob = memory_resize(vocabulary->blob, vocabulary->room, 1);
    }
    if (len > 0)
        memcpy(vocabulary->blob + vocabulary->used, data, len);
    vocabulary->used += len;
}

/* Make room for an id: small files get small tables, regardless of the limit of ids. */
static void grow_locations(struct vocabulary *vocabulary, uint32_t id)
{
    size_t ids = vocabulary->ids;

    if (id < ids)
        return;
    vocabulary->ids = (size_t)id + (size_t)id / 2 + 64;
    if (vocabulary->ids > vocabulary->limit)
        vocabulary->ids = vocabulary->limit;
    vocabulary->locations =
        memory_resize(vocabulary->locations, vocabulary->ids, sizeof(struct location));
    memset(vocabulary->locations + ids, 0xff,
           (vocabulary->ids - ids) * sizeof(struct location));
}

bool vocabulary_add(struct vocabulary *vocabulary, const char *data, size_t len,
                    uint32_t id)
{
    uint32_t hash = hash_bytes(data, len);
    struct slot *slot;

    if (id >= vocabulary->limit || len >= NOWHERE - vocabulary->used)
        return false;
    grow_locations(vocabulary, id);
    if (vocabulary->locations[id].at != NOWHERE)
        return false;
    if (2 * (vocabulary->count + 1) > vocabulary->mask)
        grow_slots(vocabulary);
    slot = find_slot(vocabulary, data, len, hash);
    if (slot->id1 != 0)
        return false;
    *slot = (struct slot) { .hash = hash, .id1 = id + 1 };
    vocabulary->locations[id] =
        (struct location) { .at = (uint32_t)vocabulary->used, .len = (uint32_t)len };
    keep_string(vocabulary, data, len);
    vocabulary->count++;
    if (id >= vocabulary->size)
        vocabulary->size = (size_t)id + 1;
    return true;
}

int64_t vocabulary_find(const struct vocabulary *vocabulary, const char *data, size_t len)
{
    return (int64_t)find_slot(vocabulary, data, len, hash_bytes(data, len))->id1 - 1;
}

const char *vocabulary_string(const struct vocabulary *vocabulary, uint32_t id,
                              size_t *len)
{
    if (id >= vocabulary->size || vocabulary->locations[id].at == NOWHERE)
        return NULL;
    *len = vocabulary->locations[id].len;
    return vocabulary->blob + vocabulary->locations[id].at;
}

size_t vocabulary_count(const struct vocabulary *vocabulary)
{
    return vocabulary->count;
}

size_t vocabulary_size(const struct vocabulary *vocabulary)
{
    return vocabulary->size;
}
