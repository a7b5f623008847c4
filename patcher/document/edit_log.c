/* patcher/document/edit_log.c - a sorted list of edits of the original text, and mapping
 * positions back to it. */
#include "config.h"

#include "patcher/document/edit_log.h"

#include <string.h>

struct ledger {
    struct arena *arena;
    const char *data;
    size_t len;
    struct edit_log_entry *list;
    size_t count, room;
};

struct ledger *edit_log_new(const char *data, size_t len, struct arena *arena)
{
    struct ledger *ledger = arena_alloc(arena, sizeof(*ledger));

    *ledger = (struct ledger) { .arena = arena, .data = data, .len = len };
    return ledger;
}

/* Convert a position of the original text to the current one: add what the first `count`
 * edits inserted or removed. */
static size_t shifted(const struct ledger *ledger, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++)
        at += strlen(ledger->list[i].now) - ledger->list[i].cut;
    return at;
}

static size_t unshifted(const struct ledger *ledger, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++)
        at += ledger->list[i].cut - strlen(ledger->list[i].now);
    return at;
}

/* Return where the text of edit i starts and ends in the current text. */
static size_t begin_of(const struct ledger *ledger, size_t i)
{
    return shifted(ledger, i, ledger->list[i].at);
}

static size_t end_of(const struct ledger *ledger, size_t i)
{
    return begin_of(ledger, i) + strlen(ledger->list[i].now);
}

static void insert_at(struct ledger *ledger, size_t slot, struct edit_log_entry edit)
{
    if (ledger->count == ledger->room) {
        struct edit_log_entry *old = ledger->list;

        ledger->room = ledger->room ? 2 * ledger->room : 16;
        ledger->list = arena_array(ledger->arena, ledger->room, sizeof(*old));
        if (ledger->count > 0)
            memcpy(ledger->list, old, ledger->count * sizeof(*old));
    }
    memmove(ledger->list + slot + 1, ledger->list + slot,
            (ledger->count - slot) * sizeof(*ledger->list));
    ledger->list[slot] = edit;
    ledger->count++;
}

/* Replace the edits first..last-1 and the new one, which overlap, with one edit. */
static void compose(struct ledger *ledger, size_t first, size_t last,
                    const struct edit_log_entry *edit)
{
    size_t begin = begin_of(ledger, first), end = end_of(ledger, last - 1), len;
    const char *text = edit_log_text(ledger, &len);
    struct edit_log_entry whole = { .owner = edit->owner };

    if (edit->at < begin)
        begin = edit->at;
    if (edit->at + edit->cut > end)
        end = edit->at + edit->cut;
    whole.now = arena_printf(ledger->arena, "%.*s%s%.*s", (int)(edit->at - begin),
                             text + begin, edit->now, (int)(end - edit->at - edit->cut),
                             text + edit->at + edit->cut);
    whole.at = unshifted(ledger, first, begin);
    whole.cut = unshifted(ledger, last, end) - whole.at;
    memmove(ledger->list + first, ledger->list + last,
            (ledger->count - last) * sizeof(*ledger->list));
    ledger->count -= last - first;
    insert_at(ledger, first, whole);
}

/* Return whether the ranges overlap.  An insertion at the border of another edit does
 * not. */
static bool overlaps(const struct ledger *ledger, size_t i,
                     const struct edit_log_entry *edit)
{
    size_t begin = begin_of(ledger, i), end = end_of(ledger, i);

    return edit->at < end && edit->at + edit->cut > begin;
}

void edit_log_replace(struct ledger *ledger, const struct edit_log_entry *edit)
{
    size_t first = 0, last;

    while (first < ledger->count && end_of(ledger, first) <= edit->at)
        first++;
    for (last = first; last < ledger->count && overlaps(ledger, last, edit);)
        last++;
    if (last > first)
        compose(ledger, first, last, edit);
    else
        insert_at(ledger, first,
                  (struct edit_log_entry) { unshifted(ledger, first, edit->at), edit->cut,
                                            edit->now, edit->owner });
}

size_t edit_log_entries(const struct ledger *ledger, const struct edit_log_entry **out)
{
    *out = ledger->list;
    return ledger->count;
}

size_t edit_log_origin(const struct ledger *ledger, size_t at)
{
    size_t i = 0;

    while (i < ledger->count && end_of(ledger, i) <= at)
        i++;
    if (i < ledger->count && begin_of(ledger, i) <= at)
        return ledger->list[i].at;
    return unshifted(ledger, i, at);
}

size_t edit_log_origin_end(const struct ledger *ledger, size_t at)
{
    size_t i = 0;

    while (i < ledger->count && begin_of(ledger, i) < at && end_of(ledger, i) <= at)
        i++;
    if (i < ledger->count && begin_of(ledger, i) < at)
        return ledger->list[i].at + ledger->list[i].cut;
    return unshifted(ledger, i, at);
}

const char *edit_log_text(const struct ledger *ledger, size_t *len)
{
    char *out =
        arena_alloc(ledger->arena, shifted(ledger, ledger->count, ledger->len) + 1);
    size_t from = 0, to = 0;

    for (size_t i = 0; i < ledger->count; i++) {
        const struct edit_log_entry *edit = &ledger->list[i];

        memcpy(out + to, ledger->data + from, edit->at - from);
        to += edit->at - from;
        memcpy(out + to, edit->now, strlen(edit->now));
        to += strlen(edit->now);
        from = edit->at + edit->cut;
    }
    memcpy(out + to, ledger->data + from, ledger->len - from);
    *len = to + ledger->len - from;
    return out;
}
