/* patcher/document/edit_log.c - a sorted list of edits of the original text, and mapping
 * positions back to it. */
#include "config.h"

#include "patcher/document/edit_log.h"

#include <string.h>

struct edit_log {
    struct arena *arena;
    const char *data;
    size_t len;
    struct edit_log_entry *list;
    size_t count, room;
};

struct edit_log *edit_log_new(const char *data, size_t len, struct arena *arena)
{
    struct edit_log *edit_log = arena_alloc(arena, sizeof(*edit_log));

    *edit_log = (struct edit_log) { .arena = arena, .data = data, .len = len };
    return edit_log;
}

/* Convert a position of the original text to the current one: add what the first `count`
 * edits inserted or removed. */
static size_t to_current(const struct edit_log *edit_log, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++)
        at += strlen(edit_log->list[i].new_text) - edit_log->list[i].cut;
    return at;
}

static size_t to_original(const struct edit_log *edit_log, size_t count, size_t at)
{
    for (size_t i = 0; i < count; i++)
        at += edit_log->list[i].cut - strlen(edit_log->list[i].new_text);
    return at;
}

/* Return where the text of edit i starts and ends in the current text. */
static size_t begin_of(const struct edit_log *edit_log, size_t i)
{
    return to_current(edit_log, i, edit_log->list[i].at);
}

static size_t end_of(const struct edit_log *edit_log, size_t i)
{
    return begin_of(edit_log, i) + strlen(edit_log->list[i].new_text);
}

static void insert_at(struct edit_log *edit_log, size_t slot, struct edit_log_entry edit)
{
    if (edit_log->count == edit_log->room) {
        struct edit_log_entry *old = edit_log->list;

        edit_log->room = edit_log->room ? 2 * edit_log->room : 16;
        edit_log->list = arena_array(edit_log->arena, edit_log->room, sizeof(*old));
        if (edit_log->count > 0)
            memcpy(edit_log->list, old, edit_log->count * sizeof(*old));
    }
    memmove(edit_log->list + slot + 1, edit_log->list + slot,
            (edit_log->count - slot) * sizeof(*edit_log->list));
    edit_log->list[slot] = edit;
    edit_log->count++;
}

/* Replace the edits first..last-1 and the new one, which overlap, with one edit. */
static void merge_overlapping(struct edit_log *edit_log, size_t first, size_t last,
                              const struct edit_log_entry *edit)
{
    size_t begin = begin_of(edit_log, first), end = end_of(edit_log, last - 1), len;
    const char *text = edit_log_text(edit_log, &len);
    struct edit_log_entry whole = { .owner = edit->owner };

    if (edit->at < begin)
        begin = edit->at;
    if (edit->at + edit->cut > end)
        end = edit->at + edit->cut;
    whole.new_text = arena_printf(
        edit_log->arena, "%.*s%s%.*s", (int)(edit->at - begin), text + begin,
        edit->new_text, (int)(end - edit->at - edit->cut), text + edit->at + edit->cut);
    whole.at = to_original(edit_log, first, begin);
    whole.cut = to_original(edit_log, last, end) - whole.at;
    memmove(edit_log->list + first, edit_log->list + last,
            (edit_log->count - last) * sizeof(*edit_log->list));
    edit_log->count -= last - first;
    insert_at(edit_log, first, whole);
}

/* Return whether the ranges overlap.  An insertion at the border of another edit does
 * not. */
static bool overlaps(const struct edit_log *edit_log, size_t i,
                     const struct edit_log_entry *edit)
{
    size_t begin = begin_of(edit_log, i), end = end_of(edit_log, i);

    return edit->at < end && edit->at + edit->cut > begin;
}

void edit_log_replace(struct edit_log *edit_log, const struct edit_log_entry *edit)
{
    size_t first = 0, last;

    while (first < edit_log->count && end_of(edit_log, first) <= edit->at)
        first++;
    for (last = first; last < edit_log->count && overlaps(edit_log, last, edit);)
        last++;
    if (last > first)
        merge_overlapping(edit_log, first, last, edit);
    else
        insert_at(edit_log, first,
                  (struct edit_log_entry) { to_original(edit_log, first, edit->at),
                                            edit->cut, edit->new_text, edit->owner });
}

size_t edit_log_entries(const struct edit_log *edit_log,
                        const struct edit_log_entry **out)
{
    *out = edit_log->list;
    return edit_log->count;
}

size_t edit_log_origin(const struct edit_log *edit_log, size_t at)
{
    size_t i = 0;

    while (i < edit_log->count && end_of(edit_log, i) <= at)
        i++;
    if (i < edit_log->count && begin_of(edit_log, i) <= at)
        return edit_log->list[i].at;
    return to_original(edit_log, i, at);
}

size_t edit_log_origin_end(const struct edit_log *edit_log, size_t at)
{
    size_t i = 0;

    while (i < edit_log->count && begin_of(edit_log, i) < at && end_of(edit_log, i) <= at)
        i++;
    if (i < edit_log->count && begin_of(edit_log, i) < at)
        return edit_log->list[i].at + edit_log->list[i].cut;
    return to_original(edit_log, i, at);
}

const char *edit_log_text(const struct edit_log *edit_log, size_t *len)
{
    char *out = arena_alloc(edit_log->arena,
                            to_current(edit_log, edit_log->count, edit_log->len) + 1);
    size_t from = 0, to = 0;

    for (size_t i = 0; i < edit_log->count; i++) {
        const struct edit_log_entry *edit = &edit_log->list[i];

        memcpy(out + to, edit_log->data + from, edit->at - from);
        to += edit->at - from;
        memcpy(out + to, edit->new_text, strlen(edit->new_text));
        to += strlen(edit->new_text);
        from = edit->at + edit->cut;
    }
    memcpy(out + to, edit_log->data + from, edit_log->len - from);
    *len = to + edit_log->len - from;
    return out;
}
