/*
 * patcher/document/ledger.h - edits made in several passes, each over the text the one before
 * left, kept as edits of the first text.
 */
#ifndef PATCHER_DOCUMENT_LEDGER_H
#define PATCHER_DOCUMENT_LEDGER_H

#include "base/arena.h"
#include "base/text.h"

struct ledger;

/* The text is borrowed.  Lives in the arena. */
struct ledger *ledger_new(const char *data, size_t len, struct arena *arena);

/*
 * Replace `cut` bytes at `at` of the text as it is after all edits so far; `owner` is
 * whose edit it is.  Where it touches what earlier edits wrote, they become one edit, of
 * this owner.
 */
struct ledger_edit {
    size_t at, cut; /* of the first text */
    const char *now;
    size_t owner;
};
void ledger_replace(struct ledger *ledger, const struct ledger_edit *edit);

/* The edits as they stand, by place; owners that lost theirs are not among them. */
size_t ledger_edits(const struct ledger *ledger, const struct ledger_edit **out);
/* Where a byte of the text as it is now was in the first one; inside of what an edit
 * wrote: where that edit begins. */
size_t ledger_origin(const struct ledger *ledger, size_t at);
/* The same of the end of a span: what an edit has taken away behind it is no part of
 * it. */
size_t ledger_origin_end(const struct ledger *ledger, size_t at);
/* The text with all edits made, in the arena, NUL-ended. */
const char *ledger_text(const struct ledger *ledger, size_t *len);

#endif
