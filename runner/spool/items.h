/*
 * runner/spool/items.h - what the watch remembers about names. Those whose file is gone
 * are forgotten, so that it needs memory for the files that are there and the jobs that
 * run, not for all that ever were.
 */
#ifndef RUNNER_SPOOL_ITEMS_H
#define RUNNER_SPOOL_ITEMS_H

#include "runner/options/names.h"
#include "runner/spool/intake.h"

struct items {
    struct names names; /* of struct item */
    uint64_t scan;
    size_t gone; /* about as many can be forgotten */
};

/* Return the item of a name, a new one if there is none. */
struct item *items_find(struct items *items, const char *name);
/* Call items_see for each name between these two. */
void items_begin_scan(struct items *items);
void items_see(const struct items *items, struct item *item);
void items_end_scan(struct items *items);
/* Note that an item was checked. */
void items_note_check(struct items *items, const struct item *item);
/* Forget the items whose file is gone and that nothing needs. Without `all`, do nothing
 * as long as they are few. Return how many were forgotten. */
size_t items_forget(struct items *items, bool all);
void items_clear(struct items *items);

#endif
