/* patcher/document/edits.h - replacements to make in a text: kept in order, applied at once. */
#ifndef PATCHER_DOCUMENT_EDITS_H
#define PATCHER_DOCUMENT_EDITS_H

#include "base/text.h"

struct edits;

struct edits *edits_new(void);
void edits_free(struct edits *edits);
size_t edits_count(const struct edits *edits);
/* Would edits_replace take it? */
bool edits_fit(const struct edits *edits, size_t at, size_t cut);
/*
 * Replace `cut` bytes at byte `at` by `with` (copied).  cut 0 inserts, with "" deletes.
 * Fails with ERROR_JOB if the cut overlaps one already in the list.
 */
bool edits_replace(struct edits *edits, size_t at, size_t cut, const char *with,
                   struct error *err);
/* The text with all replacements made. */
bool edits_apply(const struct edits *edits, const char *data, size_t len,
                 struct text *out, struct error *err);

#endif
