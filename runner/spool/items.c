/* runner/spool/items.c - a table that is made again without the names that are gone. */
#include "config.h"

#include "runner/spool/items.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/user.h"

void item_free(void *freed)
{
    struct item *item = freed;

    free(item->waits_for);
    free(item->trouble);
    free(item->name);
    free(item);
}

void item_count(struct item *item, struct people *people, bool waits)
{
    struct person *person;

    if (!people->on || item->counted == waits)
        return;
    if (waits)
        item->counted_for = item->user;
    person = people_find(people, item->counted_for);
    person->queued += waits ? 1 : (size_t)-1;
    item->counted = waits;
}

bool item_may_wait(struct item *item, struct people *people, struct error *err)
{
    char why[256];

    if (!item->counted && !item->returns && !people_may_queue(people, item->user, why))
        return error_set(err, ERROR_SYSTEM, "%.*s", (int)strcspn(why, ";"), why);
    item->returns = false;
    item_count(item, people, true);
    return true;
}

/* The state, and whether there is a request about it or it is held. */
static void state_source(const struct job *job, char out[64])
{
    struct stat st;

    out[0] = 0;
    if (lstat(job->state, &st) == 0)
        job_source(&st, out);
    if (lstat(job->cancel, &st) == 0)
        snprintf(out + strlen(out), 64 - strlen(out), "+");
    if (gate_is_held(job))
        snprintf(out + strlen(out), 64 - strlen(out), "h");
}

void item_note_known(struct item *item, const struct job *job, const char *source)
{
    snprintf(item->known, sizeof(item->known), "%s", source);
    if (source != item->history.source)
        snprintf(item->history.source, sizeof(item->history.source), "%s", source);
    state_source(job, item->known_state);
    item->reported = false;
}

bool item_is_unchanged(const struct item *item, const struct job *job)
{
    char state[64];

    if (!item->known[0] || item->finish || item->elsewhere ||
        strcmp(item->known, item->history.source) != 0 || item->gate == GATE_AFTER ||
        item->gate == GATE_BEGIN || item->gate == GATE_SWEEP)
        return false;
    state_source(job, state);
    return strcmp(state, item->known_state) == 0;
}

/* Names that may be kept in vain, besides as many as there are files. */
enum { FEW = 64 };

struct item *items_find(struct items *items, const char *name)
{
    struct item *item = names_find(&items->names, name);

    if (item)
        return item;
    item = memory_alloc(sizeof(*item));
    item->name = memory_strdup(name);
    item->user = USER_NONE;
    item->seen = items->scan;
    names_add(&items->names, item->name, item);
    return item;
}

void items_begin_scan(struct items *items)
{
    items->scan++;
}

void items_see(const struct items *items, struct item *item)
{
    item->seen = items->scan;
    item->gone = false;
}

void items_end_scan(struct items *items)
{
    for (size_t i = 0; i < items->names.room; i++) {
        struct item *item = items->names.slots[i].thing;

        if (item && item->seen != items->scan)
            item->gone = true;
    }
}

void items_note_check(struct items *items, const struct item *item)
{
    items->gone += item->gone;
}

/* The queue has names of its own. */
static bool is_needed(const void *thing)
{
    const struct item *item = thing;

    return !item->gone || item->pending || item->current || item->found || item->flush ||
           item->examined || item->waits_for || item->counted;
}

size_t items_forget(struct items *items, bool all)
{
    const size_t before = items->names.count;

    if (!all && items->gone <= FEW + before / 2)
        return 0;
    items->gone = 0;
    names_keep(&items->names, is_needed, item_free);
    return before - items->names.count;
}

void items_clear(struct items *items)
{
    names_clear(&items->names, item_free);
    items->gone = 0;
}
