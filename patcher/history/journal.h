/*
 * patcher/history/journal.h - the changes of a job: NAME.run/changes.jsonl, one object
 * per line with time, action (patch, undo), before, after (SHA-256), rules, policy,
 * device, backup; for a patch also its edits, each with its reason and its position in
 * the text before the patch.
 */
#ifndef PATCHER_HISTORY_JOURNAL_H
#define PATCHER_HISTORY_JOURNAL_H

#include "base/json.h"
#include "patcher/findings/finding.h"

struct journal_entry {
    const char *action;
    const char *before, *after;
    const char *const *rules; /* ends with NULL */
    /* includes those resolved by an edit; or NULL */
    const struct findings *findings;
    const char *policy, *device;
    const char *backup; /* base name */
};

/* Note that files of the job were removed to save space: their names in NAME.run, which
 * the list takes over. That is no change of the text: the functions below leave it out. */
bool journal_add_removal(const char *job, json_t *names, int64_t bytes,
                         struct error *err);

bool journal_add(const char *job, const struct journal_entry *entry, struct error *err);
/* Return a JSON array, oldest first, without malformed lines (from a crash during a
 * write).  The caller json_decrefs it. */
json_t *journal_read(const char *job, struct error *err);

/* Find out whether a patch or an undo of the job wrote the text with this digest, or
 * replaced it. ERROR_FAULT if that is not known for now. */
bool journal_names(const char *job, const char *digest, bool *known, struct error *err);

/* The same as journal_read, for a text. */
json_t *journal_parse(const char *data, size_t len);

/*
 * Restore what the last patch replaced, or backup `id` (NULL: the last).  The current
 * state is backed up first, so a second undo redoes the change.  Fails with ERROR_JOB if
 * the job was changed since, unless `force`.  *restored (or NULL) is malloc'ed: the path
 * of the backup.
 */
bool journal_undo(const char *job, const char *id, bool force, char **restored,
                  struct error *err);

#endif
