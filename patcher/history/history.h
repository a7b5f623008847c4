/* patcher/history/history.h - the edits of all patches that are still visible in a job:
 * each patch is replayed on its backup, and its lines are mapped to the current text. */
#ifndef PATCHER_HISTORY_HISTORY_H
#define PATCHER_HISTORY_HISTORY_H

#include "base/json.h"

struct history_change {
    json_t *edit; /* borrowed from the journal: rule, key, old, new, message, because */
    const char *time; /* of the patch */
    size_t line;      /* in the current text, from 1; 0: removed, or changed since */
};

struct history {
    json_t *journal;
    struct history_change *list; /* by patch, then by position */
    size_t count;
    /* patches whose edits are unknown: no backup, or an old journal */
    size_t unknown_patches;
};

/* Read the history; `now` is the current text of the job.  Call history_clear in any
 * case. */
bool history_read(const char *job, const struct text *now, struct history *out,
                  struct error *err);
void history_clear(struct history *history);

/* Append the text that the last patch or undo wrote to *out.  Return false if there was
 * none, or if its text is no longer known. */
bool history_text_after(const char *job, struct text *out);
/* Append the text from before the last patch or undo, which an undo would restore. */
bool history_text_before(const char *job, struct text *out);

#endif
