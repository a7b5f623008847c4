/*
 * patcher/history/journal.h - what was changed when: NAME.run/changes.jsonl, one object a line:
 * time, action (patch, undo), before, after (SHA-256), rules, policy, device, backup; of
 * a patch also its edits, with the reason of each, as places of the text before it.
 */
#ifndef PATCHER_HISTORY_JOURNAL_H
#define PATCHER_HISTORY_JOURNAL_H

#include "base/json.h"
#include "patcher/findings/finding.h"

struct journal_entry {
    const char *action;
    const char *before, *after;
    const char *const *rules; /* NULL-ended */
    /* those settled by an edit are told with it; or NULL */
    const struct findings *findings;
    const char *policy, *device;
    const char *backup; /* base name */
};

bool journal_add(const char *job, const struct journal_entry *entry, struct error *err);
/* A JSON array, oldest first; broken lines (a crash in the middle) are passed over.
 * Caller json_decrefs. */
json_t *journal_read(const char *job, struct error *err);

/* The same for a text. */
json_t *journal_parse(const char *data, size_t len);

/* Put back what the last patch replaced, or backup `id` (NULL: the last).  The state
 * replaced is backed up first, so a second undo redoes.  Refused with ERROR_JOB if the
 * job was changed since, unless `force`.  *restored (or NULL) is malloc'ed: the path of
 * the backup. */
bool journal_undo(const char *job, const char *id, bool force, char **restored,
                  struct error *err);

#endif
