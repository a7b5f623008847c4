/*
 * runner/options/names.c - a hash table for a spool of thousands of jobs; entries are
 * removed by making it again without them.
 */
#include "config.h"

#include "runner/options/names.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

/* FNV-1a, 64 bits: Fowler, Noll, Vo; offset basis and prime as in draft-eastlake-fnv. */
static uint64_t hash(const char *name)
{
    uint64_t value = 0xcbf29ce484222325u;

    for (; *name; name++)
        value = (value ^ (unsigned char)*name) * 0x100000001b3u;
    return value;
}

static struct names_slot *slot_of(const struct names *names, const char *name)
{
    size_t at = (size_t)hash(name) & (names->room - 1);

    while (names->slots[at].name && strcmp(names->slots[at].name, name) != 0)
        at = (at + 1) & (names->room - 1);
    return &names->slots[at];
}

void *names_find(const struct names *names, const char *name)
{
    return names->room ? slot_of(names, name)->thing : NULL;
}

static void grow(struct names *names)
{
    struct names larger = { .count = names->count,
                            .room = names->room ? 2 * names->room : 64 };

    larger.slots = memory_alloc(larger.room * sizeof(*larger.slots));
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i].name)
            *slot_of(&larger, names->slots[i].name) = names->slots[i];
    free(names->slots);
    *names = larger;
}

void names_add(struct names *names, const char *name, void *thing)
{
    if (4 * (names->count + 1) > 3 * names->room)
        grow(names);
    *slot_of(names, name) = (struct names_slot) { name, thing };
    names->count++;
}

void names_keep(struct names *names, bool (*is_needed)(const void *thing),
                void (*drop)(void *thing))
{
    struct names kept = { 0 };

    for (size_t i = 0; i < names->room; i++) {
        struct names_slot slot = names->slots[i];

        if (slot.name && is_needed(slot.thing))
            names_add(&kept, slot.name, slot.thing);
        else if (slot.name)
            drop(slot.thing);
    }
    free(names->slots);
    *names = kept;
}

void names_clear(struct names *names, void (*drop)(void *thing))
{
    for (size_t i = 0; i < names->room; i++)
        if (names->slots[i].name && drop)
            drop(names->slots[i].thing);
    free(names->slots);
    *names = (struct names) { 0 };
}
