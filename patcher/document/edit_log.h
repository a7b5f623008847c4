/* patcher/document/edit_log.h - edits made in several passes, each over the result of the
 * pass before, kept as edits of the original text. */
#ifndef PATCHER_DOCUMENT_EDIT_LOG_H
#define PATCHER_DOCUMENT_EDIT_LOG_H

#include "base/arena.h"
#include "base/text.h"

struct edit_log;

/* Borrows the text.  The result is allocated from the arena. */
struct edit_log *edit_log_new(const char *data, size_t len, struct arena *arena);

/*
 * Replace `cut` bytes at `at` of the current text, with all edits so far applied.
 * `owner` identifies who made the edit.  If it overlaps text written by earlier edits,
 * they become one edit with this owner.
 */
struct edit_log_entry {
    size_t at, cut; /* in the original text */
    const char *new_text;
    size_t owner;
};
void edit_log_replace(struct edit_log *edit_log, const struct edit_log_entry *edit);

/* Return the current edits by position; owners whose edits were replaced are not among
 * them. */
size_t edit_log_entries(const struct edit_log *edit_log,
                        const struct edit_log_entry **out);
/* Map a byte of the current text to the original text; inside text that an edit wrote, to
 * the start of that edit. */
size_t edit_log_origin(const struct edit_log *edit_log, size_t at);
/* Map the end of a span likewise.  Text that an edit removed after the span does not
 * belong to it. */
size_t edit_log_origin_end(const struct edit_log *edit_log, size_t at);
/* Return the text with all edits applied, in the arena, NUL-terminated. */
const char *edit_log_text(const struct edit_log *edit_log, size_t *len);

#endif
