/*
 * patcher/history/history.h - which edits of all patches are still to be seen in a job: each is
 * made again on the backup it was made on, and its line followed into the text as it is.
 */
#ifndef PATCHER_HISTORY_HISTORY_H
#define PATCHER_HISTORY_HISTORY_H

#include "base/json.h"

struct history_change {
    json_t *edit; /* borrowed from the journal: rule, key, old, new, message, because */
    const char *time; /* of the patch */
    size_t line;      /* in the text as it is, from 1; 0: it is gone, or changed since */
};

struct history {
    json_t *journal;
    struct history_change *list; /* by patch, then by place */
    size_t count;
    /* patches whose edits are not known any more: no backup, or an old journal */
    size_t blind;
};

/* `now` is the text of the job as it is.  history_clear in any case. */
bool history_read(const char *job, const struct text *now, struct history *out,
                  struct error *err);
void history_clear(struct history *history);

/* The text that the last patch or undo left, into *out.  False: there was none, or it is
 * not known any more. */
bool history_left(const char *job, struct text *out);
/* The text that it found, which an undo puts back. */
bool history_found(const char *job, struct text *out);

#endif
