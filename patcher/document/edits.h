/* patcher/document/edits.h - replacements in a text: kept in order, applied in one
 * pass. */
#ifndef PATCHER_DOCUMENT_EDITS_H
#define PATCHER_DOCUMENT_EDITS_H

#include "base/text.h"

struct edits;

struct edits *edits_new(void);
void edits_free(struct edits *edits);
size_t edits_count(const struct edits *edits);
/* Return whether edits_replace would accept the range. */
bool edits_fit(const struct edits *edits, size_t at, size_t cut);
/* Replace `cut` bytes at byte `at` with `with` (copied).  cut 0 inserts; with "" deletes.
 * Fails with ERROR_JOB if the range overlaps one already in the list. */
bool edits_replace(struct edits *edits, size_t at, size_t cut, const char *with,
                   struct error *err);
/* Append the text with all replacements applied to *out. */
bool edits_apply(const struct edits *edits, const char *data, size_t len,
                 struct text *out, struct error *err);

#endif
