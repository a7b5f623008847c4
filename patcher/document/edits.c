/* patcher/document/edits.c - a sorted list of replacements, applied in one pass. */
#include "config.h"

#include "patcher/document/edits.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"

struct edit {
    size_t at, cut;
    char *with;
};

struct edits {
    struct edit *list; /* by position; inserts at one position stay in the order added */
    size_t count, room;
};

struct edits *edits_new(void)
{
    return memory_alloc(sizeof(struct edits));
}

void edits_free(struct edits *edits)
{
    if (!edits)
        return;
    for (size_t i = 0; i < edits->count; i++)
        free(edits->list[i].with);
    free(edits->list);
    free(edits);
}

size_t edits_count(const struct edits *edits)
{
    return edits->count;
}

/* Return the index for an edit: after all edits before its position.  An insert goes
 * before a cut at the same position and after the inserts there. */
static size_t find_slot(const struct edits *edits, size_t at, size_t cut)
{
    size_t slot = edits->count;

    while (slot > 0) {
        const struct edit *before = &edits->list[slot - 1];

        if (before->at < at || (before->at == at && (before->cut == 0 || cut > 0)))
            break;
        slot--;
    }
    return slot;
}

static bool overlaps(const struct edits *edits, size_t slot, size_t at, size_t cut)
{
    if (slot > 0 && edits->list[slot - 1].at + edits->list[slot - 1].cut > at)
        return true;
    return slot < edits->count && edits->list[slot].at < at + cut;
}

bool edits_fit(const struct edits *edits, size_t at, size_t cut)
{
    return at + cut >= at && !overlaps(edits, find_slot(edits, at, cut), at, cut);
}

bool edits_replace(struct edits *edits, size_t at, size_t cut, const char *with,
                   struct error *err)
{
    size_t slot = find_slot(edits, at, cut);

    if (!edits_fit(edits, at, cut))
        return error_set(err, ERROR_JOB, "two edits overlap at byte %zu", at);
    if (edits->count == edits->room) {
        edits->room = edits->room ? 2 * edits->room : 16;
        edits->list = memory_resize(edits->list, edits->room, sizeof(*edits->list));
    }
    memmove(edits->list + slot + 1, edits->list + slot,
            (edits->count - slot) * sizeof(*edits->list));
    edits->list[slot] = (struct edit) { at, cut, memory_strdup(with) };
    edits->count++;
    return true;
}

bool edits_apply(const struct edits *edits, const char *data, size_t len,
                 struct text *out, struct error *err)
{
    size_t at = 0;

    for (size_t i = 0; i < edits->count; i++) {
        const struct edit *edit = &edits->list[i];

        if (edit->at + edit->cut > len)
            return error_set(err, ERROR_JOB,
                             "the edit at byte %zu is past the end of the text",
                             edit->at);
        text_add(out, data + at, edit->at - at);
        text_adds(out, edit->with);
        at = edit->at + edit->cut;
    }
    text_add(out, data + at, len - at);
    if (out->overflow)
        return error_set(err, ERROR_JOB, "the edited text is larger than %zu bytes",
                         out->max);
    return true;
}
